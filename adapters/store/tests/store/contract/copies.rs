//! A store can be copied into another, and nothing of it is lost or made up.

use std::sync::Arc;

use persys_cluster::record::Write;
use persys_model::drift::DriftKind;
use persys_model::token::CommitSeq;
use persys_store::{Campaign, Error, Pairs, Settings, Span};

use super::sample::{Pen, attachment, drift, entries, grave, node, retry, running, volume};
use super::{Fixture, lead};

/// Something of every kind, what cannot be read and what is nothing of ours among it.
async fn used<F: Fixture>(settings: Settings) -> F {
    let root = settings.root.clone();
    let mut fixture = F::new(settings).await;
    let store = fixture.store();
    let term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    let mut units = vec![pen.unit(vec![
        Write::PutNode(node(1)),
        Write::PutRetry(retry(1)),
        Write::PutGrave(grave(1, 7)),
        Write::PutDrift(drift(1, 8, DriftKind::OrphanOnAgent)),
        Write::PutVolume(volume(1)),
        Write::PutAttachment(attachment(1, 1)),
    ])];
    units.push(pen.unit(entries(1).into_iter().map(Write::PutEntry).collect()));
    units.extend((2..=300).map(|number| pen.unit(running(number, number))));
    store.commit(term, CommitSeq(0), units).await.unwrap();
    for (key, bytes) in UNREADABLE {
        fixture.put_bytes(&format!("{root}{key}"), bytes).await;
    }
    fixture
}

const UNREADABLE: [(&str, &[u8]); 4] = [
    ("/nodes/node-00009", b"\xff\x00 not a node"),
    ("/quarantine/nodes/node-00001@3", b"{ \"v\": 9 }\n"),
    ("/events/00000000000000000001-00000000000000000000", b""),
    ("/notes", b"somebody's"),
];

/// What is there once nobody leads any more.
async fn copy_of<F: Fixture>(fixture: &mut F) -> Pairs {
    let copy = fixture.store().dump().await.unwrap();
    assert!(copy.is_sorted() && copy.iter().all(|(key, _)| key.starts_with('/')));
    assert!(copy.iter().all(|(key, _)| key != "/meta/leader"), "who leads is in no copy");
    copy
}

pub async fn a_copy_is_the_same_byte_for_byte<F: Fixture>() {
    let mut from: F = used(Settings::default()).await;
    let copy = copy_of(&mut from).await;
    // Workload, assignment and event of each; head; node, retry, grave, drift, volume, attachment;
    // other records.
    assert_eq!(copy.len(), 3 * 299 + 1 + 6 + entries(1).len() + UNREADABLE.len());
    for (key, bytes) in UNREADABLE {
        let found = copy.iter().find(|(found, _)| found == key).map(|(_, bytes)| bytes.as_slice());
        assert_eq!(found, Some(bytes), "{key}");
    }
    for key in ["/meta/head", "/workloads/work-00002"] {
        let bytes = from.bytes(key).await;
        assert!(copy.iter().any(|(found, copied)| found == key && Some(copied) == bytes.as_ref()));
    }

    let mut to = F::new(Settings::default()).await;
    to.store().fill(copy.clone()).await.unwrap();
    assert_eq!(copy_of(&mut to).await, copy);
    to.succeed().await;
    assert_eq!(copy_of(&mut to).await, copy, "it lasts");

    // And it is a store like any other: the same is read from both.
    from.succeed().await;
    let (one, other) = (from.store(), to.store());
    let (term, its) = (lead(&one, "b#1").await, lead(&other, "b#1").await);
    let loaded = one.load(term, None).await.unwrap();
    assert_eq!(other.load(its, None).await.unwrap(), loaded);
    assert_eq!(loaded.snapshot.workloads.len(), 299);
    assert_eq!(loaded.quarantined.len(), 2);
    let last = Span::Last(5);
    assert_eq!(other.events(last).await.unwrap(), one.events(last).await.unwrap());
    let mut pen = Pen::after(&loaded.snapshot);
    let after = pen.head.seq;
    other.commit(its, after, vec![pen.unit(running(900, 900))]).await.unwrap();
}

pub async fn a_copy_goes_under_another_root<F: Fixture>() {
    let blue = Settings { root: "/persys/blue".to_owned(), ..Settings::default() };
    let green = Settings { root: "/green".to_owned(), ..Settings::default() };
    let mut from: F = used(blue).await;
    from.put_bytes("/persys/other/nodes/n1", b"of somebody else").await;
    let copy = copy_of(&mut from).await;
    assert!(copy.iter().any(|(key, _)| key == "/nodes/node-00001"), "the root is taken off");
    let mut to = F::new(green).await;
    // What is not below the root is not ours and in nobody's way.
    to.put_bytes("/nodes/node-00001", b"of somebody else").await;
    to.store().fill(copy.clone()).await.unwrap();
    assert_eq!(copy_of(&mut to).await, copy);
    assert!(to.bytes("/green/nodes/node-00001").await.is_some());
    assert_eq!(to.bytes("/nodes/node-00001").await.as_deref(), Some(&b"of somebody else"[..]));
}

pub async fn nothing_is_filled_that_holds_something<F: Fixture>() {
    let mut from: F = used(Settings::default()).await;
    let copy = copy_of(&mut from).await;
    // One that is used, even by the same cluster.
    from.succeed().await;
    let refused = from.store().fill(copy.clone()).await.unwrap_err();
    assert!(matches!(refused, Error::NotEmpty { .. }), "{refused}");
    assert_eq!(copy_of(&mut from).await, copy, "nothing was touched");
    // One that holds a single record that is not in the copy, or other bytes under a key of it.
    for (key, bytes) in [
        ("/nodes/node-00077", &b"{}"[..]),
        ("/nodes/node-00001", b"{}"),
        ("/events/00000000000000000001-00000000000000000077", b"{}"),
        ("/strange", b""),
    ] {
        let mut to = F::new(Settings::default()).await;
        to.put_bytes(key, bytes).await;
        let refused = to.store().fill(copy.clone()).await.unwrap_err();
        assert_eq!(refused, Error::NotEmpty { key: key.to_owned() });
        assert_eq!(copy_of(&mut to).await, [(key.to_owned(), bytes.to_vec())]);
    }
}

pub async fn an_interrupted_filling_is_done_again<F: Fixture>() {
    let mut from: F = used(Settings::default()).await;
    let copy = copy_of(&mut from).await;
    let mut to = F::new(Settings::default()).await;
    for (key, bytes) in copy.iter().filter(|(key, _)| key != "/meta/head").step_by(90) {
        to.put_bytes(key, bytes).await;
    }
    // It is no store yet.
    let store = to.store();
    match store.campaign(&Arc::from("x#1"), super::TTL_MS).await.unwrap() {
        Campaign::Won(term) => {
            assert_eq!(store.load(term, None).await.unwrap().snapshot.head, None);
            store.resign(term).await.unwrap();
        }
        Campaign::HeldBy(holder, _) => panic!("{holder} leads"),
    }
    to.store().fill(copy.clone()).await.unwrap();
    assert_eq!(copy_of(&mut to).await, copy);
}
