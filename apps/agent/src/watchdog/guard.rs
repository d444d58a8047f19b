//! The watchdog's loop: read the lease, look at the runtime, stop what must be stopped, beat.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use persys_model::id::WorkloadId;
use persys_model::time::{Millis, Now, WallMillis};
use persys_model::zoo::Zoo;
use persys_node::fence::{Watchdog, WatchdogInput};
use persys_runtime::{Clock, Error, Exclusive, Runtime};

use crate::ledger::exclusive;
use crate::ledger::lease::{self, Lease};

use super::pulse::Pulse;

/// How often the lease is read and the pulse beats.
const TICK: Duration = Duration::from_millis(500);
/// How often the runtime is looked at while the lease lasts: only to prove that it can be.
const PROVE_MS: u64 = 5_000;
/// How long work may take to end by itself once its time is over. The scheduler starts another copy
/// much later than this.
const GRACE: Duration = Duration::from_secs(5);

/// What a watchdog guards with.
#[async_trait]
pub(super) trait Guarded: Send + Sync {
    /// The exclusive work that is seen to run, and what keeps it from seeing all.
    async fn running(&self) -> (Vec<WorkloadId>, Option<Error>);
    /// Ends one.
    async fn end(&self, workload: &WorkloadId, grace: Duration) -> Result<(), Error>;
}

#[async_trait]
impl<T: Runtime + Exclusive> Guarded for T {
    async fn running(&self) -> (Vec<WorkloadId>, Option<Error>) {
        match self.exclusive().await {
            Ok(running) => (running, None),
            Err(error) => (Vec::new(), Some(error)),
        }
    }

    async fn end(&self, workload: &WorkloadId, grace: Duration) -> Result<(), Error> {
        self.stop(workload, Some(grace)).await
    }
}

/// Several of them. What does not run in one of them needs no end there.
pub(super) struct Several(pub(super) Vec<Arc<dyn Guarded>>);

#[async_trait]
impl Guarded for Several {
    async fn running(&self) -> (Vec<WorkloadId>, Option<Error>) {
        let (mut all, mut blind) = (Vec::new(), None);
        for (running, error) in join_all(self.0.iter().map(|one| one.running())).await {
            all.extend(running);
            blind = blind.or(error);
        }
        (all, blind)
    }

    async fn end(&self, workload: &WorkloadId, grace: Duration) -> Result<(), Error> {
        let ends = self.0.iter().map(|one| one.end(workload, grace));
        join_all(ends).await.into_iter().collect()
    }
}

/// What has become of the agent a watchdog guards for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Agent {
    /// It is there.
    Lives,
    /// It is gone; nobody knows what it asked for last.
    Gone,
    /// It ended in good order, and nothing exclusive will begin any more.
    Released,
}

/// One watchdog.
pub(super) struct Guard<O> {
    dir: PathBuf,
    clock: Clock,
    runtime: Arc<dyn Guarded>,
    agent: O,
    dog: Watchdog,
    /// The last moment that is known to have been granted.
    granted: Option<Millis>,
    pulse: Pulse,
    /// Whether every runtime answered last time.
    sees: bool,
    /// What ran when it was last looked at.
    ran: Vec<WorkloadId>,
}

impl<O: Fn() -> Agent> Guard<O> {
    pub(super) fn new(
        dir: PathBuf,
        boot: String,
        clock: Clock,
        runtime: Arc<dyn Guarded>,
        agent: O,
    ) -> Self {
        let (born_ms, pid) = (clock.now().0, std::process::id());
        let pulse = Pulse { boot, born_ms, pid, alive_ms: born_ms, saw_ms: None };
        let dog = Watchdog::new(Zoo::NONE);
        let (granted, sees, ran) = (None, true, Vec::new());
        Self { dir, clock, runtime, agent, dog, granted, pulse, sees, ran }
    }

    /// Guards until it is no longer needed.
    pub(super) async fn run(mut self) {
        while self.turn().await {
            let now = self.clock.now();
            let left = self.dog.wake_at().filter(|at| *at > now).map(|at| at.since(now));
            let sleep = left.map_or(TICK, |left| TICK.min(Duration::from_millis(left)));
            tokio::time::sleep(sleep).await;
        }
    }

