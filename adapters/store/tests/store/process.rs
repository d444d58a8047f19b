//! Real processes, real files: killed, locked out, out of room, deleted.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use persys_model::token::Term;
use persys_store::embedded::OpenError;
use persys_store::{Campaign, Embedded, Error, Settings, Store};

use crate::contract::faulty::Chance;
use crate::contract::sample::{Pen, running, workload_id};

/// Names the file to a child process; whoever runs the tests sets it not.
const CHILD: &str = "PERSYS_STORE_TEST_CHILD";

async fn campaign(store: &Embedded) -> Result<Term, Error> {
    match store.campaign(&"a#1".into(), 1000).await? {
        Campaign::Won(term) => Ok(term),
        Campaign::HeldBy(holder, _) => panic!("{holder} leads"),
    }
}

/// Not a test by itself: in a child process it commits without end and prints what was
/// acknowledged.
#[tokio::test]
async fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let store = Embedded::open(Path::new(&path), Settings::default()).unwrap();
    let term = campaign(&store).await.unwrap();
    let loaded = store.load(term, None).await.unwrap();
    let mut pen = Pen::after(&loaded.snapshot);
    let mut out = std::io::stdout();
    loop {
        let after = pen.head.seq;
        let units = (0..5).map(|_| pen.unit(running(pen.head.seq.0 + 1, pen.head.event.0 + 1)));
        let units = units.collect();
        store.commit(term, after, units).await.unwrap();
        writeln!(out, "acknowledged {}", pen.head.seq).unwrap();
        out.flush().unwrap();
    }
}

fn start_child(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::child", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Kills the child once it has acknowledged `commits` more, and says how far it came.
fn kill_after(mut child: Child, commits: u64) -> u64 {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut last, mut seen) = (0, 0);
    while let Some(Ok(line)) = lines.next() {
        if let Some((_, number)) = line.split_once("acknowledged ") {
            last = number.parse().unwrap();
            seen += 1;
        }
        if seen == commits {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(seen >= commits, "the child ended by itself after {seen} commits");
    last
}

#[tokio::test]
async fn what_was_acknowledged_outlives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("persys.redb");
    let mut chance = Chance(0x5eed);
    let (mut reached, mut term) = (0, Term(0));
    for round in 0..12 {
        let last = kill_after(start_child(&path), 1 + chance.below(60));
        assert!(last > reached);
        let store = Embedded::open(&path, Settings::default()).unwrap();
        let next = campaign(&store).await.unwrap();
        assert!(next.0 >= term.0 + 2, "the child's own term lies between");
        let loaded = store.load(next, None).await.unwrap();
        let head = loaded.snapshot.head.unwrap();
        assert!(head.seq.0 > last, "round {round}: {last} was acknowledged, not {}", head.seq);
        assert_eq!(loaded.quarantined, []);
        let ids: std::collections::BTreeSet<_> =
            loaded.snapshot.workloads.iter().map(|workload| workload.id.clone()).collect();
        assert!((reached + 2..=last).all(|number| ids.contains(&workload_id(number))));
        (reached, term) = (head.seq.0, next);
        store.close().await;
    }
    println!("{reached} units over 12 kills");
}

#[tokio::test]
async fn a_second_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("persys.redb");
    let mut child = start_child(&path);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("acknowledged")));
    let refused = Embedded::open(&path, Settings::default()).unwrap_err();
    assert!(matches!(refused, OpenError::InUse { .. }));
    assert_eq!(
        refused.to_string(),
        format!(
            "the store {} is in use: another persys runs with it; stop that one first",
            path.display()
        )
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let store = Embedded::open(&path, Settings::default()).unwrap();
    assert!(matches!(Embedded::open(&path, Settings::default()), Err(OpenError::InUse { .. })));
    store.close().await;
    Embedded::open(&path, Settings::default()).unwrap();
}

