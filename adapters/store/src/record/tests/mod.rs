//! Every record comes back as it was, and what cannot be read says why.

mod draw;
mod draw_entry;
mod draw_spec;

use persys_cluster::record::Head;
use persys_model::assignment::{Assignment, Grave};
use persys_model::drift::Drift;
use persys_model::event::Event;
use persys_model::lease::Lease;
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
    const USERS_OWN: [&str; 7] =
        ["agent_labels", "env", "former", "labels", "metadata", "statusInfo", "values"];
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

/// A record as a release wrote it that had none of the names of the earlier system, or had other
/// values under them: it is read as it is, and they are made anew.
fn before_the_earlier_names<R: Record + PartialEq + std::fmt::Debug>(record: &R) {
    let bytes = encode(record, None).unwrap();
    let mut value: Value = serde_json::from_slice(&bytes).unwrap();
    let fields = value.as_object_mut().unwrap();
    for name in R::BESIDE {
        fields.remove(*name);
    }
    let (back, unknown) = decode::<R>(&serde_json::to_vec(&value).unwrap()).unwrap();
    assert_eq!((&back, &unknown), (record, &None));
    let fields = value.as_object_mut().unwrap();
    fields.extend(R::BESIDE.iter().map(|name| ((*name).to_owned(), json!("stale"))));
    let (back, unknown) = decode::<R>(&serde_json::to_vec(&value).unwrap()).unwrap();
    assert_eq!((&back, &unknown), (record, &None));
    assert_eq!(encode(&back, None).unwrap(), bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nodes_come_back(node in draw::node()) {
        comes_back::<Node>(&node);
        before_the_earlier_names(&node);
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
        before_the_earlier_names(&workload);
        keeps_unknown(&workload);
    }

    #[test]
    fn assignments_come_back(assignment in draw::assignment()) {
        comes_back::<Assignment>(&assignment);
        before_the_earlier_names(&assignment);
        keeps_unknown(&assignment);
    }

    #[test]
    fn small_records_come_back(
        retry in draw::retry(),
        grave in draw::grave(),
        drift in draw::drift(),
        lease in draw::lease(),
        head in draw::head(),
        leader in draw::leader(),
    ) {
        comes_back::<Retry>(&retry);
        comes_back::<Grave>(&grave);
        comes_back::<Drift>(&drift);
        comes_back::<Lease>(&lease);
        comes_back::<Head>(&head);
        comes_back::<Leader>(&leader);
        keeps_unknown(&drift);
        before_the_earlier_names(&retry);
        before_the_earlier_names(&drift);
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
        before_the_earlier_names(&volume);
        before_the_earlier_names(&attachment);
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
        mark_key: std::sync::Arc::from(""),
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

fn text_of<R: Record>(record: &R) -> String {
    String::from_utf8(encode(record, None).unwrap()).unwrap()
}

/// The names that an operator of the earlier system knows stand beside ours.
#[test]
fn an_operator_of_the_earlier_system_finds_its_names() {
    let lease = Lease {
        node: persys_model::id::NodeId::fixed("n1"),
        session: persys_model::token::Session(3),
        state: persys_model::lease::LeaseState::Held,
        length_ms: 6000,
        since: persys_model::time::WallMillis(0),
    };
    assert_eq!(
        text_of(&lease),
        r#"{"v":1,"node":"n1","session":3,"state":"held","length_ms":6000,"since_ms":0,"nodeId":"n1","statusUpdatedAt":"1970-01-01T00:00:00.000Z"}"#
    );
    let retry = Retry {
        workload: persys_model::id::WorkloadId::fixed("web"),
        attempts: 2,
        max_attempts: 5,
        next_at: Some(persys_model::time::WallMillis(1500)),
        avoid: Vec::new(),
    };
    assert_eq!(
        text_of(&retry),
        r#"{"v":1,"workload":"web","attempts":2,"max_attempts":5,"next_ms":1500,"workloadId":"web","maxAttempts":5,"nextRetryAt":"1970-01-01T00:00:01.500Z"}"#
    );
    let outcome = persys_model::reconciliation::Reconciliation {
        workload: persys_model::id::WorkloadId::fixed("web"),
        node: Some(persys_model::id::NodeId::fixed("n1")),
        action: persys_model::reconciliation::Action::Apply,
        success: true,
        reason: "Running".into(),
        attempted_at: persys_model::time::WallMillis(0),
    };
    let bytes = super::encode_reconciliation(&outcome).unwrap();
    assert_eq!(
        String::from_utf8(bytes).unwrap(),
        r#"{"v":1,"workloadId":"web","nodeId":"n1","action":"apply","success":true,"reason":"Running","attemptedAt":"1970-01-01T00:00:00.000Z"}"#
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No name of the earlier system hides one of ours, and each is announced.
    #[test]
    fn names_of_the_earlier_system_are_apart_from_ours(
        node in draw::node(),
        workload in draw_spec::workload(),
        assignment in draw::assignment(),
        volume in draw::volume(),
        attachment in draw::attachment(),
    ) {
        fn apart<R: Record>(record: &R) -> Value {
            let ours = serde_json::to_value(record.shape()).unwrap();
            let all: Value = serde_json::from_str(&text_of(record)).unwrap();
            for name in all.as_object().unwrap().keys() {
                let own = ours.get(name).is_some();
                assert!(own != R::BESIDE.contains(&name.as_str()), "{name}");
            }
            all
        }
        let seen = apart(&node);
        prop_assert_eq!(&seen["nodeId"], node.facts.id.as_str());
        prop_assert_eq!(&seen["status"], node.status_word());
        prop_assert_eq!(seen["totalMemory"].as_u64(), Some(node.facts.capacity.memory_mib));
        prop_assert!(seen["totalCpu"].is_number());
        let seen = apart(&workload);
        prop_assert_eq!(&seen["desiredState"], workload.desired.word());
        let seen = apart(&assignment);
        prop_assert_eq!(&seen["statusInfo"]["actualState"], assignment.phase.word());
        apart(&volume);
        apart(&attachment);
    }
}