    /// One turn; says whether there will be another.
    async fn turn(&mut self) -> bool {
        self.read_lease();
        let over = self.granted.is_none_or(|until| self.now().mono >= until);
        let stale =
            self.pulse.saw_ms.is_none_or(|saw| self.now().mono.since(Millis(saw)) >= PROVE_MS);
        let agent = (self.agent)();
        let mut at_rest = false;
        if over || stale || agent == Agent::Released {
            at_rest = match self.look().await {
                Some(count) => count == 0,
                // A runtime that may never answer hides nothing that nobody ordered.
                None => self.ran.is_empty() && !exclusive::is_marked(&self.dir),
            };
        }
        // It may be over by now.
        let now = self.now();
        let named = self.dog.step(WatchdogInput::Tick, now);
        let over = self.granted.is_none_or(|until| now.mono >= until);
        self.stop(named).await;
        let may_end = match agent {
            Agent::Lives => false,
            Agent::Gone => over,
            Agent::Released => true,
        };
        self.beat() && !(may_end && at_rest)
    }

    fn now(&self) -> Now {
        // Nothing here depends on the date.
        Now { mono: self.clock.now(), wall: WallMillis(0) }
    }

    fn read_lease(&mut self) {
        match lease::read(&self.dir, &self.pulse.boot) {
            Lease::Until(until) => self.granted = Some(until),
            Lease::Void => self.granted = None,
            Lease::Unreadable => tracing::warn!(last = ?self.granted, "the lease cannot be read"),
        }
        let now = self.now();
        // What it names is acted on at the end of the turn, after a look at what runs.
        drop(self.dog.step(WatchdogInput::Lease { fence_at: self.granted }, now));
    }

    /// Looks at what runs; says how much that is, if all of it can be seen. What ran last where it
    /// cannot still counts as running, and what is seen elsewhere is stopped no less for it.
    async fn look(&mut self) -> Option<usize> {
        let (mut running, blind) = self.runtime.running().await;
        let now = self.now();
        if let Some(error) = &blind {
            // Once is enough: it is tried twice a second.
            if std::mem::replace(&mut self.sees, false) {
                tracing::warn!(%error, "not all that runs can be seen");
            }
            running.extend(std::mem::take(&mut self.ran));
            running.sort();
            running.dedup();
        } else {
            self.pulse.saw_ms = Some(now.mono.0);
            self.sees = true;
        }
        self.ran.clone_from(&running);
        let count = running.len();
        drop(self.dog.step(WatchdogInput::Seen(running), now));
        blind.is_none().then_some(count)
    }

    async fn stop(&self, named: Vec<WorkloadId>) {
        let stops = named.into_iter().map(|workload| async move {
            match self.runtime.end(&workload, GRACE).await {
                Ok(()) => tracing::warn!(%workload, "its lease is over: stopped"),
                Err(error) => tracing::error!(%workload, %error, "cannot be stopped; tried again"),
            }
        });
        join_all(stops).await;
    }

