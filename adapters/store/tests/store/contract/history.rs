//! What happened, and how long it is remembered.

use std::sync::Arc;

use persys_cluster::record::Write;
use persys_model::audit::{AuditHead, AuditRecord, verify};
use persys_model::history::{Body, Revision};
use persys_model::id::{RevisionId, WorkloadId};
use persys_model::spec::canonical::content_revision;
use persys_model::time::WallMillis;
use persys_model::token::{CommitSeq, EventSeq};
use persys_store::{History, Keys, Revisions, Settings, Span, Store, Stretch};

use super::sample::{Pen, event, node, workload};
use super::{Fixture, lead};

/// Writes one event per pair of number and time, `batch` of them per commit.
async fn write(store: &dyn Store, pen: &mut Pen, events: &[(u64, u64)], batch: usize) {
    let term = match store.campaign(&"a#1".into(), super::TTL_MS).await.unwrap() {
        persys_store::Campaign::Won(term) => term,
        persys_store::Campaign::HeldBy(holder, _) => panic!("{holder} leads"),
    };
    for events in events.chunks(batch) {
        let after = pen.head.seq;
        let units = events
            .iter()
            .map(|(seq, at)| pen.unit(vec![Write::PutEvent(event(*seq, *at))]))
            .collect();
        store.commit(term, after, units).await.unwrap();
    }
}

fn numbers(history: &History) -> Vec<u64> {
    history.events.iter().map(|event| event.seq.0).collect()
}

pub async fn events_come_in_order<F: Fixture>() {
    let fixture = F::new(Settings::default()).await;
    let store = fixture.store();
    assert_eq!(store.events(Span::Last(5)).await.unwrap(), History::default());
    // Numbers and times of different lengths, some at the same moment.
    let events: Vec<_> = (1..=25).map(|seq| (seq, 95 + seq / 3)).collect();
    write(&*store, &mut Pen::new(), &events, 7).await;
    let all: Vec<u64> = (1..=25).collect();
    for (span, expected) in [
        (Span::Last(3), &all[22..]),
        (Span::Last(100), &all[..]),
        (Span::Last(0), &[]),
        (Span::After(EventSeq(0), 4), &all[..4]),
        (Span::After(EventSeq(4), 100), &all[4..]),
        (Span::After(EventSeq(24), 100), &all[24..]),
        (Span::After(EventSeq(25), 100), &[]),
    ] {
        let history = store.events(span).await.unwrap();
        assert_eq!(numbers(&history), expected, "{span:?}");
    }
    assert_eq!(*store.events(Span::Last(1)).await.unwrap().events[0], *event(25, 103));
}

pub async fn the_audit_log_is_read_in_stretches<F: Fixture>() {
    let fixture = F::new(Settings::default()).await;
    let store = fixture.store();
    let (term, mut pen) = (lead(&store, "a#1").await, Pen::new());
    assert_eq!(store.audit(Stretch::ALL).await.unwrap().records.len(), 0);
    // What is kept beside it is not mistaken for it.
    for count in [1_u64, 3, 40, 2, 1] {
        let after = pen.head.seq;
        let mut writes = vec![Write::PutNode(node(count))];
        for _ in 0..count {
            let AuditHead { seq, hash } = pen.head.audit;
            let record = AuditRecord { seq: seq + 1, previous: hash, ..AuditRecord::default() };
            pen.head.audit = record.head();
            writes.push(Write::PutAudit(Arc::new(record)));
        }
        let unit = pen.unit(writes);
        store.commit(term, after, vec![unit]).await.unwrap();
    }
    let whole = store.audit(Stretch::ALL).await.unwrap();
    let records = whole.records.iter().map(|record| &**record);
    assert_eq!(verify(whole.anchor, records, whole.head), Ok(47));
    for most in [1, 2, 7, 45, 47, 100] {
        let (mut before, mut found) = (u64::MAX, Vec::new());
        loop {
            let page = store.audit(Stretch { before, most }).await.unwrap();
            assert_eq!((page.head, page.anchor), (whole.head, whole.anchor));
            let Some(oldest) = page.records.first() else { break };
            assert!(page.records.len() == most || oldest.seq == 1, "{most} before {before}");
            before = oldest.seq;
            found.extend(page.records.into_iter().rev());
        }
        found.reverse();
        assert_eq!(found, whole.records, "in stretches of {most}");
    }
}

