//! One cluster: a scheduler on a store, agents on runtimes in memory.

#![expect(clippy::expect_used, reason = "a test stops at what cannot be")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use persys_agent::driver::{Driver as AgentDriver, Parts as AgentParts};
use persys_agent::ledger::{Keeper, Memory as LedgerMemory};
use persys_cluster::effects::Reply;
use persys_cluster::input::Ask;
use persys_cluster::replica::Replica;
use persys_cluster::settings::Settings;
use persys_cluster::store::HighWater;
use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::node::NodeFacts;
use persys_model::phase::Phase;
use persys_model::resources::{Compute, Disk, Resources};
use persys_model::spec::{ContainerSpec, Kind, Placement, Spec, WorkloadType};
use persys_model::time::{Millis, Now, WallMillis};
use persys_model::workload::Desired;
use persys_node::agent::Agent;
use persys_node::settings::AgentSettings;
use persys_runtime::sim::{Settings as SimSettings, Sim};
use persys_runtime::{Clock as RuntimeClock, Runtime};
use persys_scheduler::clock::{Clock, HostClock};
use persys_scheduler::driver::{Driver, Memory, Parts};
use persys_store::Store;
use tokio::task::JoinHandle;

use crate::wire::{Upward, Wire};

/// How long a test waits for something to become true.
const PATIENCE: Duration = Duration::from_secs(20);

/// A cluster of real parts.
#[derive(Debug)]
pub struct Cluster {
    /// The wire, to be cut.
    pub wire: Wire,
    /// Runtimes by node; they outlive their agents.
    pub runtimes: BTreeMap<NodeId, Sim>,
    ledgers: BTreeMap<NodeId, Arc<LedgerMemory>>,
    agents: BTreeMap<NodeId, JoinHandle<()>>,
    scheduler: Option<(persys_scheduler::Handle, JoinHandle<()>)>,
    lives: u64,
}

/// Nothing is remembered beyond the store.
#[derive(Debug)]
struct Forgetful;

impl Memory for Forgetful {
    fn remember(&self, _mark: &HighWater) {}
}

/// Timers short enough for a test, in the proportions of the real ones.
#[must_use]
pub fn quick() -> Settings {
    Settings {
        beat_ms: 100,
        lease_ms: 600,
        failover_grace_ms: 400,
        probe_interval_ms: 100,
        fence_ms: 1_000,
        exclusive_failover_ms: 3_000,
        resend_ms: 500,
        retry_base_ms: 200,
        retry_cap_ms: 1_000,
        drift_interval_ms: 1_000,
        leader_ttl_ms: 2_000,
        renew_ms: 300,
        campaign_ms: 300,
        ..Settings::default()
    }
}

impl Cluster {
    /// A scheduler on `store`, and no nodes yet.
    pub fn start(store: Arc<dyn Store>) -> Self {
        let mut cluster = Self {
            wire: Wire::default(),
            runtimes: BTreeMap::new(),
            ledgers: BTreeMap::new(),
            agents: BTreeMap::new(),
            scheduler: None,
            lives: 0,
        };
        cluster.start_scheduler(store);
        cluster
    }

    /// A new life of the scheduler.
    pub fn start_scheduler(&mut self, store: Arc<dyn Store>) {
        self.lives += 1;
        let clock: Arc<dyn Clock> = Arc::new(HostClock::start());
        let candidate = Arc::from(format!("test#{}", self.lives));
        let replica = Replica::start(candidate, Arc::from("e2e"), None, quick(), clock.now());
        let links = Arc::new(self.wire.clone());
        let (driver, handle) =
            Driver::new(Parts { replica, clock, store, links, memory: Arc::new(Forgetful) });
        self.wire.set_scheduler(Some(handle.clone()));
        self.scheduler = Some((handle, tokio::spawn(driver.run())));
    }

    /// The scheduler dies without a word.
    pub fn kill_scheduler(&mut self) {
        self.wire.set_scheduler(None);
        if let Some((_, task)) = self.scheduler.take() {
            task.abort();
        }
    }

    /// The way to the scheduler.
    pub fn scheduler(&self) -> persys_scheduler::Handle {
        self.scheduler.as_ref().map(|(handle, _)| handle.clone()).expect("a scheduler runs")
    }