    /// Proves that it is alive; says whether it is still the one in charge.
    fn beat(&mut self) -> bool {
        let now = self.clock.now();
        let newer =
            Pulse::read(&self.dir).filter(|other| self.pulse.yields_to(other)).filter(|other| {
                let blind = self.pulse.saw_ms.is_none() && other.is_alive(&self.pulse.boot, now);
                blind || other.is_able(&self.pulse.boot, now)
            });
        if let Some(newer) = newer {
            tracing::info!(pid = newer.pid, "another watchdog has taken over");
            return false;
        }
        self.pulse.alive_ms = now.0;
        if let Err(error) = self.pulse.write(&self.dir) {
            tracing::debug!(%error, "no pulse");
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    use persys_model::id::RevisionId;
    use persys_model::resources::Resources;
    use persys_model::spec::{Class, ContainerSpec, Kind, Placement, Spec};
    use persys_model::token::Epoch;
    use persys_node::input::Existing;
    use persys_runtime::Start;
    use persys_runtime::sim::{Settings, Sim};

    use super::*;

    const BOOT: &str = "b1";

    /// A watchdog over a runtime in memory, and the clock of both.
    struct Rig {
        dir: tempfile::TempDir,
        time: Arc<AtomicU64>,
        sim: Sim,
    }

    impl Rig {
        async fn new() -> Self {
            let time = Arc::new(AtomicU64::new(1_000));
            let sim = Sim::new(Settings::default(), clock(&time));
            for (name, class) in [("db", Class::Exclusive), ("web", Class::Default)] {
                let container =
                    ContainerSpec { image: Arc::from("web:1"), ..ContainerSpec::default() };
                let spec = Spec {
                    kind: Kind::Container(container),
                    resources: Resources::default(),
                    placement: Placement { class, ..Placement::default() },
                    metadata: BTreeMap::new(),
                    secrets: Vec::new(),
                    stop_grace_ms: None,
                    health: persys_model::spec::health::HealthChecks::default(),
                };
                let start = Start {
                    workload: WorkloadId::new(name).unwrap(),
                    revision: RevisionId::fixed("r1"),
                    epoch: Epoch(1),
                    spec: Arc::new(spec),
                    volumes: BTreeMap::new(),
                    secrets: Arc::default(),
                    secrets_at: None,
                    not_after: None,
                    resume: false,
                };
                sim.start(&start).await.unwrap();
            }
            let dir = tempfile::tempdir().unwrap();
            exclusive::mark(dir.path()).unwrap();
            Self { dir, time, sim }
        }

        fn guard(&self, agent: Agent) -> Guard<impl Fn() -> Agent> {
            let (dir, runtime) = (self.dir.path().to_path_buf(), Arc::new(self.sim.clone()));
            Guard::new(dir, BOOT.to_owned(), clock(&self.time), runtime, move || agent)
        }

        fn at(&self, ms: u64) {
            self.time.store(ms, Ordering::Relaxed);
        }

        /// Whether the exclusive one runs; the other one always does.
        async fn runs(&self) -> bool {
            let list = self.sim.list().await.unwrap();
            let runs = |name: &str| {
                let seen = list.iter().find(|seen| seen.workload.as_str() == name).unwrap();
                seen.state == Existing::Running
            };
            assert!(runs("web"), "what is not exclusive is never stopped");
            runs("db")
        }
    }

    fn clock(time: &Arc<AtomicU64>) -> Clock {
        let time = Arc::clone(time);
        Clock::new(move || Millis(time.load(Ordering::Relaxed)))
    }

    fn lease(dir: &Path, boot: &str, until: u64) {
        let text = format!(r#"{{"v":1,"boot":"{boot}","fence_at_ms":{until}}}"#);
        std::fs::write(dir.join("lease"), text).unwrap();
    }

    #[tokio::test]
    async fn exclusive_work_ends_at_its_deadline_and_not_before() {
        let rig = Rig::new().await;
        lease(rig.dir.path(), BOOT, 2_000);
        let mut guard = rig.guard(Agent::Lives);
        assert!(guard.turn().await && rig.runs().await);
        rig.at(1_999);
        lease(rig.dir.path(), BOOT, 3_000);
        rig.at(2_500);
        assert!(guard.turn().await && rig.runs().await, "renewed in time");
        rig.at(3_000);
        assert!(guard.turn().await);
        assert!(!rig.runs().await);
        assert!(guard.turn().await, "its agent lives");
    }

    #[tokio::test]
    async fn a_lease_of_an_earlier_boot_is_none() {
        let rig = Rig::new().await;
        lease(rig.dir.path(), "b0", 9_000);
        rig.guard(Agent::Lives).turn().await;
        assert!(!rig.runs().await);
    }

    #[tokio::test]
    async fn garbage_grants_nothing_and_takes_nothing_back() {
        let rig = Rig::new().await;
        lease(rig.dir.path(), BOOT, 2_000);
        let mut guard = rig.guard(Agent::Lives);
        guard.turn().await;
        std::fs::write(rig.dir.path().join("lease"), "garbage").unwrap();
        rig.at(1_500);
        guard.turn().await;
        assert!(rig.runs().await, "it was granted until 2000");
        rig.at(2_000);
        guard.turn().await;
        assert!(!rig.runs().await);

        let rig = Rig::new().await;
        std::fs::write(rig.dir.path().join("lease"), "garbage").unwrap();
        rig.guard(Agent::Lives).turn().await;
        assert!(!rig.runs().await, "nothing was ever granted");
    }

    #[tokio::test]
    async fn an_orphan_that_was_never_needed_does_not_wait_for_a_runtime_that_is_not_there() {
        let rig = Rig::new().await;
        exclusive::unmark(rig.dir.path()).unwrap();
        lease(rig.dir.path(), BOOT, 2_000);
        rig.sim.set_silent(true);
        assert!(rig.guard(Agent::Lives).turn().await, "its agent may order something yet");
        let mut orphan = rig.guard(Agent::Gone);
        assert!(orphan.turn().await, "what the agent asked for last may still begin");
        rig.at(2_000);
        assert!(!orphan.turn().await);
        assert!(!rig.guard(Agent::Released).turn().await);
    }

    #[tokio::test]
    async fn a_runtime_that_does_not_answer_is_asked_until_it_does() {
        let rig = Rig::new().await;
        lease(rig.dir.path(), BOOT, 2_000);
        let mut guard = rig.guard(Agent::Gone);
        rig.sim.set_silent(true);
        assert!(guard.turn().await);
        let pulse = Pulse::read(rig.dir.path()).unwrap();
        assert!(!pulse.is_able(BOOT, Millis(1_000)), "it could stop nothing");
        rig.at(2_000);
        assert!(guard.turn().await, "an orphan that cannot see goes on");
        rig.sim.set_silent(false);
        assert!(rig.runs().await);
        assert!(guard.turn().await, "it saw something to stop");
        assert!(!rig.runs().await);
        assert!(Pulse::read(rig.dir.path()).unwrap().is_able(BOOT, Millis(2_000)));
        assert!(!guard.turn().await, "nothing is left to guard");
    }

    #[tokio::test]
    async fn what_one_runtime_hides_keeps_nothing_of_another_running() {
        let rig = Rig::new().await;
        lease(rig.dir.path(), BOOT, 2_000);
        let away = Sim::new(Settings::default(), clock(&rig.time));
        away.set_silent(true);
        let both: Vec<Arc<dyn Guarded>> = vec![Arc::new(rig.sim.clone()), Arc::new(away.clone())];
        let (dir, clock) = (rig.dir.path().to_path_buf(), clock(&rig.time));
        let mut guard =
            Guard::new(dir, BOOT.to_owned(), clock, Arc::new(Several(both)), || Agent::Gone);
        assert!(guard.turn().await && rig.runs().await);
        let pulse = Pulse::read(rig.dir.path()).unwrap();
        assert!(!pulse.is_able(BOOT, Millis(1_000)), "it could not stop everything");
        rig.at(2_000);
        assert!(guard.turn().await, "something may be hidden still");
        assert!(!rig.runs().await, "what it sees it stops");
        away.set_silent(false);
        while guard.turn().await {}
        assert!(Pulse::read(rig.dir.path()).unwrap().is_able(BOOT, Millis(2_000)));
    }

    #[tokio::test]
    async fn an_agent_that_ended_in_good_order_is_outlived_only_by_a_duty() {
        let rig = Rig::new().await;
        lease(rig.dir.path(), BOOT, 9_000);
        // Something exclusive runs, whatever the agent said: it is guarded like any other.
        let mut guard = rig.guard(Agent::Released);
        assert!(guard.turn().await && rig.runs().await);
        rig.at(9_000);
        assert!(guard.turn().await, "it saw something to stop");
        assert!(!rig.runs().await);
        assert!(!guard.turn().await);

        // With nothing to guard it is gone at once, long before the lease is over.
        rig.at(1_000);
        assert!(!rig.guard(Agent::Released).turn().await);
        assert!(rig.guard(Agent::Lives).turn().await);
        // Of an agent that was killed a start may still be on its way.
        let mut guard = rig.guard(Agent::Gone);
        assert!(guard.turn().await);
        rig.at(9_000);
        assert!(!guard.turn().await);
        // What cannot be seen may run.
        rig.at(1_000);
        rig.sim.set_silent(true);
        assert!(rig.guard(Agent::Released).turn().await);
    }

    #[tokio::test]
    async fn the_later_watchdog_takes_over_once_it_can() {
        let rig = Rig::new().await;
        lease(rig.dir.path(), BOOT, 9_000);
        let mut old = rig.guard(Agent::Lives);
        assert!(old.turn().await);
        rig.at(1_100);
        let mut new = rig.guard(Agent::Lives);
        assert!(old.turn().await);
        assert!(new.turn().await);
        assert!(!old.turn().await);
        assert!(new.turn().await);
    }
}
