//! Counts what a process does to the outside, and has it die at a chosen point.
//!
//! The seams of scheduler and agent are wrapped: every write to the ledger or the store, every verb
//! of a runtime, every message that says something. Each effect is two points, one before it begins
//! and one after it is done and before anybody hears of it; dying at every point is dying between
//! every two effects. Questions and beats that say nothing are no effects.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use persys_agent::driver as agent;
use persys_agent::history::Action;
use persys_agent::ledger::{Keeper, NotWritten};
use persys_agent::upward::{Scheduler, Unreachable as NoScheduler};
use persys_cluster::input::Probe;
use persys_cluster::record::Unit;
use persys_cluster::store::HighWater;
use persys_model::command::Command;
use persys_model::id::WorkloadId;
use persys_model::link::{Beat, BeatAnswer, Registration, RegistrationAnswer};
use persys_model::spec::Spec;
use persys_model::spec::health::Check;
use persys_model::time::Millis;
use persys_model::token::{CommitSeq, Term};
use persys_node::input::{ImageHealth, Observation, ProbeOutcome, Seen};
use persys_node::ledger::{Ledger, LedgerChange};
use persys_runtime::runtime::{Health, Progress, Thing};
use persys_runtime::{Error, Refresh, Runtime, Start};
use persys_scheduler::driver as scheduler;
use persys_scheduler::links::{Links, OrderAnswer, Target, Unreachable as NoAgent};
use persys_store::{Campaign, Error as StoreError, History, Loaded, Pairs, Span, Store};
use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::watch;

use crate::part::Trip;

/// Counts the points of one process.
#[derive(Debug, Clone)]
pub struct Tripwire(Arc<Mutex<Count>>);

#[derive(Debug)]
struct Count {
    notes: File,
    so_far: u64,
    die_at: Option<u64>,
}

impl Tripwire {
    /// Notes from now on, and dies when it is time.
    pub fn set(trip: &Trip) -> std::io::Result<Self> {
        let notes = OpenOptions::new().create(true).append(true).open(&trip.notes)?;
        Ok(Self(Arc::new(Mutex::new(Count { notes, so_far: 0, die_at: trip.die_at }))))
    }

    /// One point. Nothing comes after it if it is the one to die at.
    fn pass(&self, what: &str) {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        count.so_far += 1;
        let line = format!("{} {what}\n", count.so_far);
        // Notes that cannot be written are missed by the test, which fails.
        count.notes.write_all(line.as_bytes()).ok();
        if count.die_at == Some(count.so_far) {
            kill_process(getpid(), Signal::KILL).ok();
            // The signal needs a moment; the lock keeps everybody else from going on meanwhile.
            loop {
                std::thread::park();
            }
        }
    }

    async fn around<T>(&self, what: &str, effect: impl Future<Output = T>) -> T {
        self.pass(&format!("before {what}"));
        let done = effect.await;
        self.pass(&format!("after {what}"));
        done
    }

    /// Counts all that an agent does.
    #[must_use]
    pub fn around_agent(self, parts: agent::Parts) -> agent::Parts {
        agent::Parts {
            clock: parts.clock,
            keeper: Arc::new(Wired { inner: parts.keeper, tripwire: self.clone() }),
            runtime: Arc::new(Wired { inner: parts.runtime, tripwire: self.clone() }),
            scheduler: Arc::new(Wired { inner: parts.scheduler, tripwire: self }),
        }
    }

    /// Counts all that a scheduler does.
    #[must_use]
    pub fn around_scheduler(self, parts: scheduler::Parts) -> scheduler::Parts {
        scheduler::Parts {
            replica: parts.replica,
            clock: parts.clock,
            store: Arc::new(Wired { inner: parts.store, tripwire: self.clone() }),
            links: Arc::new(Wired { inner: parts.links, tripwire: self.clone() }),
            memory: Arc::new(Wired { inner: parts.memory, tripwire: self }),
        }
    }
}

/// A seam with a tripwire around it.
struct Wired<T: ?Sized> {
    inner: Arc<T>,
    tripwire: Tripwire,
}

impl<T: ?Sized> std::fmt::Debug for Wired<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wired").finish_non_exhaustive()
    }
}

#[async_trait]
impl Keeper for Wired<dyn Keeper> {
    async fn load(&self) -> Ledger {
        self.inner.load().await
    }

    async fn write(&self, changes: Vec<LedgerChange>) -> Result<(), NotWritten> {
        self.tripwire.around("ledger write", self.inner.write(changes)).await
    }

    async fn lease(&self, until: Millis) -> Result<(), NotWritten> {
        self.inner.lease(until).await
    }

    async fn actions(&self) -> Vec<Action> {
        self.inner.actions().await
    }

    fn note(&self, action: Action) {
        self.inner.note(action);
    }