pub async fn revisions_are_read_for_one_workload<F: Fixture>() {
    let fixture = F::new(Settings::default()).await;
    let store = fixture.store();
    let (term, mut pen) = (lead(&store, "a#1").await, Pen::new());
    let spec = &workload(1).spec;
    let entry = |id: &WorkloadId, number, content: &RevisionId| {
        Write::PutRevision(Arc::new(Revision {
            workload: id.clone(),
            number,
            revision: RevisionId::fixed("r1"),
            content: content.clone(),
            since: Some(WallMillis(5)),
            by: Arc::from("user ada"),
            rolled_back_to: None,
            failed: Arc::from(""),
        }))
    };
    // A name that begins with the other one is another workload.
    let (web, web2) = (WorkloadId::fixed("web"), WorkloadId::fixed("web-2"));
    let content = content_revision(spec);
    let body = |id: &WorkloadId| {
        Write::PutBody(Arc::new(Body {
            workload: id.clone(),
            content: content.clone(),
            spec: Arc::clone(spec),
        }))
    };
    let writes = vec![
        entry(&web, 9, &content),
        entry(&web, 10, &content),
        body(&web),
        entry(&web2, 1, &content),
        body(&web2),
        Write::PutNode(node(1)),
    ];
    let after = pen.head.seq;
    store.commit(term, after, vec![pen.unit(writes)]).await.unwrap();
    let found = store.revisions(&web).await.unwrap();
    let numbers: Vec<_> = found.listed.iter().map(|one| one.number).collect();
    assert_eq!((numbers, found.bodies.len(), found.unreadable), (vec![9, 10], 1, 0));
    assert_eq!(found.get(10).map(|(_, spec)| spec), Some(spec));
    let loaded = store.load(term, None).await.unwrap();
    assert!(loaded.quarantined.is_empty(), "a load leaves them alone: {:?}", loaded.quarantined);
    let after = loaded.snapshot.head.unwrap().seq;
    pen.head.seq = after;
    let gone = vec![
        Write::DeleteRevision(web.clone(), 9),
        Write::DeleteRevision(web.clone(), 10),
        Write::DeleteBody(web.clone(), content.clone()),
    ];
    store.commit(term, after, vec![pen.unit(gone)]).await.unwrap();
    assert_eq!(store.revisions(&web).await.unwrap(), Revisions::default());
    assert_eq!(store.revisions(&web2).await.unwrap().listed.len(), 1);
}

pub async fn old_events_go<F: Fixture>() {
    let settings = Settings { keep_events: 50, keep_events_ms: 1000, ..Settings::default() };
    let fixture = F::new(settings).await;
    let store = fixture.store();
    let mut pen = Pen::new();
    let crowd: Vec<_> = (1..=500).map(|seq| (seq, 10_000)).collect();
    write(&*store, &mut pen, &crowd, 20).await;
    let kept = store.events(Span::Last(Span::MOST)).await.unwrap();
    assert_eq!(numbers(&kept), (451..=500).collect::<Vec<_>>(), "the newest 50");
    write(&*store, &mut pen, &[(501, 10_999), (502, 11_001)], 1).await;
    let kept = store.events(Span::Last(Span::MOST)).await.unwrap();
    assert_eq!(numbers(&kept), [501, 502], "those of the last second");
}

pub async fn a_clock_that_goes_back_does_not_disturb_the_order<F: Fixture>() {
    let settings = Settings { keep_events: 4, ..Settings::default() };
    let fixture = F::new(settings).await;
    let store = fixture.store();
    let events = [(1, 5000), (2, 9000), (3, 10), (4, 20), (5, 8000), (6, 5)];
    write(&*store, &mut Pen::new(), &events, 1).await;
    let kept = store.events(Span::Last(10)).await.unwrap();
    assert_eq!(numbers(&kept), [3, 4, 5, 6]);
    assert_eq!(kept.events[3].at.0, 5, "the time itself is kept as it was told");
    let kept = store.events(Span::After(EventSeq(4), 10)).await.unwrap();
    assert_eq!(numbers(&kept), [5, 6]);
}

pub async fn an_unreadable_event_is_counted<F: Fixture>() {
    let mut fixture = F::new(Settings::default()).await;
    let mut pen = Pen::new();
    write(&*fixture.store(), &mut pen, &[(1, 1), (2, 2), (3, 3)], 1).await;
    let key = Keys::new("").unwrap().event(event(2, 2).at, EventSeq(2));
    assert!(fixture.bytes(&key).await.is_some());
    fixture.put_bytes(&key, b"{\"v\":9}").await;
    let store = fixture.store();
    let history = store.events(Span::Last(10)).await.unwrap();
    assert_eq!((numbers(&history), history.unreadable), (vec![1, 3], 1));
    let term = lead(&store, "a#1").await;
    assert_eq!(store.load(term, None).await.unwrap().quarantined, []);
    store
        .commit(
            term,
            CommitSeq(4),
            vec![{
                pen.unit(Vec::new());
                pen.unit(vec![Write::PutEvent(event(4, 4))])
            }],
        )
        .await
        .unwrap();
}

/// A key that somebody made up in the midst of others: nothing is told twice or left out for it.
pub async fn a_made_up_event_hides_nothing<F: Fixture>() {
    let mut fixture = F::new(Settings::default()).await;
    let events = [(1, 101), (2, 102), (3, 103), (4, 104), (5, 105)];
    write(&*fixture.store(), &mut Pen::new(), &events, 5).await;
    let key = format!("/events/{:020}-{:020}", 102, 999);
    fixture.put_bytes(&key, b"{ not ours").await;
    let store = fixture.store();
    for after in 0..=5 {
        let told = store.events(Span::After(EventSeq(after), 10)).await.unwrap();
        assert_eq!(numbers(&told), (after + 1..=5).collect::<Vec<_>>(), "after {after}");
    }
    let told = store.events(Span::After(EventSeq(1), 3)).await.unwrap();
    assert_eq!(numbers(&told)[..2], [2, 3], "one that cannot be read may count");
}
