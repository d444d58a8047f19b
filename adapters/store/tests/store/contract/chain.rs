//! Transactions form one chain.

use std::sync::Arc;
use std::time::Instant;

use persys_cluster::record::{Snapshot, Write};
use persys_cluster::store::HighWater;
use persys_model::drift::DriftKind;
use persys_model::token::CommitSeq;
use persys_store::{Error, Settings};

use super::sample::{
    Pen, assignment, attachment, drift, entries, event, grave, lease, node, node_id, outcome,
    retry, running, volume, volume_key, workload, workload_id,
};
use super::{Fixture, lead};

pub async fn a_commit_needs_the_head_it_builds_on<F: Fixture>() {
    let fixture = F::new(Settings::default()).await;
    let store = fixture.store();
    let term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    let first = pen.unit(vec![Write::PutNode(node(1))]);
    let second = pen.unit(vec![Write::PutNode(node(2))]);
    for wrong in [1, 2, u64::MAX] {
        let moved = store.commit(term, CommitSeq(wrong), vec![first.clone()]).await;
        assert_eq!(moved, Err(Error::HeadMoved));
    }
    let early = store.commit(term, CommitSeq(1), vec![second.clone()]).await;
    assert_eq!(early, Err(Error::HeadMoved));
    assert_eq!(store.load(term, None).await.unwrap().snapshot, Snapshot::default());

    store.commit(term, CommitSeq(0), vec![first]).await.unwrap();
    store.commit(term, CommitSeq(1), vec![second]).await.unwrap();
    let loaded = store.load(term, None).await.unwrap().snapshot;
    assert_eq!(loaded.nodes, [node(1), node(2)]);
}

pub async fn a_commit_that_is_sent_again_changes_nothing<F: Fixture>() {
    let fixture = F::new(Settings::default()).await;
    let store = fixture.store();
    let term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    let units = vec![pen.unit(running(1, 1)), pen.unit(running(2, 2))];
    store.commit(term, CommitSeq(0), units.clone()).await.unwrap();
    // The answer was lost; somebody guesses that it did not happen.
    assert_eq!(store.commit(term, CommitSeq(0), units).await, Err(Error::HeadMoved));
    let loaded = store.load(term, None).await.unwrap().snapshot;
    assert_eq!(loaded.workloads, [workload(1), workload(2)]);
    assert_eq!(loaded.head.unwrap().seq, CommitSeq(3));
    let history = store.events(persys_store::Span::Last(10)).await.unwrap();
    assert_eq!(history.events.len(), 2);
}

pub async fn a_load_shuts_out_what_is_on_its_way<F: Fixture>() {
    let fixture = F::new(Settings::default()).await;
    let store = fixture.store();
    let term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    store.commit(term, CommitSeq(0), vec![pen.unit(running(1, 1))]).await.unwrap();
    let slow = pen.clone().unit(running(2, 2));
    for raised in 2..5 {
        let loaded = store.load(term, Some(&pen.known())).await.unwrap().snapshot;
        assert_eq!(loaded.head.unwrap().seq, CommitSeq(raised));
        let late = store.commit(term, CommitSeq(1), vec![slow.clone()]).await;
        assert_eq!(late, Err(Error::HeadMoved));
    }
    let loaded = store.load(term, None).await.unwrap().snapshot;
    assert_eq!(loaded.workloads, [workload(1)]);
    let mut pen = Pen::after(&loaded);
    let after = pen.head.seq;
    store.commit(term, after, vec![pen.unit(running(2, 2))]).await.unwrap();
}

pub async fn a_store_that_lost_something_is_not_written_to<F: Fixture>() {
    let fixture = F::new(Settings::default()).await;
    let store = fixture.store();
    let term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    let unit = pen.unit(running(1, 1));
    let known = pen.known();
    for _ in 0..2 {
        let empty = store.load(term, Some(&known)).await.unwrap().snapshot;
        assert_eq!(empty, Snapshot::default(), "an empty store stays empty");
    }
    store.commit(term, CommitSeq(0), vec![unit]).await.unwrap();
    for more in [
        HighWater { seq: CommitSeq(2), ..known.clone() },
        HighWater { incarnation: 1, seq: CommitSeq(1), ..known.clone() },
        HighWater { cluster: Arc::from("c2"), ..known.clone() },
    ] {
        for _ in 0..2 {
            let loaded = store.load(term, Some(&more)).await.unwrap().snapshot;
            assert_eq!(loaded.head.unwrap().seq, CommitSeq(1), "{more:?}");
            assert_eq!(loaded.workloads, [workload(1)]);
        }
    }
    let loaded = store.load(term, Some(&known)).await.unwrap().snapshot;
    assert_eq!(loaded.head.unwrap().seq, CommitSeq(2));
}