    /// A node, or a new life of its agent.
    pub async fn start_agent(&mut self, node: &NodeId, capacity: Compute) {
        self.lives += 1;
        let start = Instant::now();
        let clock = move || {
            let mono = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
            Now { mono: Millis(mono + 1_000), wall: WallMillis(mono) }
        };
        let runtime = self
            .runtimes
            .entry(node.clone())
            .or_insert_with(|| Sim::new(SimSettings::default(), RuntimeClock::new(|| Millis(0))));
        let keeper = Arc::clone(self.ledgers.entry(node.clone()).or_default());
        let facts = facts(node, capacity, self.lives);
        let settings = AgentSettings {
            beat_ms: 100,
            register_base_ms: 50,
            register_cap_ms: 200,
            observe_ms: 500,
            standstill_ms: 500,
            ..AgentSettings::default()
        };
        let (agent, effects) = Agent::start(facts, keeper.load().await, settings, clock());
        let (driver, handle) = AgentDriver::new(
            AgentParts {
                clock: Arc::new(clock),
                keeper,
                runtime: Arc::new(runtime.clone()),
                scheduler: Arc::new(Upward { node: node.clone(), wire: self.wire.clone() }),
            },
            agent,
        );
        self.wire.set_agent(node, Some(handle));
        self.agents.insert(node.clone(), tokio::spawn(driver.run(effects)));
    }

    /// An agent dies without a word; what it started goes on.
    pub fn kill_agent(&mut self, node: &NodeId) {
        self.wire.set_agent(node, None);
        if let Some(task) = self.agents.remove(node) {
            task.abort();
        }
    }

    /// Asks until the scheduler leads and answers.
    pub async fn ask(&self, ask: Ask) -> Reply {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.scheduler().ask(ask.clone()).await {
                Ok(reply) => return reply,
                Err(error) => assert!(Instant::now() < deadline, "no answer: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Submits a container.
    pub async fn submit(&self, name: &str, image: &str, compute: Compute) -> Reply {
        let ask = Ask::Apply {
            workload: workload(name),
            spec: Some(Arc::new(container(image, compute))),
            revision: RevisionId::new("r1").ok(),
            desired: Desired::Running,
        };
        self.ask(ask).await
    }

    /// Waits until every one of these workloads is in this phase.
    pub async fn wait_phase(&self, names: &[String], phase: Phase) {
        let wanted: Vec<_> = names.iter().map(|name| workload(name)).collect();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let wanted = wanted.clone();
            let scheduler = self.scheduler();
            let missing = scheduler.read(move |world| {
                let is_there = |id: &&WorkloadId| {
                    world.workload(id).is_some_and(|view| view.assignment.phase == phase)
                };
                wanted
                    .iter()
                    .filter(|id| !is_there(id))
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
            });
            match missing.await {
                Ok(missing) if missing.is_empty() => return,
                Ok(missing) => {
                    assert!(Instant::now() < deadline, "not {phase:?} in time: {missing:?}");
                }
                Err(error) => assert!(Instant::now() < deadline, "no answer: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What really runs, by node.
    pub async fn running(&self) -> BTreeMap<NodeId, BTreeSet<WorkloadId>> {
        let mut running = BTreeMap::new();
        for (node, runtime) in &self.runtimes {
            let list = runtime.list().await.unwrap_or_default();
            let there = list
                .into_iter()
                .filter(|seen| seen.state == persys_node::input::Existing::Running)
                .map(|seen| seen.workload)
                .collect();
            running.insert(node.clone(), there);
        }
        running
    }
}

/// A node's name.
#[must_use]
pub fn node(n: usize) -> NodeId {
    NodeId::new(&format!("n{n}")).expect("a name")
}

/// A workload's name.
#[must_use]
pub fn workload(name: &str) -> WorkloadId {
    WorkloadId::new(name).expect("a name")
}

fn container(image: &str, compute: Compute) -> Spec {
    Spec {
        kind: Kind::Container(ContainerSpec {
            image: Arc::from(image),
            ..ContainerSpec::default()
        }),
        resources: Resources { compute, disk: Disk::none() },
        placement: Placement::default(),
        metadata: BTreeMap::new(),
        secrets: Vec::new(),
        stop_grace_ms: None,
        health: persys_model::spec::health::HealthChecks::default(),
    }
}

fn facts(node: &NodeId, capacity: Compute, life: u64) -> NodeFacts {
    NodeFacts {
        id: node.clone(),
        host: Arc::from(format!("host-{node}")),
        incarnation: Arc::from(format!("life-{life}")),
        endpoint: Arc::from("in-process"),
        capacity,
        pools: Vec::new(),
        types: WorkloadType::ALL.into_iter().collect(),
        drivers: BTreeSet::new(),
        labels: BTreeMap::new(),
        fence: true,
        pauses: true,
        checks_health: true,
        signals: true,
        addresses: true,
        missing: BTreeMap::new(),
    }
}