#[tokio::test]
async fn something_else_is_not_taken_for_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "my notes\n".repeat(1000)).unwrap();
    let refused = Embedded::open(&path, Settings::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused:?}");
    assert!(refused.to_string().contains("is not a store, or is damaged"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "my notes\n".repeat(1000));
    let nowhere = folder.path().join("no/such/folder");
    let refused = Embedded::open(&nowhere, Settings::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Disk { .. }), "{refused:?}");
}

#[tokio::test]
async fn a_deleted_file_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("persys.redb");
    let store = Embedded::open(&path, Settings::default()).unwrap();
    let term = campaign(&store).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut pen = Pen::new();
    let after = pen.head.seq;
    let lost = store.commit(term, after, vec![pen.unit(running(1, 1))]).await.unwrap_err();
    assert!(matches!(&lost, Error::Unknown { .. }), "{lost}");
    let gone = store.renew(term).await.unwrap_err().to_string();
    assert!(gone.contains("deleted while it was open"), "{gone}");
}

/// A file system of four megabytes, taken down again when dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(folder.path())
            .output()
            .map_err(|error| error.to_string())?;
        if done.status.success() {
            Ok(Self(folder))
        } else {
            Err(String::from_utf8_lossy(&done.stderr).into_owned())
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        drop(Command::new("umount").arg(self.0.path()).status());
    }
}

#[tokio::test]
async fn a_full_file_system_loses_nothing() {
    let small = match Small::mount() {
        Ok(small) => small,
        Err(why) => return println!("skipped: no small file system can be mounted here: {why}"),
    };
    let path = small.0.path().join("persys.redb");
    let ballast = small.0.path().join("ballast");
    let store = Embedded::open(&path, Settings::default()).unwrap();
    let term = campaign(&store).await.unwrap();
    let mut pen = Pen::new();
    let commit = async |pen: &mut Pen| {
        let after = pen.head.seq;
        let units = (0..40).map(|_| pen.unit(running(pen.head.seq.0 + 1, pen.head.event.0 + 1)));
        let units = units.collect();
        store.commit(term, after, units).await
    };
    commit(&mut pen).await.unwrap();
    // Somebody else fills the rest, all but a little.
    std::fs::write(&ballast, vec![0; 2 << 20]).unwrap();
    let mut acknowledged = pen.head.seq;
    let ended = loop {
        match commit(&mut pen).await {
            Ok(()) => acknowledged = pen.head.seq,
            Err(error) => break error,
        }
    };
    println!("full after {acknowledged} units: {ended}");
    assert!(matches!(ended, Error::Unavailable { .. } | Error::Unknown { .. }), "{ended}");
    drop(store.load(term, None).await);
    std::fs::remove_file(&ballast).unwrap();
    let loaded = store.load(term, None).await.unwrap();
    let head = loaded.snapshot.head.clone().unwrap();
    let units = loaded.snapshot.workloads.len() as u64;
    assert!(head.seq > acknowledged && units >= acknowledged.0, "{units} of {acknowledged}");
    let mut pen = Pen::after(&loaded.snapshot);
    commit(&mut pen).await.unwrap();
    store.close().await;
}

/// Prints what a commit costs; there is no limit, machines differ.
#[tokio::test]
async fn a_commit_is_durable_and_quick() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(&folder.path().join("persys.redb"), Settings::default()).unwrap();
    let term = campaign(&store).await.unwrap();
    let mut pen = Pen::new();
    for (units, rounds) in [(1_u64, 500_usize), (40, 200)] {
        let mut times = Vec::new();
        for _ in 0..rounds {
            let after = pen.head.seq;
            let batch = (0..units).map(|_| pen.unit(running(pen.head.seq.0, pen.head.event.0 + 1)));
            let batch = batch.collect();
            let began = Instant::now();
            store.commit(term, after, batch).await.unwrap();
            times.push(began.elapsed());
        }
        times.sort();
        let (half, most) = (times[rounds / 2], times[rounds * 99 / 100]);
        println!("{units} units per commit: median {half:?}, p99 {most:?}");
    }
    store.close().await;
}
