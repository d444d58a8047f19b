//! Every record comes back as it was, and what cannot be read says why.

mod draw;
mod draw_entry;
mod draw_spec;

use persys_cluster::record::Head;
use persys_model::assignment::{Assignment, Grave};
use persys_model::drift::Drift;
use persys_model::event::Event;
use persys_model::node::Node;
use persys_model::retry::Retry;
use persys_model::volume::{Attachment, Volume};
use persys_model::workload::Workload;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Leader, Record, decode, decode_entry, encode, encode_entry};

/// What is written is read back, nothing in it is unknown, and writing it again changes no byte.
fn comes_back<R: Record + PartialEq + std::fmt::Debug>(record: &R) {
    let bytes = encode(record, None).unwrap();
    let (back, unknown) = decode::<R>(&bytes).unwrap();
    assert_eq!(&back, record);
    assert_eq!(unknown, None);
    assert_eq!(encode(&back, None).unwrap(), bytes);
}

/// Fields that a newer release wrote, on top and in objects with a fixed set of fields, survive.
fn keeps_unknown<R: Record + PartialEq + std::fmt::Debug>(record: &R) {
    const USERS_OWN: [&str; 5] = ["agent_labels", "env", "former", "labels", "metadata"];
    fn add(value: &mut Value) {
        // An enum has one field: its variant.
        if let Value::Object(fields) = value
            && fields.len() > 1
        {
            fields
                .iter_mut()
                .filter(|(field, _)| !USERS_OWN.contains(&field.as_str()))
                .for_each(|(_, inner)| add(inner));
            fields.insert("zz_new".to_owned(), json!({ "deep": [1, 2] }));
        }
    }
    let mut value: Value = serde_json::from_slice(&encode(record, None).unwrap()).unwrap();
    add(&mut value);
    let (back, unknown) = decode::<R>(&serde_json::to_vec(&value).unwrap()).unwrap();
    assert_eq!(&back, record);
    let again = encode(&back, unknown.as_ref()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&again).unwrap(), value);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nodes_come_back(node in draw::node()) {
        comes_back::<Node>(&node);
        keeps_unknown(&node);
        // As a release wrote it that knew nothing of missing runtimes.
        let mut value: Value = serde_json::from_slice(&encode(&node, None).unwrap()).unwrap();
        value.as_object_mut().unwrap().remove("missing");
        let (old, _) = decode::<Node>(&serde_json::to_vec(&value).unwrap()).unwrap();
        prop_assert!(old.facts.missing.is_empty() && old.facts.types == node.facts.types);
    }

    #[test]
    fn workloads_come_back(workload in draw_spec::workload()) {
        comes_back::<Workload>(&workload);
        keeps_unknown(&workload);
    }

    #[test]
    fn assignments_come_back(assignment in draw::assignment()) {
        comes_back::<Assignment>(&assignment);
        keeps_unknown(&assignment);
    }

    #[test]
    fn small_records_come_back(
        retry in draw::retry(),
        grave in draw::grave(),
        drift in draw::drift(),
        head in draw::head(),
        leader in draw::leader(),
    ) {
        comes_back::<Retry>(&retry);
        comes_back::<Grave>(&grave);
        comes_back::<Drift>(&drift);
        comes_back::<Head>(&head);
        comes_back::<Leader>(&leader);
        keeps_unknown(&drift);
    }

    #[test]
    fn other_records_come_back(entry in draw_entry::entry()) {
        let bytes = encode_entry(&entry, None).unwrap();
        let (back, unknown) = decode_entry(entry.key().kind, &bytes).unwrap();
        prop_assert_eq!(&back, &entry);
        prop_assert_eq!(unknown, None);
        prop_assert_eq!(encode_entry(&back, None).unwrap(), bytes);
    }

    #[test]
    fn volumes_come_back(volume in draw::volume(), attachment in draw::attachment()) {
        comes_back::<Volume>(&volume);
        comes_back::<Attachment>(&attachment);
        keeps_unknown(&volume);
        keeps_unknown(&attachment);
    }

    #[test]
    fn events_come_back(event in draw::event()) {
        comes_back::<Event>(&event);
    }

    /// Bytes cut off or changed anywhere are refused or read, and never end the process.
    #[test]
    fn damaged_bytes_are_refused(
        workload in draw_spec::workload(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = encode(&workload, None).unwrap();
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
            prop_assert!(decode::<Workload>(&bytes).is_err());
        } else {
            bytes[at] = byte;
            drop(decode::<Workload>(&bytes));
        }
    }
}

#[test]
fn an_operator_can_read_it() {
    let head = Head {
        cluster: "c1".into(),
        incarnation: 0,
        seq: persys_model::token::CommitSeq(7),
        epoch: persys_model::token::Epoch(3),
        event: persys_model::token::EventSeq(9),
        audit: persys_model::audit::AuditHead::default(),
        rebuilding: false,
    };
    assert_eq!(
        String::from_utf8(encode(&head, None).unwrap()).unwrap(),
        r#"{"v":1,"cluster":"c1","incarnation":0,"seq":7,"epoch":3,"event":9}"#
    );
}

#[test]
fn a_refusal_says_why_and_quotes_nothing() {
    for (bytes, why) in [
        ("", "is not JSON: see line 1, column 0"),
        ("\u{0}\u{1}hunter2", "is not JSON: see line 1, column 1"),
        ("[1,2]", "is not a record of ours: it has no version"),
        (r#"{"nodeId":"n1","status":"Ready"}"#, "is not a record of ours: it has no version"),
        (r#"{"v":2,"workload":"hunter2"}"#, "has version 2; this release reads version 1"),
        (r#"{"v":2,"workload":"web","attempts":1}"#, "has version 2; this release reads version 1"),
        (
            r#"{"v":1,"workload":"web","attempts":"hunter2"}"#,
            "is not a record of version 1: see line 1, column 44",
        ),
        (r#"{"v":1,"workload":"../web","attempts":1}"#, "workload has the character '/'"),
    ] {
        let found = decode::<Retry>(bytes.as_bytes()).unwrap_err();
        assert!(found.starts_with(why), "{bytes}: {found}");
        assert!(!found.contains("hunter2"), "{found}");
    }
}
