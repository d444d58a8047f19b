//! What happens to etcd, and what the store makes of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use persys_cluster::record::Write;
use persys_etcd_host::{Host, Options};
use persys_model::token::{CommitSeq, Term};
use persys_store::{Campaign, Error, Etcd, Settings, Span, Store};

use super::{open, open_quick, put, revoke_leader};
use crate::contract::TTL_MS;
use crate::contract::sample::{Pen, node, running, workload};

const SOON: Duration = Duration::from_millis(2500);
const PATIENCE: Duration = Duration::from_secs(20);

async fn lead(store: &Etcd, candidate: &str) -> Term {
    match store.campaign(&Arc::from(candidate), TTL_MS).await.unwrap() {
        Campaign::Won(term) => term,
        Campaign::HeldBy(holder, _) => panic!("{holder} leads"),
    }
}

/// Asks until the answer is good; a store that was away is there again within moments.
async fn until_well<T, F: Future<Output = Result<T, Error>>>(ask: impl Fn() -> F) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Ok(done) => return done,
            Err(error) => assert!(Instant::now() < end, "still {error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn is_away(error: &Error) -> bool {
    matches!(error, Error::Unavailable { .. } | Error::Unknown { .. })
}

#[tokio::test]
async fn a_revoked_lease_deposes_and_nothing_is_written() {
    let host = Host::one().await;
    let past = host.client();
    let store = open(&host, &Settings::default());
    let term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    store.commit(term, CommitSeq(0), vec![pen.unit(running(1, 1))]).await.unwrap();
    revoke_leader(&past, "").await;
    let before = past.status().await.unwrap().revision;
    let late = pen.clone().unit(running(2, 2));
    assert_eq!(store.commit(term, pen.head.seq, vec![late]).await, Err(Error::Deposed));
    assert_eq!(store.load(term, None).await, Err(Error::Deposed));
    assert_eq!(store.renew(term).await, Err(Error::Deposed));
    assert_eq!(past.status().await.unwrap().revision, before, "nothing was written");
    assert!(lead(&store, "a#1").await > term);
}

/// Another process takes over; the first believes to lead and writes on.
#[tokio::test]
async fn a_deposed_leader_that_does_not_know_writes_nothing() {
    let host = Host::one().await;
    let (first, second) = (open(&host, &Settings::default()), open(&host, &Settings::default()));
    let term = lead(&first, "a#1").await;
    let mut pen = Pen::new();
    first.commit(term, CommitSeq(0), vec![pen.unit(running(1, 1))]).await.unwrap();
    revoke_leader(&host.client(), "").await;
    let next = lead(&second, "b#1").await;
    assert!(next > term);
    // The head is where the first believes it to be: only the leader key tells.
    let late = pen.clone().unit(running(2, 2));
    assert_eq!(first.commit(term, pen.head.seq, vec![late]).await, Err(Error::Deposed));
    let loaded = second.load(next, Some(&pen.known())).await.unwrap();
    assert_eq!(loaded.snapshot.workloads, [workload(1)]);
    let held = first.campaign(&Arc::from("a#1"), TTL_MS).await.unwrap();
    assert!(matches!(held, Campaign::HeldBy(holder, Some(_)) if &*holder == "b#1"));
}

/// A leader key that no lease keeps is nobody's, whatever it says.
#[tokio::test]
async fn a_leader_key_without_a_lease_blocks_nobody() {
    let host = Host::one().await;
    let past = host.client();
    let store = open(&host, &Settings::default());
    let term = lead(&store, "a#1").await;
    let record = past.get("/meta/leader").await.unwrap().unwrap().value;
    for bytes in [&record[..], b"garbage"] {
        put(&past, "/meta/leader", bytes).await;
        assert_eq!(store.renew(term).await, Err(Error::Deposed));
        let other = open(&host, &Settings::default());
        let next = lead(&other, "b#1").await;
        assert!(next > term);
        other.close().await;
    }
    assert!(past.get("/meta/leader").await.unwrap().is_none(), "given back when closed");
}

