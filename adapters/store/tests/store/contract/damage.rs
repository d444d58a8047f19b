//! What cannot be read is neither believed nor lost.

use std::sync::Arc;

use persys_cluster::record::Write;
use persys_model::token::CommitSeq;
use persys_store::{Error, Settings};
use serde_json::{Value, json};

use super::sample::{Pen, node, running, workload};
use super::{Fixture, TTL_MS, lead};

async fn three_workloads<F: Fixture>(fixture: &F) -> Pen {
    let store = fixture.store();
    let term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    let mut units = vec![pen.unit(vec![Write::PutNode(node(1)), Write::PutNode(node(2))])];
    units.extend((1..=3).map(|number| pen.unit(running(number, number))));
    store.commit(term, CommitSeq(0), units).await.unwrap();
    pen
}

pub async fn what_cannot_be_read_is_kept_aside<F: Fixture>() {
    let mut fixture = F::new(Settings::default()).await;
    three_workloads(&fixture).await;
    let twin = fixture.bytes("/workloads/work-00001").await.unwrap();
    let newer = br#"{"v":2,"id":"work-00002","shape":"unheard of"}"#;
    let bad: [(&str, &[u8], &str); 12] = [
        ("/assignments/broken", b"{\"v\":1", "is not JSON: see line 1, column 6"),
        (
            "/attachments/n1/web/local:data",
            br#"{"v":1}"#,
            "is not a record of version 1: see line 1, column 7",
        ),
        ("/drifts/a/b/c", b"null", "is not a record of ours: it has no version"),
        ("/graves/x", b"", "is not JSON: see line 1, column 0"),
        ("/meta/notes", b"hello", "is nothing of ours"),
        ("/nodes/NODE", br#"{"v":1}"#, "is not a record of version 1: see line 1, column 7"),
        ("/nodes/node-00001", b"\xff\xfe\x00", "is not JSON: see line 1, column 1"),
        ("/retries/r", br#"{"attempts":1}"#, "is not a record of ours: it has no version"),
        ("/stray", b"{}", "is nothing of ours"),
        ("/volumes/local:data", b"\x00", "is not JSON: see line 1, column 1"),
        ("/workloads/copy", &twin, "belongs under /workloads/work-00001"),
        ("/workloads/work-00002", newer, "has version 2; this release reads version 1"),
    ];
    for (key, bytes, _) in bad {
        fixture.put_bytes(key, bytes).await;
    }

    let store = fixture.store();
    let term = lead(&store, "a#1").await;
    let loaded = store.load(term, None).await.unwrap();
    let found: Vec<_> =
        loaded.quarantined.iter().map(|found| (found.key.as_str(), found.why.as_str())).collect();
    let expected: Vec<_> = bad.iter().map(|(key, _, why)| (*key, *why)).collect();
    assert_eq!(found, expected);
    assert_eq!(loaded.snapshot.nodes, [node(2)]);
    assert_eq!(loaded.snapshot.workloads, [workload(1), workload(3)]);
    assert_eq!(loaded.snapshot.assignments.len(), 3);
    for (key, bytes, _) in bad {
        assert_eq!(fixture.bytes(key).await.as_deref(), Some(bytes), "{key} is where it was");
    }

    // Two of the keys are needed again: what was there moves aside, in the same commit.
    let store = fixture.store();
    let term = lead(&store, "a#1").await;
    let loaded = store.load(term, None).await.unwrap();
    assert_eq!(loaded.quarantined.len(), bad.len());
    let mut pen = Pen::after(&loaded.snapshot);
    let (after, seq) = (pen.head.seq, pen.head.seq.next());
    let unit =
        pen.unit(vec![Write::PutNode(node(1)), Write::DeleteWorkload(workload(2).id.clone())]);
    store.commit(term, after, vec![unit]).await.unwrap();
    let aside = fixture.bytes(&format!("/quarantine/nodes/node-00001@{seq}")).await;
    assert_eq!(aside.as_deref(), Some(bad[6].1));
    let aside = fixture.bytes(&format!("/quarantine/workloads/work-00002@{seq}")).await;
    assert_eq!(aside.as_deref(), Some(newer.as_slice()));

    let store = fixture.store();
    let term = lead(&store, "a#1").await;
    let loaded = store.load(term, None).await.unwrap();
    assert_eq!(loaded.snapshot.nodes, [node(1), node(2)]);
    assert_eq!(loaded.quarantined.len(), bad.len() - 2);
}

pub async fn a_head_that_cannot_be_read_stops_everything<F: Fixture>() {
    let mut fixture = F::new(Settings::default()).await;
    let pen = three_workloads(&fixture).await;
    let good = fixture.bytes("/meta/head").await.unwrap();
    for bad in [&b"garbage"[..], br#"{"v":2,"seq":7}"#, b""] {
        fixture.put_bytes("/meta/head", bad).await;
        let store = fixture.store();
        let term = lead(&store, "a#1").await;
        let refused = store.load(term, None).await.unwrap_err();
        assert!(matches!(&refused, Error::Unreadable { key, .. } if key == "/meta/head"));
        assert_eq!(refused.reply(), persys_cluster::store::StoreReply::Unavailable);
        let unit = pen.clone().unit(running(9, 9));
        for after in [0, pen.head.seq.0] {
            let refused = store.commit(term, CommitSeq(after), vec![unit.clone()]).await;
            assert!(matches!(refused, Err(Error::Unreadable { .. })), "{refused:?}");
        }
        assert_eq!(fixture.bytes("/meta/head").await.as_deref(), Some(bad));
    }
    // Once it is mended, all is as before.
    fixture.put_bytes("/meta/head", &good).await;
    let store = fixture.store();
    let term = lead(&store, "a#1").await;
    assert_eq!(store.load(term, Some(&pen.known())).await.unwrap().snapshot.workloads.len(), 3);
}

/// Stores that keep the leader elsewhere may win; none may count back.
pub async fn a_leader_that_cannot_be_read_is_not_guessed<F: Fixture>() {
    let mut fixture = F::new(Settings::default()).await;
    let store = fixture.store();
    lead(&store, "a#1").await;
    store.campaign(&Arc::from("a#1"), TTL_MS).await.unwrap();
    let last = match store.campaign(&Arc::from("a#1"), TTL_MS).await.unwrap() {
        persys_store::Campaign::Won(term) => term,
        persys_store::Campaign::HeldBy(..) => return,
    };
    fixture.put_bytes("/meta/leader", b"garbage").await;
    match fixture.store().campaign(&Arc::from("a#1"), TTL_MS).await {
        Ok(persys_store::Campaign::Won(term)) => assert!(term > last),
        Ok(persys_store::Campaign::HeldBy(holder, _)) => panic!("{holder} leads"),
        Err(refused) => assert!(matches!(refused, Error::Unreadable { .. }), "{refused}"),
    }
}

pub async fn fields_of_a_newer_release_survive<F: Fixture>() {
    let mut fixture = F::new(Settings::default()).await;
    three_workloads(&fixture).await;
    let key = "/workloads/work-00002";
    let mut value: Value = serde_json::from_slice(&fixture.bytes(key).await.unwrap()).unwrap();
    value["owner"] = json!("team-a");
    value["spec"]["placement"]["zone"] = json!({ "spread": true });
    fixture.put_bytes(key, &serde_json::to_vec_pretty(&value).unwrap()).await;

    for generation in 2..4 {
        let store = fixture.store();
        let term = lead(&store, "a#1").await;
        let loaded = store.load(term, None).await.unwrap();
        assert_eq!(loaded.quarantined, []);
        let mut changed = (*loaded.snapshot.workloads[1]).clone();
        changed.generation = changed.generation.next();
        let mut pen = Pen::after(&loaded.snapshot);
        let after = pen.head.seq;
        let unit = pen.unit(vec![Write::PutWorkload(Arc::new(changed))]);
        store.commit(term, after, vec![unit]).await.unwrap();
        let value: Value = serde_json::from_slice(&fixture.bytes(key).await.unwrap()).unwrap();
        assert_eq!(value["generation"], json!(generation));
        assert_eq!(value["owner"], json!("team-a"));
        assert_eq!(value["spec"]["placement"]["zone"], json!({ "spread": true }));
    }
}
