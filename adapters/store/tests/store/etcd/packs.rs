//! The events of one commit share a key, and nobody who reads them notices.

use persys_cluster::record::Write;
use persys_etcd::Range;
use persys_etcd_host::Host;
use persys_model::token::{CommitSeq, EventSeq, Term};
use persys_store::{Campaign, Etcd, History, Settings, Span, Store};

use super::{open, put};
use crate::contract::TTL_MS;
use crate::contract::sample::{Pen, event};

async fn lead(store: &Etcd) -> Term {
    match store.campaign(&"a#1".into(), TTL_MS).await.unwrap() {
        Campaign::Won(term) => term,
        Campaign::HeldBy(holder, _) => panic!("{holder} leads"),
    }
}

async fn commit(store: &Etcd, term: Term, pen: &mut Pen, numbers: std::ops::RangeInclusive<u64>) {
    let after = pen.head.seq;
    let units = numbers.map(|seq| pen.unit(vec![Write::PutEvent(event(seq, 1000 + seq))]));
    let units = units.collect();
    store.commit(term, after, units).await.unwrap();
}

async fn keys(host: &Host) -> Vec<String> {
    let range = Range { keys_only: true, ..Range::between("/events/", "/events0") };
    let (found, _, _) = host.client().range(range).await.unwrap();
    found.iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned()).collect()
}

fn numbers(history: &History) -> Vec<u64> {
    history.events.iter().map(|event| event.seq.0).collect()
}

#[tokio::test]
async fn events_of_a_commit_share_a_key_and_are_read_one_by_one() {
    let host = Host::one().await;
    let store = open(&host, &Settings::default());
    let term = lead(&store).await;
    let mut pen = Pen::new();
    commit(&store, term, &mut pen, 1..=1).await;
    commit(&store, term, &mut pen, 2..=90).await;
    commit(&store, term, &mut pen, 91..=390).await;
    assert_eq!(keys(&host).await.len(), 5, "1, 89, and 300 by 128");
    for (span, expected) in [
        (Span::Last(1000), 1..=390),
        (Span::Last(2), 389..=390),
        (Span::After(EventSeq(50), 1000), 51..=390),
        (Span::After(EventSeq(50), 3), 51..=53),
    ] {
        let told = store.events(span).await.unwrap();
        assert_eq!(numbers(&told), expected.collect::<Vec<_>>(), "{span:?}");
    }
    let dumped = store.dump().await.unwrap();
    let singles: Vec<_> = dumped.iter().filter(|(key, _)| key.starts_with("/events/")).collect();
    assert_eq!(singles.len(), 390, "a copy has each by itself");
    assert!(singles[88].0.ends_with(&format!("{:020}-{:020}", 1089, 89)), "{}", singles[88].0);
}

#[tokio::test]
async fn one_bad_line_costs_one_event() {
    let host = Host::one().await;
    let store = open(&host, &Settings::default());
    let term = lead(&store).await;
    let mut pen = Pen::new();
    commit(&store, term, &mut pen, 1..=3).await;
    let key = keys(&host).await.remove(0);
    let bytes = host.client().get(&key).await.unwrap().unwrap().value;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let damaged: Vec<_> =
        text.lines().enumerate().map(|(i, l)| if i == 1 { "{" } else { l }).collect();
    let damaged = damaged.join("\n");
    put(&host.client(), &key, damaged.as_bytes()).await;
    let told = store.events(Span::Last(10)).await.unwrap();
    assert_eq!((numbers(&told), told.unreadable), (vec![1, 3], 1));
    let dumped = store.dump().await.unwrap();
    assert!(dumped.contains(&(key, damaged.into_bytes())), "kept byte for byte");
}

/// What is kept is counted in events, also by a leader that finds only keys.
#[tokio::test]
async fn as_many_are_kept_as_should_be() {
    let host = Host::one().await;
    let settings = Settings { keep_events: 50, ..Settings::default() };
    let mut pen = Pen::new();
    for round in 0..6 {
        let store = open(&host, &settings);
        let term = lead(&store).await;
        commit(&store, term, &mut pen, round * 60 + 1..=round * 60 + 30).await;
        commit(&store, term, &mut pen, round * 60 + 31..=round * 60 + 60).await;
        let told = store.events(Span::Last(1000)).await.unwrap();
        let newest = round * 60 + 60;
        assert_eq!(numbers(&told), (newest - 49..=newest).collect::<Vec<_>>());
        assert!(keys(&host).await.len() <= 3, "{:?}", keys(&host).await);
        store.resign(term).await.unwrap();
        assert_eq!(pen.head.seq, CommitSeq(newest));
    }
}