#[tokio::test]
async fn a_paused_etcd_is_noticed_in_time_and_nothing_piles_up() {
    let host = Host::one().await;
    let store = open_quick(&host);
    let term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    store.commit(term, CommitSeq(0), vec![pen.unit(running(1, 1))]).await.unwrap();
    host.pause(0);
    let began = Instant::now();
    let unit = pen.clone().unit(running(2, 2));
    let error = store.commit(term, pen.head.seq, vec![unit]).await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "it was sent: {error}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    for _ in 0..3 {
        let began = Instant::now();
        assert!(is_away(&store.renew(term).await.unwrap_err()));
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    }
    // By now nobody waits any more.
    let began = Instant::now();
    let calls = (0..100).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { store.events(Span::Last(1)).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert!(is_away(&call.await.unwrap().unwrap_err()));
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());

    host.resume(0);
    let loaded = until_well(|| store.load(term, None)).await;
    let seq = loaded.snapshot.head.unwrap().seq;
    // Whether the commit arrived is up to etcd; that all of it did or nothing is not.
    assert_eq!(loaded.snapshot.workloads.len(), loaded.snapshot.assignments.len());
    assert!(seq == CommitSeq(2) || seq == CommitSeq(3), "{seq}");
    assert_eq!(loaded.snapshot.workloads.len() as u64, seq.0 - 1);
}

