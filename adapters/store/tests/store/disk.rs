//! Whatever the disk does: what was acknowledged is there, and what is said is true.

use persys_model::token::{CommitSeq, Term};
use persys_store::{Campaign, Embedded, Error, Loaded, Settings, Store};

use crate::contract::faulty::{Chance, Fault, Faulty};
use crate::contract::sample::{Pen, running};

async fn campaign(store: &Embedded) -> Result<Term, Error> {
    match store.campaign(&"a#1".into(), 1000).await? {
        Campaign::Won(term) => Ok(term),
        Campaign::HeldBy(holder, _) => panic!("{holder} leads"),
    }
}

/// Commits one workload after the other until something fails, or all are there. Says how many
/// were acknowledged, and the failure.
async fn commit_many(
    store: &Embedded,
    term: Term,
    pen: &mut Pen,
    many: u64,
) -> (u64, Option<Error>) {
    for done in 0..many {
        let before = pen.clone();
        let after = pen.head.seq;
        let unit = pen.unit(running(after.0, after.0 + 1));
        if let Err(error) = store.commit(term, after, vec![unit]).await {
            *pen = before;
            return (done, Some(error));
        }
    }
    (many, None)
}

/// Everything up to some unit is there and nothing of what came after it.
fn is_one_state(loaded: &Loaded, raised: u64) -> u64 {
    assert_eq!(loaded.quarantined, []);
    let seq = loaded.snapshot.head.as_ref().map_or(0, |head| head.seq.0);
    let units = seq.saturating_sub(raised);
    let count = u64::try_from(loaded.snapshot.workloads.len()).unwrap();
    assert_eq!(count, units, "whole units");
    assert_eq!(loaded.snapshot.assignments.len(), loaded.snapshot.workloads.len());
    units
}

/// The power goes at every possible moment of a filling.
#[tokio::test]
async fn a_store_is_filled_wholly_or_not_at_all() {
    let source = Embedded::open_on(Faulty::new().disks(), Settings::default()).unwrap();
    let term = campaign(&source).await.unwrap();
    commit_many(&source, term, &mut Pen::new(), 20).await;
    let copy = source.dump().await.unwrap();
    let mut chance = Chance(0x5eed);
    let (mut cuts, mut whole) = (0, 0);
    for power in 0.. {
        let disk = Faulty::new();
        disk.platter().fault = Fault::PowerAfter(power);
        let Ok(store) = Embedded::open_on(disk.disks(), Settings::default()) else { continue };
        let filled = store.fill(copy.clone()).await;
        store.close().await;
        let disk = disk.after_power_loss(&mut chance);
        let store = Embedded::open_on(disk.disks(), Settings::default()).unwrap();
        let found = store.dump().await.unwrap();
        assert!(found.is_empty() || found == copy, "{power}: a part of it");
        if filled.is_ok() {
            assert_eq!(found, copy, "{power}: it was said to be done");
            break;
        }
        cuts += 1;
        whole += usize::from(!found.is_empty());
        if found.is_empty() {
            store.fill(copy.clone()).await.unwrap();
            assert_eq!(store.dump().await.unwrap(), copy);
        }
    }
    println!("{cuts} cuts, {whole} of them after all was there");
    assert!(cuts > 3);
}

/// The power goes at every possible moment of a short life, with any part of the cache lost.
#[tokio::test]
async fn what_was_acknowledged_outlives_a_power_loss() {
    let mut chance = Chance(0x5eed);
    let (mut cuts, mut landed) = (0, 0);
    for seed in 0..2 {
        for power in 0.. {
            let disk = Faulty::new();
            disk.platter().fault = Fault::PowerAfter(power);
            let Ok(store) = Embedded::open_on(disk.disks(), Settings::default()) else {
                // A file gets its name when it is whole; a half made one is never opened again.
                continue;
            };
            let (term, acknowledged, ended) = match campaign(&store).await {
                Ok(term) => {
                    let (done, ended) = commit_many(&store, term, &mut Pen::new(), 6).await;
                    (term, done, ended)
                }
                Err(error) => (Term(0), 0, Some(error)),
            };
            store.close().await;
            let all_done = acknowledged == 6;

            let disk = disk.after_power_loss(&mut chance);
            let store = Embedded::open_on(disk.disks(), Settings::default()).unwrap();
            let next = campaign(&store).await.unwrap();
            assert!(next > term, "{next} after {term}");
            let loaded = store.load(next, None).await.unwrap();
            let raised = u64::from(loaded.snapshot.head.is_some());
            let units = is_one_state(&loaded, raised);
            assert!(units >= acknowledged, "{seed}/{power}: {units} of {acknowledged}");
            let unknown = matches!(ended, Some(Error::Unknown { .. }));
            assert!(units <= acknowledged + u64::from(unknown), "{seed}/{power}: {ended:?}");
            landed += units - acknowledged;
            store.close().await;
            if all_done {
                break;
            }
            cuts += 1;
        }
    }
    println!("{cuts} power cuts; {landed} commits with unknown outcome turned out to be there");
}

