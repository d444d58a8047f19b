//! What every runtime keeps. Each test of a runtime gives a [`Bench`] and calls these.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "shared by several test binaries"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::StreamExt;
use futures::future::join_all;
use persys_model::failure::FailureReason;
use persys_model::id::{RevisionId, SecretName, WorkloadId};
use persys_model::resources::{Compute, Resources};
use persys_model::secret::{SecretSeen, SecretUse, Signal};
use persys_model::spec::{Class, Kind, Placement, Spec};
use persys_model::time::Millis;
use persys_model::token::Epoch;
use persys_node::input::{Existing, Outcome, Seen};
use persys_runtime::inside::{ExecCommand, LogRange, Wakeup};
use persys_runtime::runtime::{Fetched, Thing};
use persys_runtime::{
    Error, Evidence, Exclusive, Exec, Logs, Refresh, Runtime, Start, Usage, Wakeups,
};

/// Everything a runtime of ours can do.
pub(crate) trait Everything:
    Runtime + Logs + Exec + Usage + Evidence + Wakeups + Exclusive
{
}
impl<T: Runtime + Logs + Exec + Usage + Evidence + Wakeups + Exclusive> Everything for T {}

/// A runtime with what is needed to put it to the test.
#[async_trait]
pub(crate) trait Bench: Sync {
    fn runtime(&self) -> &dyn Everything;
    /// Something that runs until it is stopped, and ends at once when it is.
    fn runs(&self) -> Kind;
    /// Something that ends with this code at once.
    fn exits(&self, code: i32) -> Kind;
    /// Something that runs, and prints the names of SIGHUP and SIGUSR1 when it gets them. A stack sees the
    /// secret `db`, signalled by the first, in one service and `key`, by the second, in another. Beside
    /// it, the word it prints once it listens, and how often.
    fn hears(&self) -> (Kind, &'static str, usize);
    /// What `runs` is, with its port 80 at this port of the node, or at a free one.
    fn publishes(&self, host: Option<u16>) -> Kind;
    /// Something of the same kind that cannot be started anywhere.
    fn broken(&self) -> Kind;
    /// Whether a failed first start leaves the thing, made and at rest.
    fn keeps_what_failed(&self) -> bool {
        true
    }
    /// Takes the name of a workload for somebody else.
    async fn plant_foreign(&self, workload: &WorkloadId);
    /// Whether what was planted is as it was; removes it.
    async fn dig_up_foreign(&self, workload: &WorkloadId) -> bool;
}

/// A script that prints the signals it gets.
pub(crate) const HEARS: &str = "trap 'echo SIGHUP' HUP; trap 'echo SIGUSR1' USR1; \
                                trap 'exit 0' TERM; echo ready; sleep 1000 & while :; do wait; done";
pub(crate) const GRACE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn spec(kind: impl Into<Kind>) -> Arc<Spec> {
    Arc::new(Spec {
        kind: kind.into(),
        resources: Resources { compute: Compute::new(100, 32), ..Resources::default() },
        placement: Placement::default(),
        metadata: BTreeMap::new(),
        secrets: Vec::new(),
        stop_grace_ms: None,
        health: persys_model::spec::health::HealthChecks::default(),
    })
}

pub(crate) fn start(workload: &str, revision: &str, kind: impl Into<Kind>) -> Start {
    Start {
        workload: WorkloadId::new(workload).unwrap(),
        revision: RevisionId::new(revision).unwrap(),
        epoch: Epoch(7),
        spec: spec(kind),
        volumes: BTreeMap::new(),
        secrets: Arc::default(),
        secrets_at: None,
        not_after: None,
        resume: false,
    }
}

pub(crate) fn quiet(_: Fetched) {}

pub(crate) async fn state(bench: &dyn Bench, workload: &WorkloadId) -> Option<Existing> {
    bench.runtime().inspect(workload).await.unwrap().map(|thing| thing.seen.state)
}

pub(crate) async fn listed(bench: &dyn Bench, workload: &WorkloadId) -> Option<Seen> {
    let list = bench.runtime().list().await.unwrap();
    list.into_iter().find(|seen| seen.workload == *workload)
}

async fn thing(bench: &dyn Bench, workload: &WorkloadId) -> Thing {
    bench.runtime().inspect(workload).await.unwrap().expect("it exists")
}

/// Waits until a workload has ended and says with which code.
pub(crate) async fn ended(bench: &dyn Bench, workload: &WorkloadId) -> i32 {
    let begun = Instant::now();
    loop {
        if let Some(Existing::Exited { code }) = state(bench, workload).await {
            return code;
        }
        assert!(begun.elapsed() < PATIENCE, "{workload} does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Paused and resumed, each twice; shown as paused, and stopped and removed while it is.
pub(crate) async fn what_is_paused_is_shown_resumed_stopped_and_removed(bench: &dyn Bench) {
    let runtime = bench.runtime();
    let order = start("contract-pause", "r1", bench.runs());
    let id = &order.workload;
    assert!(runtime.pause(id).await.is_err(), "there is nothing to pause");
    runtime.prepare(&order.spec, &quiet).await.unwrap();
    runtime.start(&order).await.unwrap();
    let first = thing(bench, id).await;
    for _ in 0..2 {
        runtime.pause(id).await.unwrap();
        assert_eq!(state(bench, id).await, Some(Existing::PAUSED));
        assert_eq!(listed(bench, id).await.unwrap().state, Existing::PAUSED);
    }
    for _ in 0..2 {
        runtime.start(&order).await.unwrap();
        assert_eq!(state(bench, id).await, Some(Existing::Running));
    }
    assert_eq!(thing(bench, id).await.started_at, first.started_at, "it was not started anew");
    runtime.pause(id).await.unwrap();
    runtime.stop(id, Some(Duration::from_secs(1))).await.unwrap();
    assert!(matches!(state(bench, id).await, Some(Existing::Exited { .. })));
    assert!(runtime.pause(id).await.is_err(), "what has ended cannot be paused");
    let resume = Start { resume: true, ..order.clone() };
    assert!(runtime.start(&resume).await.is_err(), "what has ended cannot be resumed");
    assert!(!state(bench, id).await.unwrap().is_alive(), "and is not started again");
    runtime.start(&order).await.unwrap();
    runtime.pause(id).await.unwrap();
    runtime.remove(id, true).await.unwrap();
    assert_eq!(state(bench, id).await, None);
}

/// What runs gets the signals of the secrets that changed, and no others, and runs on.
pub(crate) async fn what_runs_is_signalled_for_the_secrets_that_changed(bench: &dyn Bench) {
    let runtime = bench.runtime();
    let folder = tempfile::tempdir().unwrap();
    let used = |name: &'static str, signal| {
        std::fs::write(folder.path().join(name), name).unwrap();
        let path = format!("/run/secrets/{name}").into();
        let seen = SecretSeen::File { path, mode: 0o400, uid: 0, gid: 0, signal: Some(signal) };
        SecretUse { secret: SecretName::fixed(name), seen }
    };
    let (kind, word, times) = bench.hears();
    let mut order = start("contract-signal", "r1", kind);
    let secrets = vec![used("db", Signal::Hup), used("key", Signal::Usr1)];
    order.spec = Arc::new(Spec { secrets, ..(*order.spec).clone() });
    order.secrets_at = Some(folder.path().to_path_buf());
    let id = &order.workload;
    let refresh = |name: &'static str| Refresh {
        workload: id.clone(),
        spec: Arc::clone(&order.spec),
        secrets: Arc::default(),
        changed: [SecretName::fixed(name)].into(),
    };
    assert!(runtime.signal(&refresh("db")).await.is_err(), "there is nothing to signal");
    runtime.start(&order).await.unwrap();
    prints(bench, id, word, times).await;
    let before = thing(bench, id).await;
    for times in 1..=2 {
        runtime.signal(&refresh("db")).await.unwrap();
        prints(bench, id, "SIGHUP", times).await;
    }
    runtime.signal(&refresh("key")).await.unwrap();
    prints(bench, id, "SIGUSR1", 1).await;
    prints(bench, id, "SIGHUP", 2).await;
    assert_eq!(thing(bench, id).await, before, "it was neither started anew nor made again");
    runtime.pause(id).await.unwrap();
    assert!(runtime.signal(&refresh("db")).await.is_err(), "what is paused hears nothing");
    runtime.stop(id, Some(Duration::from_secs(1))).await.unwrap();
    assert!(runtime.signal(&refresh("db")).await.is_err(), "what has ended cannot be signalled");
    runtime.remove(id, true).await.unwrap();
}

/// Waits until a workload has printed a word so often, and no oftener.
async fn prints(bench: &dyn Bench, workload: &WorkloadId, word: &str, times: usize) {
    let begun = Instant::now();
    loop {
        let mut text = Vec::new();
        let mut lines = bench.runtime().logs(workload, LogRange::default()).await.unwrap();
        while let Some(chunk) = lines.next().await {
            text.extend_from_slice(&chunk.unwrap().bytes);
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        let found = text.matches(word).count();
        if found == times {
            return;
        }
        assert!(found < times && begun.elapsed() < PATIENCE, "{word} {times} times: {text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Made, started, stopped, started again, removed; each twice, and each "already so" is success.
pub(crate) async fn lifecycle_twice(bench: &dyn Bench) {
    let runtime = bench.runtime();
    let order = start("contract-life", "r1", bench.runs());
    let id = &order.workload;
    for _ in 0..2 {
        runtime.stop(id, Some(GRACE)).await.unwrap();
        runtime.remove(id, false).await.unwrap();
        assert_eq!(state(bench, id).await, None, "stopping or removing nothing is success");
    }
    for _ in 0..2 {
        runtime.prepare(&order.spec, &quiet).await.unwrap();
    }
    runtime.start(&order).await.unwrap();
    assert_eq!(state(bench, id).await, Some(Existing::Running));
    let first = thing(bench, id).await;
    runtime.start(&order).await.unwrap();
    assert_eq!(thing(bench, id).await, first, "what runs is not started again");

    for _ in 0..2 {
        runtime.stop(id, Some(GRACE)).await.unwrap();
        assert!(matches!(state(bench, id).await, Some(Existing::Exited { .. })));
    }
    runtime.start(&order).await.unwrap();
    let second = thing(bench, id).await;
    assert_eq!(second.seen.state, Existing::Running);
    assert_eq!(second.id, first.id, "the same revision is not made again");
    assert_ne!(second.started_at, first.started_at);
    for _ in 0..2 {
        runtime.remove(id, true).await.unwrap();
        assert_eq!(state(bench, id).await, None);
        assert_eq!(listed(bench, id).await, None, "nothing is left");
    }
}

/// The list shows what the labels say.
pub(crate) async fn labels_are_listed(bench: &dyn Bench) {
    let runtime = bench.runtime();
    let order = start("contract-labels", "sha256:ab/cd@1", bench.runs());
    runtime.start(&order).await.unwrap();
    let seen = listed(bench, &order.workload).await.expect("it is listed");
    assert_eq!(seen.revision, order.revision);
    assert_eq!((seen.epoch, seen.state), (order.epoch, Existing::Running));
    runtime.remove(&order.workload, true).await.unwrap();
}

/// A watchdog sees exclusive work that runs, and nothing else.
pub(crate) async fn exclusive_work_is_known(bench: &dyn Bench) {
    let runtime = bench.runtime();
    let common = start("contract-common", "r1", bench.runs());
    let mut alone = start("contract-alone", "r1", bench.runs());
    let mut spec = (*alone.spec).clone();
    spec.placement.class = Class::Exclusive;
    alone.spec = Arc::new(spec);
    runtime.start(&common).await.unwrap();
    assert_eq!(runtime.exclusive().await.unwrap(), []);
    runtime.start(&alone).await.unwrap();
    assert_eq!(runtime.exclusive().await.unwrap(), [alone.workload.clone()]);
    runtime.stop(&alone.workload, Some(Duration::from_secs(5))).await.unwrap();
    assert_eq!(runtime.exclusive().await.unwrap(), [], "it rests");
    for order in [common, alone] {
        runtime.remove(&order.workload, true).await.unwrap();
    }
}

/// Another revision is brought over what runs, in place, and one that fails leaves what runs.
pub(crate) async fn updates_come_over_what_runs(bench: &dyn Bench) {
    let runtime = bench.runtime();
    let order = |revision: &str, epoch, kind| Start {
        epoch: Epoch(epoch),
        ..start("contract-update", revision, kind)
    };
    let first = order("r1", 7, bench.runs());
    let id = &first.workload;
    runtime.start(&first).await.unwrap();
    let second = order("r2", 8, bench.runs());
    runtime.start(&second).await.unwrap();
    let seen = listed(bench, id).await.expect("it is listed");
    assert_eq!((seen.revision.as_str(), seen.epoch), ("r2", Epoch(8)));
    assert_eq!(seen.state, Existing::Running);

    let before = thing(bench, id).await;
    let bad = order("r3", 9, bench.broken());
    let error = runtime.start(&bad).await.unwrap_err();
    assert!(matches!(error.outcome(), Outcome::Failed(_)), "{error}");
    assert_eq!(thing(bench, id).await, before, "the last good revision was touched");
    assert_eq!(listed(bench, id).await, Some(seen), "and it is what is listed");
    runtime.start(&second).await.unwrap();
    assert_eq!(thing(bench, id).await, before, "it runs already");

    let late = Start { not_after: Some(Millis(0)), ..order("r4", 10, bench.runs()) };
    let error = runtime.start(&late).await.unwrap_err();
    assert!(matches!(error, Error::TooLate { .. }), "{error}");
    assert_eq!(thing(bench, id).await, before, "too late is not started");

    let good = order("r5", 11, bench.runs());
    runtime.start(&good).await.unwrap();
    assert_eq!(listed(bench, id).await.unwrap().revision, good.revision);
    runtime.stop(id, Some(GRACE)).await.unwrap();
    let rested = order("r6", 12, bench.runs());
    runtime.start(&rested).await.unwrap();
    let seen = listed(bench, id).await.unwrap();
    assert_eq!((seen.revision, seen.state), (rested.revision, Existing::Running));
    runtime.remove(id, true).await.unwrap();
    assert_eq!(listed(bench, id).await, None);
}

/// Of what is not updated in place, another revision is never replaced by a start, nor touched.
pub(crate) async fn other_revision_is_refused(bench: &dyn Bench) {
    let runtime = bench.runtime();
    let old = start("contract-revision", "r1", bench.runs());
    let new = start("contract-revision", "r2", bench.runs());
    runtime.start(&old).await.unwrap();
    let before = thing(bench, &old.workload).await;
    let error = runtime.start(&new).await.unwrap_err();
    assert!(
        matches!(&error, Error::OtherRevision { found, .. } if found.as_str() == "r1"),
        "{error}"
    );
    assert_eq!(thing(bench, &old.workload).await, before);
    runtime.remove(&old.workload, false).await.unwrap();
    runtime.start(&new).await.unwrap();
    assert_eq!(listed(bench, &new.workload).await.unwrap().revision, new.revision);
    runtime.remove(&new.workload, true).await.unwrap();
}

/// What somebody else has under our name is named, never stopped, removed, listed or looked into.
pub(crate) async fn foreign_is_untouched(bench: &dyn Bench) {
    let runtime = bench.runtime();
    let order = start("contract-foreign", "r1", bench.runs());
    let id = &order.workload;
    bench.plant_foreign(id).await;
    let error = runtime.start(&order).await.unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    assert!(matches!(error.outcome(), Outcome::Failed(_)));
    runtime.stop(id, Some(Duration::ZERO)).await.unwrap();
    runtime.remove(id, true).await.unwrap();
    assert_eq!(runtime.inspect(id).await.unwrap(), None);
    assert_eq!(listed(bench, id).await, None);
    assert!(matches!(runtime.logs(id, LogRange::default()).await, Err(Error::Absent { .. })));
    assert!(matches!(runtime.exec(id, &ExecCommand::default()).await, Err(Error::Absent { .. })));
    assert!(bench.dig_up_foreign(id).await, "it was touched");
}

/// Exit codes come through in looking, in listing and as evidence.
pub(crate) async fn exit_codes_come_through(bench: &dyn Bench) {
    let runtime = bench.runtime();
    for (name, code) in [("contract-exit-a", 0), ("contract-exit-b", 3), ("contract-exit-c", 137)] {
        let order = start(name, "r1", bench.exits(code));
        runtime.start(&order).await.unwrap();
        assert_eq!(ended(bench, &order.workload).await, code);
        let seen = listed(bench, &order.workload).await.unwrap();
        assert_eq!(seen.state, Existing::Exited { code });
        let end = runtime.evidence(&order.workload).await.unwrap().expect("it ended");
        assert_eq!((end.code, end.signal), (code, (code == 137).then_some(9)));
        assert_eq!(runtime.usage(&order.workload).await.unwrap(), None);
        runtime.remove(&order.workload, true).await.unwrap();
    }
}

/// Verbs on different workloads do not hold each other up.
pub(crate) async fn workloads_are_independent(bench: &dyn Bench) {
    let runtime = bench.runtime();
    let orders: Vec<_> =
        (0..6).map(|i| start(&format!("contract-many-{i}"), "r1", bench.runs())).collect();
    for result in join_all(orders.iter().map(|order| runtime.start(order))).await {
        result.unwrap();
    }
    let list = runtime.list().await.unwrap();
    let ours = list.iter().filter(|seen| seen.workload.as_str().starts_with("contract-many-"));
    assert_eq!(ours.filter(|seen| seen.state == Existing::Running).count(), 6);
    for result in join_all(orders.iter().map(|order| runtime.remove(&order.workload, true))).await {
        result.unwrap();
    }
    for order in &orders {
        assert_eq!(listed(bench, &order.workload).await, None);
    }
}

/// The same verb for the same workload, several times at once, is one.
pub(crate) async fn one_workload_at_once(bench: &dyn Bench) {
    let runtime = bench.runtime();
    let order = start("contract-race", "r1", bench.runs());
    for result in join_all((0..4).map(|_| runtime.start(&order))).await {
        result.unwrap();
    }
    assert_eq!(state(bench, &order.workload).await, Some(Existing::Running));
    for result in join_all((0..4).map(|_| runtime.remove(&order.workload, true))).await {
        result.unwrap();
    }
    assert_eq!(state(bench, &order.workload).await, None);
}

/// Exclusive work does not start once its lease is over.
pub(crate) async fn too_late_is_not_started(bench: &dyn Bench) {
    let runtime = bench.runtime();
    let mut order = start("contract-late", "r1", bench.runs());
    order.not_after = Some(Millis(0));
    let error = runtime.start(&order).await.unwrap_err();
    assert!(matches!(error, Error::TooLate { .. }), "{error}");
    assert_ne!(state(bench, &order.workload).await, Some(Existing::Running));
    order.not_after = Some(Millis(u64::MAX));
    runtime.start(&order).await.unwrap();
    assert_eq!(state(bench, &order.workload).await, Some(Existing::Running));
    runtime.remove(&order.workload, true).await.unwrap();
}

/// Two workloads cannot have one port of the node; the failure names the port and its holder.
pub(crate) async fn a_taken_port_is_named(bench: &dyn Bench, port: u16) {
    let runtime = bench.runtime();
    let first = start("contract-port-a", "r1", bench.publishes(Some(port)));
    let second = start("contract-port-b", "r1", bench.publishes(Some(port)));
    let free = start("contract-port-c", "r1", bench.publishes(None));
    runtime.start(&first).await.unwrap();
    let error = runtime.start(&second).await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::NetworkError, "{error}");
    assert!(error.retryable());
    let words = error.to_string();
    assert!(words.contains(&format!("{port}/tcp")) && words.contains("contract-port-a"), "{words}");
    let left = bench.keeps_what_failed().then_some(Existing::Created);
    assert_eq!(state(bench, &second.workload).await, left);

    runtime.start(&free).await.unwrap();
    let chosen = thing(bench, &free.workload).await.ports;
    assert_eq!(chosen.len(), 1, "{chosen:?}");
    assert!(chosen[0].host.port != 0 && chosen[0].inner == 80);
    runtime.remove(&first.workload, true).await.unwrap();
    runtime.start(&second).await.unwrap();
    assert_eq!(thing(bench, &second.workload).await.ports[0].host.port, port);
    for order in [&second, &free] {
        runtime.remove(&order.workload, true).await.unwrap();
    }
}

/// A listener is first told to look at everything, then hears of what changes.
pub(crate) async fn changes_are_told(bench: &dyn Bench) {
    let runtime = bench.runtime();
    let mut wakeups = runtime.wakeups();
    assert_eq!(wakeups.next().await, Some(Wakeup::Everything));
    let order = start("contract-wake", "r1", bench.runs());
    let wanted = Wakeup::Workload(order.workload.clone());
    runtime.start(&order).await.unwrap();
    let heard = async { while wakeups.next().await != Some(wanted.clone()) {} };
    tokio::time::timeout(PATIENCE, heard).await.expect("the start is told");
    runtime.remove(&order.workload, true).await.unwrap();
    let heard = async { while wakeups.next().await != Some(wanted.clone()) {} };
    tokio::time::timeout(PATIENCE, heard).await.expect("the removal is told");
}

/// A command inside prints and ends.
pub(crate) async fn commands_run_inside(bench: &dyn Bench) {
    let runtime = bench.runtime();
    let order = start("contract-exec", "r1", bench.runs());
    runtime.start(&order).await.unwrap();
    let argv = ["echo", "hello"].map(ToOwned::to_owned).to_vec();
    let command = ExecCommand { argv, ..ExecCommand::default() };
    let mut session = runtime.exec(&order.workload, &command).await.unwrap();
    let mut text = Vec::new();
    while let Some(chunk) = session.output.next().await {
        text.extend_from_slice(&chunk.unwrap().bytes);
    }
    assert!(String::from_utf8_lossy(&text).contains("hello"));
    assert_eq!(session.control.exit_code().await.unwrap(), Some(0));
    let reading = runtime.usage(&order.workload).await.unwrap().expect("it runs");
    // Services of a stack have no limit that nobody set.
    assert!([0, 32 << 20].contains(&reading.memory_limit_bytes), "{reading:?}");
    assert!(reading.pids >= 1);
    runtime.remove(&order.workload, true).await.unwrap();
}