pub async fn units_are_stored_together_or_not_at_all<F: Fixture>() {
    let fixture = F::new(Settings::default()).await;
    let store = fixture.store();
    let term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    let first = pen.unit(running(1, 1));
    pen.unit(Vec::new());
    let gap = pen.unit(running(2, 2));
    let refused = store.commit(term, CommitSeq(0), vec![first.clone(), gap]).await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    assert_eq!(store.load(term, None).await.unwrap().snapshot, Snapshot::default());
    assert!(store.events(persys_store::Span::Last(9)).await.unwrap().events.is_empty());
    store.commit(term, CommitSeq(0), vec![first]).await.unwrap();
}

pub async fn many_units_fit_in_one_commit<F: Fixture>() {
    let fixture = F::new(Settings::default()).await;
    let store = fixture.store();
    let term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    let units: Vec<_> = (1..=40).map(|number| pen.unit(running(number, number))).collect();
    store.commit(term, CommitSeq(0), units).await.unwrap();
    // The later of two writes to one key wins.
    let mut changed = (*workload(1)).clone();
    changed.generation = changed.generation.next();
    let units = vec![
        pen.unit(vec![
            Write::DeleteWorkload(workload_id(1)),
            Write::DeleteWorkload(workload_id(2)),
        ]),
        pen.unit(vec![Write::PutWorkload(Arc::new(changed.clone()))]),
    ];
    store.commit(term, CommitSeq(40), units).await.unwrap();
    let loaded = store.load(term, None).await.unwrap().snapshot;
    assert_eq!(loaded.workloads.len(), 39);
    assert_eq!(*loaded.workloads[0], changed);
    assert_eq!(loaded.assignments.len(), 40);
    assert_eq!(loaded.head.unwrap().event, pen.head.event);
}

/// A host remembers more units than the store has: a rebuilt cluster counts on above them.
pub async fn a_rebuilt_cluster_numbers_on_above_what_was_lost<F: Fixture>() {
    for stored in [0, 3] {
        let fixture = F::new(Settings::default()).await;
        let store = fixture.store();
        let term = lead(&store, "a#1").await;
        let mut pen = Pen::new();
        let units: Vec<_> = (0..stored).map(|number| pen.unit(running(number, number))).collect();
        if !units.is_empty() {
            store.commit(term, CommitSeq(0), units).await.unwrap();
        }
        let after = pen.head.seq;
        pen.head.seq = CommitSeq(50);
        let gap = pen.clone().unit(running(7, 7));
        let refused = store.commit(term, after, vec![gap]).await.unwrap_err();
        assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
        pen.head.incarnation += 1;
        let units = vec![pen.unit(running(8, 8)), pen.unit(running(9, 9))];
        store.commit(term, after, units).await.unwrap();
        let head = store.load(term, None).await.unwrap().snapshot.head.unwrap();
        assert_eq!((head.incarnation, head.seq), (1, CommitSeq(53)));
    }
}