/// After a failed sync the disk is not touched again, and nothing is claimed.
#[tokio::test]
async fn a_failed_sync_ends_the_store() {
    for syncs in 0..8 {
        let disk = Faulty::new();
        let store = Embedded::open_on(disk.disks(), Settings::default()).unwrap();
        let term = campaign(&store).await.unwrap();
        let mut pen = Pen::new();
        disk.platter().fault = Fault::SyncAfter(syncs);
        let (acknowledged, ended) = commit_many(&store, term, &mut pen, 50).await;
        assert!(matches!(ended, Some(Error::Unknown { .. })), "{ended:?}");
        let tries = disk.platter().tries;
        let unit = pen.unit(running(900, 900));
        for error in [
            campaign(&store).await.unwrap_err(),
            store.renew(term).await.unwrap_err(),
            store.load(term, None).await.unwrap_err(),
            store.commit(term, CommitSeq(acknowledged), vec![unit]).await.unwrap_err(),
        ] {
            let Error::Unavailable { why } = error else { panic!("{error}") };
            assert!(why.contains("not used again before a restart"), "{why}");
        }
        store.close().await;
        assert_eq!(disk.platter().tries, tries, "the disk was touched");

        // The next process reads what is really there.
        let disk = disk.after_power_loss(&mut Chance(syncs + 1));
        let store = Embedded::open_on(disk.disks(), Settings::default()).unwrap();
        let term = campaign(&store).await.unwrap();
        let loaded = store.load(term, None).await.unwrap();
        let units = is_one_state(&loaded, u64::from(acknowledged > 0));
        assert!(units == acknowledged, "{units} of {acknowledged}");
        store.close().await;
    }
}

/// A full disk loses nothing, ends no leadership, and is used again once there is room.
#[tokio::test]
async fn a_full_disk_is_waited_for() {
    let mut outcomes = std::collections::BTreeMap::new();
    for writes in 0..40 {
        let disk = Faulty::new();
        let store = Embedded::open_on(disk.disks(), Settings::default()).unwrap();
        let term = campaign(&store).await.unwrap();
        let mut pen = Pen::new();
        let (first, _) = commit_many(&store, term, &mut pen, 3).await;
        disk.platter().fault = Fault::FullAfter(writes);
        let (then, ended) = commit_many(&store, term, &mut pen, 100).await;
        let acknowledged = first + then;
        let ended = ended.unwrap();
        let unknown = matches!(ended, Error::Unknown { .. });
        *outcomes.entry(unknown).or_insert(0) += 1;
        for _ in 0..3 {
            let error = store.load(term, None).await.unwrap_err();
            assert!(matches!(error, Error::Unavailable { .. } | Error::Unknown { .. }), "{error}");
        }
        disk.platter().fault = Fault::None;
        store.renew(term).await.unwrap();
        let loaded = store.load(term, Some(&pen.known())).await.unwrap();
        let units = loaded.snapshot.workloads.len() as u64;
        assert!((acknowledged..=acknowledged + u64::from(unknown)).contains(&units), "{ended}");
        let mut pen = Pen::after(&loaded.snapshot);
        assert_eq!(commit_many(&store, term, &mut pen, 3).await, (3, None));
        store.close().await;
    }
    println!("a full disk left the outcome unknown: {outcomes:?}");
}

/// A sync that fails while the file is opened again ends the store like any other.
#[tokio::test]
async fn a_failed_sync_while_opening_again_ends_the_store() {
    for syncs in 0..3 {
        let disk = Faulty::new();
        let store = Embedded::open_on(disk.disks(), Settings::default()).unwrap();
        let term = campaign(&store).await.unwrap();
        let mut pen = Pen::new();
        assert_eq!(commit_many(&store, term, &mut pen, 3).await, (3, None));
        disk.platter().fault = Fault::FullAfter(1);
        let (acknowledged, _) = commit_many(&store, term, &mut pen, 100).await;
        assert_eq!(acknowledged, 0);
        disk.platter().fault = Fault::SyncAfter(syncs);
        let error = store.renew(term).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{syncs}: {error}");
        let tries = disk.platter().tries;
        let error = store.load(term, None).await.unwrap_err().to_string();
        assert!(error.contains("not used again before a restart"), "{syncs}: {error}");
        assert_eq!(disk.platter().tries, tries, "the disk was touched");
        store.close().await;
    }
}