    async fn flush(&self) -> Result<(), NotWritten> {
        self.tripwire.around("history write", self.inner.flush()).await
    }
}

#[async_trait]
impl Runtime for Wired<dyn Runtime> {
    async fn prepare(&self, spec: &Spec, progress: &dyn Progress) -> Result<(), Error> {
        self.tripwire.around("prepare", self.inner.prepare(spec, progress)).await
    }

    async fn start(&self, start: &Start) -> Result<(), Error> {
        self.tripwire.around("start", self.inner.start(start)).await
    }

    async fn fresh_health(&self, start: &Start) -> Option<ImageHealth> {
        self.inner.fresh_health(start).await
    }

    async fn probe(&self, workload: &WorkloadId, check: &Check) -> ProbeOutcome {
        self.inner.probe(workload, check).await
    }

    async fn pause(&self, workload: &WorkloadId) -> Result<(), Error> {
        self.tripwire.around("pause", self.inner.pause(workload)).await
    }

    async fn signal(&self, refresh: &Refresh) -> Result<(), Error> {
        self.tripwire.around("signal", self.inner.signal(refresh)).await
    }

    async fn stop(&self, workload: &WorkloadId, within: Option<Duration>) -> Result<(), Error> {
        self.tripwire.around("stop", self.inner.stop(workload, within)).await
    }

    async fn remove(&self, workload: &WorkloadId, purge: bool) -> Result<(), Error> {
        self.tripwire.around("remove", self.inner.remove(workload, purge)).await
    }

    async fn inspect(&self, workload: &WorkloadId) -> Result<Option<Thing>, Error> {
        self.inner.inspect(workload).await
    }

    async fn list(&self) -> Result<Vec<Seen>, Error> {
        self.inner.list().await
    }

    async fn observe(&self, probe: bool) -> Observation {
        self.inner.observe(probe).await
    }

    async fn health(&self) -> Result<Health, Error> {
        self.inner.health().await
    }
}

#[async_trait]
impl Scheduler for Wired<dyn Scheduler> {
    async fn register(
        &self,
        registration: Registration,
    ) -> Result<RegistrationAnswer, NoScheduler> {
        self.tripwire.around("register", self.inner.register(registration)).await
    }

    async fn beat(&self, beat: Beat) -> Result<BeatAnswer, NoScheduler> {
        if beat.reports.is_empty() && beat.removed.is_empty() && beat.inventory.is_none() {
            return self.inner.beat(beat).await;
        }
        self.tripwire.around("report", self.inner.beat(beat)).await
    }
}

#[async_trait]
impl Store for Wired<dyn Store> {
    async fn campaign(&self, candidate: &Arc<str>, ttl_ms: u64) -> Result<Campaign, StoreError> {
        self.tripwire.around("campaign", self.inner.campaign(candidate, ttl_ms)).await
    }

    async fn renew(&self, term: Term) -> Result<Option<HighWater>, StoreError> {
        self.inner.renew(term).await
    }

    async fn resign(&self, term: Term) -> Result<(), StoreError> {
        self.inner.resign(term).await
    }

    async fn load(&self, term: Term, known: Option<&HighWater>) -> Result<Loaded, StoreError> {
        self.tripwire.around("load", self.inner.load(term, known)).await
    }

    async fn peek(&self) -> Result<Loaded, StoreError> {
        self.inner.peek().await
    }

    async fn commit(
        &self,
        term: Term,
        after: CommitSeq,
        units: Vec<Unit>,
    ) -> Result<(), StoreError> {
        self.tripwire.around("commit", self.inner.commit(term, after, units)).await
    }

    async fn events(&self, span: Span) -> Result<History, StoreError> {
        self.inner.events(span).await
    }

    async fn dump(&self) -> Result<Pairs, StoreError> {
        self.inner.dump().await
    }

    async fn fill(&self, pairs: Pairs) -> Result<(), StoreError> {
        self.inner.fill(pairs).await
    }

    fn watch(&self) -> watch::Receiver<CommitSeq> {
        self.inner.watch()
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

#[async_trait]
impl Links for Wired<dyn Links> {
    async fn order(&self, to: &Target, command: Command) -> Result<OrderAnswer, NoAgent> {
        self.tripwire.around("order", self.inner.order(to, command)).await
    }

    async fn actions(&self, of: &Target, workload: &WorkloadId) -> Result<String, NoAgent> {
        self.inner.actions(of, workload).await
    }

    async fn probe(&self, of: &Target) -> Probe {
        self.inner.probe(of).await
    }
}

impl scheduler::Memory for Wired<dyn scheduler::Memory> {
    fn remember(&self, mark: &HighWater) {
        self.tripwire.pass("before remember");
        self.inner.remember(mark);
    }
}
