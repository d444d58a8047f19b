use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use persys_model::failure::{Failure, FailureReason, FailureStage};
use persys_model::id::{RevisionId, SecretName, WorkloadId};
use persys_model::resources::{Compute, Disk, Resources};
use persys_model::secret::{Redacted, SecretValue, SecretValues};
use persys_model::spec::secret::Secret;
use persys_model::spec::{ContainerSpec, Kind, Placement, Spec};
use persys_model::time::{Millis, WallMillis};
use persys_model::token::{Epoch, Term};
use persys_node::ledger::{Buried, Goal, Intent, Ledger, LedgerChange};
use persys_store::embedded::FileDisk;
use redb::StorageBackend;

use super::Keeper;
use super::file::{FileKeeper, OpenError};
use super::sealed::Opened;
use crate::history::{Action, ActionKind};

const NOW: WallMillis = WallMillis(1_700_000_000_000);

fn id(text: &'static str) -> WorkloadId {
    WorkloadId::fixed(text)
}

fn intent(epoch: u64, goal: Goal) -> Intent {
    let mut container = ContainerSpec { image: Arc::from("nginx:1"), ..ContainerSpec::default() };
    container.env.insert(Arc::from("TOKEN"), Secret::new("s3cret"));
    let spec = Spec {
        kind: Kind::Container(container),
        resources: Resources { compute: Compute::new(100, 64), disk: Disk::none() },
        placement: Placement::default(),
        metadata: [(Arc::from("team"), Arc::from("a"))].into(),
        secrets: Vec::new(),
        stop_grace_ms: None,
        health: persys_model::spec::health::HealthChecks::default(),
    };
    Intent {
        epoch: Epoch(epoch),
        revision: RevisionId::fixed("rev-1"),
        goal,
        spec: Some(Arc::new(spec)),
        secrets: Arc::new(secrets()),
        restarts: 3,
        gave_up: Some(
            Failure::new(FailureReason::RuntimeError, "exited with code 3")
                .in_stage(FailureStage::Run),
        ),
        kept: true,
        completed: true,
        started: true,
        untold: [SecretName::fixed("db")].into(),
    }
}

fn secrets() -> SecretValues {
    let value = SecretValue { version: 2, value: Redacted::new(b"hunter2-in-the-ledger") };
    [(SecretName::fixed("db"), Ok(value)), (SecretName::fixed("x"), Err("not set".into()))].into()
}

#[tokio::test]
async fn secrets_are_sealed_on_disk_and_open_again() {
    let dir = tempfile::tempdir().unwrap();
    let keeper = FileKeeper::open(dir.path(), NOW).unwrap();
    keeper.write(vec![LedgerChange::Put(id("web"), intent(3, Goal::Run))]).await.unwrap();
    keeper.close().await;
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(7).any(|part| part == b"hunter2"));
    }
    let again = FileKeeper::open(dir.path(), NOW).unwrap();
    assert_eq!(*again.load().await.intents[&id("web")].secrets, secrets());
    again.close().await;
    // Without its key the ledger opens, and has no secrets.
    std::fs::remove_file(dir.path().join("secrets.key")).unwrap();
    let other = FileKeeper::open(dir.path(), NOW).unwrap();
    let held = other.load().await.intents[&id("web")].clone();
    assert_eq!((held.epoch, held.secrets.len()), (Epoch(3), 0));
}

fn changes() -> Vec<LedgerChange> {
    let bare = Intent { spec: None, gave_up: None, ..intent(5, Goal::Rest) };
    vec![
        LedgerChange::Term(Term(7)),
        LedgerChange::Put(id("web"), intent(3, Goal::Run)),
        LedgerChange::Put(id("db"), bare),
        LedgerChange::Put(id("old"), intent(4, Goal::Gone { purge: true })),
        LedgerChange::Bury(id("old"), Buried { epoch: Epoch(4), at: NOW, purged: true }),
        LedgerChange::Bury(id("older"), Buried { epoch: Epoch(1), at: NOW, purged: false }),
        LedgerChange::Forget(id("older")),
        LedgerChange::Put(id("void"), intent(6, Goal::Gone { purge: true })),
        LedgerChange::Withdraw(id("void")),
        LedgerChange::Term(Term(6)),
    ]
}

fn after(changes: &[LedgerChange]) -> Ledger {
    let mut ledger = Ledger::default();
    for change in changes {
        ledger.apply(change);
    }
    ledger
}

/// The folder as a crash leaves it.
fn copy(from: &Path, to: &Path) {
    for name in ["agent.redb", "secrets.key"] {
        std::fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

#[tokio::test]
async fn what_was_written_is_there_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let keeper = FileKeeper::open(dir.path(), NOW).unwrap();
    keeper.write(changes()).await.unwrap();
    // A copy of the file as a crash would leave it: the keeper has not closed it.
    let crashed = tempfile::tempdir().unwrap();
    copy(dir.path(), crashed.path());
    let again = FileKeeper::open(crashed.path(), NOW).unwrap();
    assert_eq!(again.load().await, after(&changes()));
    assert_eq!(again.load().await.term, Term(7), "a term never counts back");
    assert_eq!(again.moved_aside(), None);

    drop(keeper);
    let again = FileKeeper::open(dir.path(), NOW).unwrap();
    assert_eq!(again.load().await, after(&changes()));
}

#[tokio::test]
async fn a_second_agent_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let _keeper = FileKeeper::open(dir.path(), NOW).unwrap();
    let second = FileKeeper::open(dir.path(), NOW);
    assert!(matches!(second, Err(OpenError::InUse { .. })), "{second:?}");
}