pub async fn everything_is_read_back<F: Fixture>() {
    let mut fixture = F::new(Settings::default()).await;
    let store = fixture.store();
    let term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    let all = |number| {
        let mut writes: Vec<_> = entries(number).into_iter().map(Write::PutEntry).collect();
        writes.extend([
            Write::PutNode(node(number)),
            Write::PutLease(lease(number)),
            Write::PutReconciliation(outcome(number)),
            Write::PutWorkload(workload(number)),
            Write::PutAssignment(assignment(number)),
            Write::PutRetry(retry(number)),
            Write::PutGrave(grave(number, number)),
            Write::PutDrift(drift(number, number, DriftKind::MissingOnAgent)),
            Write::PutDrift(drift(number, number, DriftKind::OrphanOnAgent)),
            Write::PutVolume(volume(number)),
            Write::PutAttachment(attachment(number, number)),
            Write::PutEvent(event(number, number)),
        ]);
        writes
    };
    let none = |number| {
        let keys = entries(number).into_iter().map(|entry| Write::DeleteEntry(entry.key()));
        let mut writes: Vec<_> = keys.collect();
        writes.extend([
            Write::DeleteNode(node_id(number)),
            Write::DeleteLease(node_id(number)),
            Write::DeleteReconciliation(workload_id(number)),
            Write::DeleteWorkload(workload_id(number)),
            Write::DeleteAssignment(workload_id(number)),
            Write::DeleteRetry(workload_id(number)),
            Write::DeleteGrave(node_id(number), workload_id(number)),
            Write::DeleteDrift(node_id(number), workload_id(number), DriftKind::MissingOnAgent),
            Write::DeleteVolume(volume_key(number)),
            Write::DeleteAttachment(node_id(number), workload_id(number), volume_key(number)),
        ]);
        writes
    };
    let units = vec![pen.unit(all(1)), pen.unit(all(2)), pen.unit(none(1))];
    store.commit(term, CommitSeq(0), units).await.unwrap();
    // Deleting what is not there is "already so".
    store.commit(term, CommitSeq(3), vec![pen.unit(none(1))]).await.unwrap();

    fixture.succeed().await;
    let store = fixture.store();
    let term = lead(&store, "b#1").await;
    let loaded = store.load(term, Some(&pen.known())).await.unwrap();
    assert_eq!(loaded.quarantined, []);
    pen.unit(Vec::new());
    let expected = Snapshot {
        head: Some(pen.head),
        nodes: vec![node(2)],
        leases: vec![lease(2)],
        workloads: vec![workload(2)],
        assignments: vec![assignment(2)],
        retries: vec![retry(2)],
        graves: vec![grave(2, 2)],
        drifts: vec![
            drift(1, 1, DriftKind::OrphanOnAgent),
            drift(2, 2, DriftKind::MissingOnAgent),
            drift(2, 2, DriftKind::OrphanOnAgent),
        ],
        entries: entries(2),
        volumes: vec![volume(2)],
        attachments: vec![attachment(2, 2)],
    };
    // They are read back in the order of their folders.
    let mut loaded = loaded;
    loaded.snapshot.entries.sort_by_key(|entry| entry.key());
    assert_eq!(loaded.snapshot, expected);
}

pub async fn a_root_stands_in_front_of_every_key<F: Fixture>() {
    let settings = Settings { root: "/persys/blue".to_owned(), ..Settings::default() };
    let mut fixture = F::new(settings).await;
    let store = fixture.store();
    let term = lead(&store, "a#1").await;
    let unit = Pen::new().unit(vec![Write::PutNode(node(1))]);
    store.commit(term, CommitSeq(0), vec![unit]).await.unwrap();
    assert!(fixture.bytes("/persys/blue/nodes/node-00001").await.is_some());
    assert!(fixture.bytes("/persys/blue/meta/head").await.is_some());
    assert!(fixture.bytes("/nodes/node-00001").await.is_none());
}

/// Prints how long it takes; there is no limit, machines differ.
pub async fn ten_thousand_workloads_are_read_back<F: Fixture>() {
    let fixture = F::new(Settings::default()).await;
    let store = fixture.store();
    let term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    let began = Instant::now();
    for batch in 0..250_u64 {
        let after = pen.head.seq;
        let numbers = batch * 40 + 1..=batch * 40 + 40;
        let units = numbers.map(|number| pen.unit(running(number, number))).collect();
        store.commit(term, after, units).await.unwrap();
    }
    let wrote = began.elapsed();
    let began = Instant::now();
    let loaded = store.load(term, Some(&pen.known())).await.unwrap();
    let read = began.elapsed();
    assert_eq!(loaded.snapshot.workloads.len(), 10_000);
    assert_eq!(loaded.snapshot.assignments.len(), 10_000);
    let each = wrote / 250;
    println!("10,000 workloads: {each:?} per commit of 120 writes, read back in {read:?}");
}
