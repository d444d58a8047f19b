//! A file that was cut or scribbled on is refused with a reason, or read as far as it is sound. It
//! never ends the process, and it is never thrown away.

use std::collections::BTreeMap;
use std::path::Path;

use persys_cluster::record::Snapshot;
use persys_model::id::WorkloadId;
use persys_model::token::CommitSeq;
use persys_store::embedded::OpenError;
use persys_store::{Campaign, Embedded, Error, Settings, Store};

use crate::contract::faulty::Chance;
use crate::contract::sample::{Pen, assignment, running, workload};

const WORKLOADS: u64 = 200;
const ROUNDS: usize = 100;

async fn lead(store: &Embedded) -> Result<persys_model::token::Term, Error> {
    match store.campaign(&"a#1".into(), 1000).await? {
        Campaign::Won(term) => Ok(term),
        Campaign::HeldBy(holder, _) => panic!("{holder} leads"),
    }
}

async fn fill(path: &Path) {
    let store = Embedded::open(path, Settings::default()).unwrap();
    let term = lead(&store).await.unwrap();
    let mut pen = Pen::new();
    for batch in 0..WORKLOADS / 10 {
        let after = pen.head.seq;
        let numbers = batch * 10..batch * 10 + 10;
        let units = numbers.map(|number| pen.unit(running(number, number + 1))).collect();
        store.commit(term, after, units).await.unwrap();
    }
    store.close().await;
}

fn pick(chance: &mut Chance, limit: usize) -> usize {
    chance.below(limit as u64) as usize
}

fn damage(bytes: &mut Vec<u8>, chance: &mut Chance) -> String {
    let at = pick(chance, bytes.len());
    let length = pick(chance, 5000).min(bytes.len() - at);
    match pick(chance, 5) {
        0 => {
            bytes.truncate(at);
            format!("cut at {at}")
        }
        1 => {
            bytes[at..at + length].fill(0);
            format!("{length} zeros at {at}")
        }
        2 => {
            for byte in &mut bytes[at..at + length] {
                *byte = u8::try_from(pick(chance, 256)).unwrap();
            }
            format!("{length} random bytes at {at}")
        }
        3 => {
            let at = pick(chance, 512);
            bytes[at] ^= 1 << pick(chance, 8);
            format!("one bit of the header at {at}")
        }
        _ => {
            bytes[at] ^= 1 << pick(chance, 8);
            format!("one bit at {at}")
        }
    }
}

/// What came of a damaged file.
async fn outcome(path: &Path) -> Result<(Snapshot, usize), String> {
    let store = match Embedded::open(path, Settings::default()) {
        Ok(store) => store,
        Err(OpenError::Damaged { path: named, why }) => {
            assert_eq!(named, path.display().to_string());
            assert!(!why.is_empty());
            return Err("refused when opened".to_owned());
        }
        Err(error) => panic!("{error:?}"),
    };
    let mut step = "campaign";
    let result = async {
        let term = lead(&store).await?;
        step = "load";
        let loaded = store.load(term, None).await?;
        step = "commit";
        let mut pen = Pen::after(&loaded.snapshot);
        let after = pen.head.seq;
        let unit = pen.unit(running(WORKLOADS, WORKLOADS + 1));
        store.commit(term, after, vec![unit]).await?;
        Ok((loaded.snapshot, loaded.quarantined.len()))
    };
    let result: Result<_, Error> = result.await;
    store.close().await;
    result.map_err(|error| {
        if error.to_string().contains("went away") {
            return format!("PANIC in {step}");
        }
        format!("refused in {step}: {error}").to_lowercase()
    })
}

#[test]
fn a_damaged_file_is_refused_or_sound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("persys.redb");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(fill(&path));
    let whole = std::fs::read(&path).unwrap();
    println!("the file has {} bytes", whole.len());
    let mut chance = Chance(0x5eed);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for round in 0..ROUNDS {
        let mut bytes = whole.clone();
        let what = damage(&mut bytes, &mut chance);
        let path = folder.path().join("damaged.redb");
        std::fs::write(&path, &bytes).unwrap();
        // On a thread of its own, so that a panic is seen and not suffered.
        let opened = std::thread::scope(|scope| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let path = &path;
            scope.spawn(move || runtime.block_on(outcome(path))).join()
        });
        let kind = match opened {
            Err(_) => "PANIC when opened".to_owned(),
            Ok(Err(why)) => why,
            Ok(Ok((snapshot, quarantined))) => {
                let number = |id: &WorkloadId| id.as_str()[5..].parse().unwrap();
                let workloads = snapshot.workloads.iter().all(|w| **w == *workload(number(&w.id)));
                let assignments =
                    snapshot.assignments.iter().all(|a| **a == *assignment(number(&a.workload)));
                let sound = workloads && assignments;
                let whole = snapshot.workloads.len() == 200 && snapshot.assignments.len() == 200;
                let seq = snapshot.head.map_or(CommitSeq(0), |head| head.seq);
                match (sound, whole) {
                    (true, true) => "whole".to_owned(),
                    (true, false) if seq < CommitSeq(200) => "AN OLDER STATE".to_owned(),
                    (true, false) => format!("PARTS MISSING ({quarantined} aside)"),
                    (false, _) => "SILENTLY CHANGED".to_owned(),
                }
            }
        };
        assert!(!kind.chars().any(char::is_uppercase), "{round}: {what}: {kind}");
        if kind == "refused when opened" {
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "{what}: the file was changed");
        }
        *counts.entry(kind).or_default() += 1;
    }
    println!("{counts:#?}");
}
