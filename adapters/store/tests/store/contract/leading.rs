//! Who leads.

use std::sync::Arc;

use persys_model::token::CommitSeq;
use persys_store::{Campaign, Error, Loaded, Settings, Span, Store};

use super::sample::{Pen, node};
use super::{Fixture, TTL_MS, lead};
use persys_cluster::record::Write;

pub async fn one_candidate_leads<F: Fixture>() {
    let fixture = F::new(Settings::default()).await;
    let store = fixture.store();
    let first = lead(&store, "a#1").await;
    store.renew(first).await.unwrap();

    let other: Arc<str> = Arc::from("b#1");
    let lost = store.campaign(&other, TTL_MS).await.unwrap();
    assert_eq!(lost, Campaign::HeldBy(Arc::from("a#1"), None));
    store.renew(first).await.unwrap();
    let mut pen = Pen::new();
    let unit = pen.unit(Vec::new());
    store.commit(first, CommitSeq(0), vec![unit]).await.unwrap();
    let lost = store.campaign(&other, TTL_MS).await.unwrap();
    let reached = Some(pen.known());
    assert_eq!(lost, Campaign::HeldBy(Arc::from("a#1"), reached), "those who follow remember");

    store.resign(first).await.unwrap();
    refuses_all(&store, first).await;
    let second = lead(&store, "b#1").await;
    assert!(second > first);
    refuses_all(&store, first).await;
    store.renew(second).await.unwrap();
}

/// An ended term can do nothing, and what it tried did not happen.
async fn refuses_all(store: &Arc<dyn Store>, term: persys_model::token::Term) {
    let unit = Pen::new().unit(vec![Write::PutNode(node(1))]);
    assert_eq!(store.renew(term).await, Err(Error::Deposed));
    assert_eq!(store.resign(term).await, Err(Error::Deposed));
    assert_eq!(store.load(term, None).await, Err(Error::Deposed));
    assert_eq!(store.commit(term, CommitSeq(0), vec![unit]).await, Err(Error::Deposed));
}

pub async fn a_candidate_never_gets_a_term_twice<F: Fixture>() {
    let fixture = F::new(Settings::default()).await;
    let store = fixture.store();
    let mut last = lead(&store, "a#1").await;
    for _ in 0..5 {
        match store.campaign(&Arc::from("a#1"), TTL_MS).await.unwrap() {
            Campaign::Won(term) => {
                assert!(term > last);
                refuses_all(&store, last).await;
                last = term;
            }
            Campaign::HeldBy(holder, _) => assert_eq!(&*holder, "a#1"),
        }
    }
    store.renew(last).await.unwrap();
}

pub async fn a_successor_finds_everything_and_a_higher_term<F: Fixture>() {
    let mut fixture = F::new(Settings::default()).await;
    let before = fixture.store();
    let first = lead(&before, "a#1").await;
    let mut pen = Pen::new();
    let unit = pen.unit(vec![Write::PutNode(node(1))]);
    before.commit(first, CommitSeq(0), vec![unit]).await.unwrap();
    let late = pen.clone().unit(vec![Write::PutNode(node(2))]);

    fixture.succeed().await;
    let store = fixture.store();
    assert_eq!(store.renew(first).await, Err(Error::Deposed));
    let second = lead(&store, "b#1").await;
    assert!(second > first);
    let loaded = store.load(second, Some(&pen.known())).await.unwrap();
    assert_eq!(loaded.snapshot.nodes, [node(1)]);

    // The first process wakes up and writes on.
    let zombie = before.commit(first, pen.head.seq, vec![late]).await.unwrap_err();
    assert!(matches!(zombie, Error::Deposed | Error::Unavailable { .. }), "{zombie}");
    let loaded = store.load(second, None).await.unwrap();
    assert_eq!(loaded.snapshot.nodes, [node(1)]);
}

pub async fn a_closed_store_does_nothing<F: Fixture>() {
    let fixture = F::new(Settings::default()).await;
    let store = fixture.store();
    let term = lead(&store, "a#1").await;
    let mut seen = store.watch();
    let unit = Pen::new().unit(vec![Write::PutNode(node(1))]);
    store.commit(term, CommitSeq(0), vec![unit.clone()]).await.unwrap();
    assert_eq!(*seen.borrow_and_update(), CommitSeq(1));

    store.close().await;
    store.close().await;
    let unavailable = |error: Error| assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    unavailable(store.campaign(&Arc::from("a#1"), TTL_MS).await.unwrap_err());
    unavailable(store.renew(term).await.unwrap_err());
    unavailable(store.load(term, None).await.unwrap_err());
    unavailable(store.commit(term, CommitSeq(1), vec![unit]).await.unwrap_err());
    unavailable(store.peek().await.unwrap_err());
    unavailable(store.events(Span::Last(1)).await.unwrap_err());
}

pub async fn anybody_may_look_and_changes_nothing<F: Fixture>() {
    let mut fixture = F::new(Settings::default()).await;
    let store = fixture.store();
    assert_eq!(store.peek().await.unwrap(), Loaded::default(), "a new store holds nothing");

    let first = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    let unit = pen.unit(vec![Write::PutNode(node(1)), Write::PutNode(node(2))]);
    store.commit(first, CommitSeq(0), vec![unit]).await.unwrap();
    let found = store.peek().await.unwrap();
    assert_eq!(found.snapshot.nodes, [node(1), node(2)]);
    assert_eq!(found.snapshot.head, Some(pen.head.clone()));
    assert_eq!(store.peek().await.unwrap(), found, "looking changes nothing");
    // The leader goes on where it was: the head did not move.
    let after = pen.head.seq;
    let unit = pen.unit(vec![Write::DeleteNode(node(2).facts.id.clone())]);
    store.commit(first, after, vec![unit]).await.unwrap();

    // It is what a load reads, but for the head, which a load raises.
    let found = store.peek().await.unwrap();
    let mut loaded = store.load(first, None).await.unwrap();
    let raised = loaded.snapshot.head.as_mut().unwrap();
    assert_eq!(raised.seq, pen.head.seq.next());
    raised.seq = pen.head.seq;
    assert_eq!(found, loaded);

    // A process that never led sees it too, and what cannot be read is named as in a load.
    fixture.put_bytes("/nodes/n9", b"not a record").await;
    fixture.succeed().await;
    let other = fixture.store();
    let found = other.peek().await.unwrap();
    assert_eq!(found.snapshot.nodes, [node(1)]);
    let named: Vec<_> = found.quarantined.iter().map(|record| record.key.as_str()).collect();
    assert_eq!(named, ["/nodes/n9"]);
    assert_eq!(fixture.bytes("/nodes/n9").await.as_deref(), Some(&b"not a record"[..]));
}