#[tokio::test]
async fn a_damaged_or_foreign_file_is_moved_aside_and_read_as_empty() {
    let whole = {
        let dir = tempfile::tempdir().unwrap();
        let keeper = FileKeeper::open(dir.path(), NOW).unwrap();
        keeper.write(changes()).await.unwrap();
        drop(keeper);
        std::fs::read(dir.path().join("agent.redb")).unwrap()
    };
    let mut rotten = whole.clone();
    rotten[4096..].iter_mut().for_each(|byte| *byte ^= 0x5a);
    let cut = whole[..whole.len() / 2].to_vec();
    for bytes in [b"#!/bin/sh\necho not ours\n".to_vec(), Vec::from([0; 8192]), rotten, cut] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("agent.redb"), &bytes).unwrap();
        let keeper = FileKeeper::open(dir.path(), NOW).unwrap();
        assert_eq!(keeper.load().await, Ledger::default());
        let aside = keeper.moved_aside().expect("it was moved").to_path_buf();
        assert!(aside.ends_with("agent.redb.damaged-1700000000000"));
        assert_eq!(std::fs::metadata(aside).unwrap().len() > 0, !bytes.is_empty());
        keeper.write(changes()).await.unwrap();
        drop(keeper);
        let again = FileKeeper::open(dir.path(), NOW).unwrap();
        assert_eq!(again.load().await, after(&changes()));
    }
}

#[tokio::test]
async fn a_file_that_ends_the_agent_each_time_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let keeper = FileKeeper::open(dir.path(), NOW).unwrap();
    keeper.write(changes()).await.unwrap();
    drop(keeper);
    let marker = dir.path().join("agent.redb.opening");
    for (tries, kept) in [("", true), ("..", true), ("...", false)] {
        std::fs::write(&marker, tries).unwrap();
        let keeper = FileKeeper::open(dir.path(), NOW).unwrap();
        assert_eq!(keeper.moved_aside().is_none(), kept, "after {} crashes", tries.len());
        assert_eq!(keeper.load().await != Ledger::default(), kept);
        assert!(!marker.exists());
    }
}

/// A disk that fails when told to.
#[derive(Debug)]
struct Flaky {
    disk: FileDisk,
    fails: Arc<AtomicBool>,
}

impl Flaky {
    fn check(&self) -> io::Result<()> {
        if self.fails.load(Ordering::Acquire) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl StorageBackend for Flaky {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.disk.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.check()?;
        self.disk.sync_data()
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.check()?;
        self.disk.write(offset, bytes)
    }
    fn close(&self) -> io::Result<()> {
        self.disk.close()
    }
}

#[tokio::test]
async fn a_disk_that_fails_loses_nothing_and_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&fails);
    let disk = move |path: &Path| {
        let fails = Arc::clone(&told);
        Opened::on(Flaky { disk: FileDisk::open(path)?, fails })
    };
    let keeper = FileKeeper::open_on(dir.path(), NOW, Box::new(disk)).unwrap();
    let (first, rest) = (changes()[..2].to_vec(), changes()[2..].to_vec());
    keeper.write(first.clone()).await.unwrap();
    fails.store(true, Ordering::Release);
    for _ in 0..3 {
        assert!(keeper.write(rest.clone()).await.is_err());
        assert_eq!(keeper.load().await, after(&first), "what is told is what is on disk");
    }
    fails.store(false, Ordering::Release);
    keeper.write(rest).await.unwrap();
    drop(keeper);
    let again = FileKeeper::open(dir.path(), NOW).unwrap();
    assert_eq!(again.load().await, after(&changes()));
}

#[tokio::test]
async fn the_lease_is_a_file_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let keeper = FileKeeper::open(dir.path(), NOW).unwrap();
    keeper.lease(Millis(5)).await.unwrap();
    keeper.lease(Millis(77)).await.unwrap();
    let text = std::fs::read(dir.path().join("lease")).unwrap();
    let lease: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(lease["fence_at_ms"], 77);
    assert_eq!(lease["v"], 1);
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert_eq!(lease["boot"], boot.trim());
}

fn action(id: u64, ended: bool) -> Action {
    Action {
        id,
        workload: WorkloadId::fixed("web"),
        epoch: ended.then_some(Epoch(7)),
        kind: ActionKind::Delete,
        result: ended.then(|| Err("no".to_owned())),
        created_at: WallMillis(id),
        started_at: Some(WallMillis(id)),
        ended_at: ended.then_some(WallMillis(id + 1)),
    }
}

#[tokio::test]
async fn actions_ride_on_the_next_write_and_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let keeper = FileKeeper::open(dir.path(), NOW).unwrap();
    let size = || std::fs::read(dir.path().join("agent.redb")).unwrap();
    let before = size();
    for id in 1..=1_500 {
        keeper.note(action(id, false));
    }
    keeper.note(action(1_500, true));
    assert!(before == size(), "a note costs no write");
    keeper.write(changes()).await.unwrap();
    keeper.note(action(1_501, true));
    let crashed = tempfile::tempdir().unwrap();
    copy(dir.path(), crashed.path());
    let again = FileKeeper::open(crashed.path(), NOW).unwrap();
    let known = again.actions().await;
    assert_eq!(known.len(), 1_000);
    assert_eq!(known.first(), Some(&action(501, false)));
    assert_eq!(known.last(), Some(&action(1_500, true)));
    assert_eq!(again.load().await, after(&changes()), "the ledger is what it was");

    keeper.close().await;
    let known = FileKeeper::open(dir.path(), NOW).unwrap().actions().await;
    assert_eq!((known.len(), known.last()), (1_000, Some(&action(1_501, true))));
}