#[tokio::test]
async fn a_killed_etcd_is_unavailable_and_its_return_is_noticed() {
    let mut host = Host::one().await;
    let store = open_quick(&host);
    let term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    store.commit(term, CommitSeq(0), vec![pen.unit(running(1, 1))]).await.unwrap();
    host.kill(0);
    let unit = pen.clone().unit(running(2, 2));
    let began = Instant::now();
    for _ in 0..10 {
        let error = store.commit(term, pen.head.seq, vec![unit.clone()]).await.unwrap_err();
        assert!(is_away(&error), "{error}");
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    host.restart().await;
    let known = pen.known();
    let loaded = until_well(|| store.load(term, Some(&known))).await;
    assert_eq!(loaded.snapshot.workloads, [workload(1)]);
    store.renew(term).await.unwrap();
}

/// What a scheduler does after a write that was not confirmed.
async fn read_again(store: &Etcd, term: Term, pen: Pen) -> (Term, Pen) {
    match store.load(term, None).await {
        Ok(loaded) => (term, Pen::after(&loaded.snapshot)),
        Err(Error::Deposed) => match store.campaign(&Arc::from("a#1"), TTL_MS).await {
            Ok(Campaign::Won(won)) => (won, pen),
            Ok(Campaign::HeldBy(..)) | Err(_) => (term, pen),
        },
        Err(error) => {
            assert!(is_away(&error), "{error}");
            (term, pen)
        }
    }
}

/// One of three is lost in each way, whichever it is; writing goes on.
#[tokio::test]
async fn one_of_three_members_is_not_missed() {
    let mut host = Host::start(Options::new(3)).await;
    let store = open_quick(&host);
    let mut term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    let mut number = 0;
    for member in 0..3 {
        for paused in [true, false] {
            if paused {
                host.pause(member);
            } else {
                host.kill(member);
            }
            let end = Instant::now() + PATIENCE;
            loop {
                number += 1;
                let after = pen.head.seq;
                let unit = pen.unit(running(number, number));
                if store.commit(term, after, vec![unit]).await.is_ok() {
                    break;
                }
                assert!(Instant::now() < end, "member {member}, paused: {paused}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                (term, pen) = read_again(&store, term, pen).await;
            }
            if paused {
                host.resume(member);
            } else {
                host.restart().await;
            }
        }
    }
    let peeked = store.peek().await.unwrap().snapshot;
    assert_eq!(peeked.head.unwrap().seq, pen.head.seq);
    assert_eq!(peeked.workloads.len(), peeked.assignments.len());
}

#[tokio::test]
async fn without_most_members_nothing_is_done() {
    let mut host = Host::start(Options::new(3)).await;
    let store = open_quick(&host);
    let term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    store.commit(term, CommitSeq(0), vec![pen.unit(running(1, 1))]).await.unwrap();
    host.kill(0);
    host.kill(1);
    let end = Instant::now() + Duration::from_secs(6);
    while Instant::now() < end {
        let began = Instant::now();
        let unit = pen.clone().unit(running(2, 2));
        let error = store.commit(term, pen.head.seq, vec![unit]).await.unwrap_err();
        assert!(is_away(&error), "{error}");
        assert!(began.elapsed() < SOON * 2, "{:?}", began.elapsed());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    host.restart().await;
    let loaded = until_well(|| async {
        let won = store.campaign(&Arc::from("a#1"), TTL_MS).await?;
        let Campaign::Won(term) = won else { panic!("somebody else leads") };
        store.load(term, Some(&pen.known())).await
    })
    .await;
    assert_eq!(loaded.snapshot.workloads.len(), loaded.snapshot.assignments.len());
}

#[tokio::test]
async fn a_wiped_or_older_etcd_is_behind_and_not_written_to() {
    let mut host = Host::one().await;
    let store = open(&host, &Settings::default());
    let term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    store.commit(term, CommitSeq(0), vec![pen.unit(running(1, 1))]).await.unwrap();
    host.kill_all();
    host.save("old");
    host.restart().await;
    let after = pen.head.seq;
    let mut current = lead_again(&store).await;
    assert!(current > term);
    store.commit(current, after, vec![pen.unit(running(2, 2))]).await.unwrap();

    for wiped in [false, true] {
        host.kill_all();
        if wiped {
            host.wipe();
        } else {
            host.restore("old");
        }
        host.restart().await;
        let unit = pen.clone().unit(running(3, 3));
        let end = Instant::now() + PATIENCE;
        let late = loop {
            let late = store.commit(current, pen.head.seq, vec![unit.clone()]).await.unwrap_err();
            if !is_away(&late) {
                break late;
            }
            assert!(Instant::now() < end, "{late}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert_eq!(late, Error::Deposed, "the leader key of that time is not ours");
        let term = lead_again(&store).await;
        assert!(term > current, "a term is not had twice");
        current = term;
        let past = host.client();
        let head = past.get("/meta/head").await.unwrap();
        for _ in 0..2 {
            let loaded = store.load(term, Some(&pen.known())).await.unwrap().snapshot;
            assert_eq!(loaded.head.map(|head| head.seq.0), (!wiped).then_some(1));
            assert_eq!(loaded.workloads.len(), usize::from(!wiped));
        }
        assert_eq!(past.get("/meta/head").await.unwrap(), head, "it was not raised");
    }
}

async fn lead_again(store: &Etcd) -> Term {
    let candidate = Arc::from("a#1");
    let won = until_well(|| store.campaign(&candidate, TTL_MS)).await;
    let Campaign::Won(term) = won else { panic!("{won:?}") };
    term
}

#[tokio::test]
async fn a_full_etcd_is_named_and_recovers() {
    let options = Options::new(1).with(&["--quota-backend-bytes", "8388608"]);
    let host = Host::start(options).await;
    let store = open(&host, &Settings::default());
    let mut term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    store.commit(term, CommitSeq(0), vec![pen.unit(running(1, 1))]).await.unwrap();
    let past = host.client();
    let full = loop {
        let then = vec![persys_etcd::Op::put("/elsewhere/big".to_owned(), vec![b'x'; 500_000])];
        if let Err(error) = past.txn(persys_etcd::Txn { then, ..Default::default() }).await {
            break error;
        }
    };
    assert_eq!(full.kind(), persys_etcd::Kind::NoSpace);
    let Error::Unavailable { why } = store.renew(term).await.unwrap_err() else {
        panic!("it leads still")
    };
    assert!(why.contains("NOSPACE"), "who has nothing to write hears of it too: {why}");
    let after = pen.head.seq;
    let unit = pen.clone().unit(running(2, 2));
    let Error::Unavailable { why } =
        store.commit(term, after, vec![unit.clone()]).await.unwrap_err()
    else {
        panic!("it surely was not done")
    };
    assert!(why.contains("NOSPACE") && why.contains("defragment"), "{why}");
    assert_eq!(store.peek().await.unwrap().snapshot.workloads, [workload(1)], "reads go on");
    assert_eq!(store.events(Span::Last(9)).await.unwrap().events.len(), 1);

    store.reclaim().await.unwrap();
    if store.renew(term).await.is_err() {
        term = lead(&store, "a#1").await;
    }
    store.commit(term, after, vec![unit]).await.unwrap();
}

/// Whoever reads while etcd forgets begins again.
#[tokio::test]
async fn a_compaction_under_a_load_is_survived() {
    let host = Host::one().await;
    let store = open(&host, &Settings::default());
    let term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    for batch in 0..100_u64 {
        let after = pen.head.seq;
        let numbers = batch * 40 + 1..=batch * 40 + 40;
        let units = numbers.map(|number| pen.unit(running(number, number))).collect();
        store.commit(term, after, units).await.unwrap();
    }
    let past = host.client();
    let noise = tokio::spawn(async move {
        // A little faster than a load takes, then slower.
        for round in 0..40_u64 {
            put(&past, "/elsewhere", &round.to_le_bytes()).await;
            let revision = past.status().await.unwrap().revision;
            past.compact(revision, true).await.unwrap();
            tokio::time::sleep(Duration::from_millis(round * round)).await;
        }
    });
    let end = Instant::now() + PATIENCE;
    let loaded = loop {
        match store.load(term, None).await {
            Ok(loaded) => break loaded,
            Err(error) => assert!(is_away(&error) && Instant::now() < end, "{error}"),
        }
    };
    noise.abort();
    assert_eq!(loaded.snapshot.workloads.len(), 4000);
    assert_eq!(loaded.snapshot.assignments.len(), 4000);
}

/// All pages are of one revision, or none comes: never the one from before and the other from after.
#[tokio::test]
async fn a_page_of_a_forgotten_revision_is_refused() {
    let host = Host::one().await;
    let past = host.client();
    for number in 0..12_u64 {
        let then = (0..100)
            .map(|key| persys_etcd::Op::put(format!("/a/{}", number * 100 + key), b"1".to_vec()));
        let txn = persys_etcd::Txn { then: then.collect(), ..Default::default() };
        past.txn(txn).await.unwrap();
    }
    let range = || persys_etcd::Range::between("/a/", "/a0");
    let mut pages = persys_etcd::Pages::new(&past, range());
    let mut count = pages.next().await.unwrap().unwrap().len();
    assert!(count < 1200, "more than one page");
    put(&past, "/a/99999", b"late").await;
    put(&past, "/a/5", b"2").await;
    while let Some(page) = pages.next().await.unwrap() {
        count += page.len();
        assert!(page.iter().all(|kv| &*kv.value == b"1"));
    }
    assert_eq!(count, 1200, "as it was when the first page was read");

    let mut pages = persys_etcd::Pages::new(&past, range());
    pages.next().await.unwrap().unwrap();
    put(&past, "/b", b"1").await;
    past.compact(past.status().await.unwrap().revision, true).await.unwrap();
    assert_eq!(pages.next().await.unwrap_err().kind(), persys_etcd::Kind::Compacted);
}

/// A commit beyond what etcd takes in one transaction is stored as a whole all the same, also when
/// its leader is gone in the middle.
#[tokio::test]
async fn a_commit_too_large_for_one_transaction_is_still_one() {
    let host = Host::one().await;
    let store = open(&host, &Settings::default());
    let term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    let writes = (1..=300).flat_map(|number| running(number, number)).collect();
    store.commit(term, CommitSeq(0), vec![pen.unit(writes)]).await.unwrap();
    let after = pen.head.seq;
    store.commit(term, after, vec![pen.unit(vec![Write::PutNode(node(1))])]).await.unwrap();
    let past = host.client();
    assert!(past.get("/meta/journal/open").await.unwrap().is_none());
    let loaded = store.load(term, Some(&pen.known())).await.unwrap().snapshot;
    assert_eq!((loaded.workloads.len(), loaded.nodes.len()), (300, 1));
    assert_eq!(store.events(Span::Last(1000)).await.unwrap().events.len(), 300);

    // As a crash in the middle leaves it: the journal is open, its steps are not taken.
    let line = br#"{"delete":{"key":"/workloads/work-00007"}}"#;
    put(&past, "/meta/journal/00000000000000000009-000000", line).await;
    put(&past, "/meta/journal/open", br#"{"v":1,"seq":9,"parts":1}"#).await;
    let peeked = store.peek().await.unwrap().snapshot;
    assert_eq!(peeked.workloads.len(), 299, "read as if it were finished");
    assert!(past.get("/workloads/work-00007").await.unwrap().is_some(), "and not touched");
    let dumped = store.dump().await.unwrap();
    assert!(dumped.iter().all(|(key, _)| !key.contains("journal") && !key.ends_with("00007")
        || key.starts_with("/assignments")
        || key.starts_with("/events")));
    let loaded = store.load(term, None).await.unwrap().snapshot;
    assert_eq!(loaded.workloads.len(), 299);
    assert!(past.get("/workloads/work-00007").await.unwrap().is_none(), "finished");
    assert!(past.get("/meta/journal/open").await.unwrap().is_none());
}

#[tokio::test]
async fn what_is_dumped_fills_another() {
    let settings = Settings { root: "/persys".to_owned(), ..Settings::default() };
    let (host, other) = (Host::one().await, Host::one().await);
    let store = open(&host, &settings);
    let term = lead(&store, "a#1").await;
    let mut pen = Pen::new();
    let units = (1..=150).map(|number| pen.unit(running(number, number))).collect();
    store.commit(term, CommitSeq(0), units).await.unwrap();
    let past = host.client();
    put(&past, "/persys/nodes/bad", b"\xff").await;
    put(&past, "/persys/skydns/local/a", b"{}").await;
    let dumped = store.dump().await.unwrap();
    assert!(dumped.is_sorted());
    assert_eq!(dumped.len(), 150 * 3 + 2, "records, events, one unreadable, the head");
    assert_eq!(store.dump().await.unwrap(), dumped);

    let copy = open(&other, &settings);
    // It was begun before, and ended half way.
    put(&other.client(), "/persys/meta/filling", b"{}").await;
    put(&other.client(), "/persys/workloads/left", b"over").await;
    let half = copy.peek().await.unwrap_err();
    assert!(matches!(&half, Error::Unreadable { key, .. } if key.ends_with("filling")), "{half}");
    let early = lead(&copy, "b#1").await;
    assert!(matches!(copy.load(early, None).await, Err(Error::Unreadable { .. })));
    copy.fill(dumped.clone()).await.unwrap();
    let (there, here) = (copy.dump().await.unwrap(), dumped);
    assert_eq!(there.len(), here.len());
    assert_eq!(copy.peek().await.unwrap(), store.peek().await.unwrap());
    let refused = copy.fill(here).await.unwrap_err();
    assert!(matches!(&refused, Error::NotEmpty { .. }), "{refused}");
    copy.resign(early).await.unwrap();
    let term = lead(&copy, "b#1").await;
    let loaded = copy.load(term, Some(&pen.known())).await.unwrap();
    assert_eq!((loaded.snapshot.workloads.len(), loaded.quarantined.len()), (150, 1));
}

/// What another process writes is heard of, soon and without asking.
#[tokio::test]
async fn the_head_is_followed() {
    let host = Host::one().await;
    let (writer, reader) = (open(&host, &Settings::default()), open(&host, &Settings::default()));
    let mut seen = reader.watch();
    let term = lead(&writer, "a#1").await;
    let mut pen = Pen::new();
    let end = Instant::now() + PATIENCE;
    // The watch may not have begun yet with the first.
    while *seen.borrow_and_update() == CommitSeq(0) {
        assert!(Instant::now() < end);
        let after = pen.head.seq;
        writer.commit(term, after, vec![pen.unit(Vec::new())]).await.unwrap();
        drop(tokio::time::timeout(Duration::from_millis(200), seen.changed()).await);
    }
    let mut health = reader.health();
    let known = health.wait_for(|health| health.reachable && health.revision > 0);
    tokio::time::timeout(PATIENCE, known).await.unwrap().unwrap();
}
