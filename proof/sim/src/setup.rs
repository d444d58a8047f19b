//! What a seed decides before anything happens: sizes, timers, and which faults there are.

use std::collections::BTreeSet;
use std::sync::Arc;

use persys_cluster::settings::Settings;
use persys_model::id::NodeId;
use persys_model::labels::Labels;
use persys_model::node::{CONTRACT_HOST, CONTRACT_LIFE, NodeFacts, Pool};
use persys_model::resources::Compute;
use persys_model::spec::WorkloadType;
use persys_model::spec::volume::VolumeDriver;
use persys_model::zoo::Zoo;
use persys_node::settings::AgentSettings;

use crate::fault::{Fault, FaultSet};
use crate::rng::{Concern, Rng};

/// One run, completely determined.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    pub(crate) schedulers: usize,
    pub(crate) workloads: usize,
    /// How long there are faults.
    pub(crate) faults_ms: u64,
    /// Mean time between two faults, and between two acts of users.
    pub(crate) fault_gap_ms: u64,
    pub(crate) user_gap_ms: u64,
    /// The kinds of fault this seed has, and those a shrinking run leaves out.
    pub(crate) faults: FaultSet,
    pub(crate) muted: FaultSet,
    /// Only the first so many faults are let happen.
    pub(crate) fault_limit: u64,
    /// How long a caller waits for an answer, and a scheduler for the store.
    pub(crate) rpc_ms: u64,
    pub(crate) store_ms: u64,
    /// How much of the work the nodes can hold together, in percent.
    pub(crate) room_percent: u64,
    pub(crate) settings: Settings,
    pub(crate) agent: AgentSettings,
    pub(crate) zoo: Zoo,
    /// Nodes whose agents know only the contract.
    pub(crate) contract: BTreeSet<usize>,
}

impl Setup {
    /// Whether runtimes hint at changes. It rests on the seed alone, so that histories without hints are
    /// as they were before there were any.
    pub(crate) fn hints(&self) -> bool {
        self.seed % 5 == 2
    }

    /// True if an operator puts the namespace in shadow and takes it out again, for the same reason.
    pub(crate) fn has_shadow(&self) -> bool {
        self.seed % 11 == 6
    }

    /// True if a store that is set back takes what schedulers remember along, for the same reason.
    pub(crate) fn forgets(&self) -> bool {
        self.seed % 2 == 1
    }

    /// The run of this seed.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed, Concern::Setup);
        let nodes = usize::try_from(rng.between(1, 8)).unwrap_or(1);
        let schedulers = usize::try_from(rng.between(1, 3)).unwrap_or(1);
        let workloads = usize::try_from(rng.between(1, 40)).unwrap_or(1);
        let faults_ms = rng.between(120_000, 240_000);
        // Some runs have few kinds of fault, many of each; others nearly all kinds.
        let share = *rng.pick(&[120, 250, 500, 800]).unwrap_or(&500);
        let mut faults = FaultSet::default();
        for fault in Fault::ALL {
            if rng.chance(if fault.is_rare() { share / 2 } else { share }) {
                faults.add(*fault);
            }
        }
        // Every run has nodes that beat and cannot be called, and machines without their agent.
        faults.add(Fault::Undialled);
        faults.add(Fault::AgentDown);
        Self {
            seed,
            nodes,
            schedulers,
            workloads,
            faults_ms,
            fault_gap_ms: rng.between(1_000, 8_000),
            user_gap_ms: rng.between(300, 3_000),
            faults,
            muted: FaultSet::default(),
            fault_limit: u64::MAX,
            rpc_ms: *rng.pick(&[700, 1_500, 3_000]).unwrap_or(&1_500),
            store_ms: *rng.pick(&[500, 1_000]).unwrap_or(&500),
            room_percent: *rng.pick(&[60, 110, 200, 400]).unwrap_or(&200),
            settings: settings(&mut rng),
            agent: agent_settings(&mut rng),
            zoo: Zoo::NONE,
            contract: contract_nodes(seed, nodes),
        }
    }

    /// The same run with known bugs.
    pub(crate) fn with_zoo(mut self, zoo: Zoo) -> Self {
        self.zoo = zoo;
        self.settings.zoo = zoo;
        self.agent.zoo = zoo;
        self
    }

    /// What the machine of this number says of itself.
    pub(crate) fn facts(&self, number: usize) -> NodeFacts {
        let mut rng = Rng::new(self.seed.wrapping_add(1 + count(number)), Concern::Setup);
        // A workload takes 550 millicores and 352 MiB on average.
        let share = count(self.workloads) * self.room_percent / 100 / count(self.nodes).max(1) + 1;
        let spread = rng.between(70, 130);
        let zone = if rng.chance(600) { "a" } else { "b" };
        let mut labels = Labels::new();
        labels.insert(Arc::from("zone"), Arc::from(zone));
        let total_gib = share * 2 * spread / 100 + 4;
        let pool = Pool::alone(persys_model::id::PoolName::fixed("local"), total_gib);
        let ours = NodeFacts {
            id: node_id(number),
            host: Arc::from(format!("machine-{number}")),
            incarnation: Arc::from(""),
            endpoint: Arc::from(format!("10.0.0.{number}:50051")),
            capacity: Compute::new(share * 550 * spread / 100, share * 352 * spread / 100),
            pools: if rng.chance(850) { vec![pool] } else { Vec::new() },
            types: WorkloadType::ALL.into_iter().collect(),
            drivers: [VolumeDriver::Local, VolumeDriver::CephRbd].map(VolumeDriver::name).into(),
            labels,
            fence: true,
            pauses: true,
            checks_health: true,
            signals: true,
            addresses: true,
            missing: std::collections::BTreeMap::new(),
        };
        if !self.contract.contains(&number) {
            return ours;
        }
        NodeFacts {
            host: Arc::from(format!("{CONTRACT_HOST}{}", ours.endpoint)),
            incarnation: Arc::from(CONTRACT_LIFE),
            fence: false,
            pauses: false,
            checks_health: false,
            signals: false,
            addresses: false,
            ..ours
        }
    }
}

/// The nodes whose agents know only the contract: one wherever there are others beside it, sometimes
/// more. Chance of its own, so that everything else of a seed is as it was.
fn contract_nodes(seed: u64, nodes: usize) -> BTreeSet<usize> {
    let mut rng = Rng::new(seed ^ 0x00c0_47ac, Concern::Setup);
    let mut chosen = BTreeSet::new();
    if nodes < 2 {
        return chosen;
    }
    chosen.insert(rng.index(nodes));
    for node in 0..nodes {
        if chosen.len() + 1 < nodes && rng.chance(150) {
            chosen.insert(node);
        }
    }
    chosen
}

/// The name of the machine of this number.
pub(crate) fn node_id(number: usize) -> NodeId {
    NodeId::new(&format!("n{number}")).unwrap_or_else(|_| NodeId::fixed("n"))
}

/// A number of things as a plain number.
pub(crate) fn count(things: usize) -> u64 {
    u64::try_from(things).unwrap_or(u64::MAX)
}

/// Timers short enough that much happens in a few minutes; their order is that of production.
fn settings(rng: &mut Rng) -> Settings {
    Settings {
        beat_ms: 500,
        // Some fleets are large enough to beat less often.
        beats_per_second: *rng.pick(&[400, 400, 2]).unwrap_or(&400),
        lease_ms: 2_000,
        failover_grace_ms: rng.between(1_500, 3_000),
        agent_down_failover_ms: 8_000,
        probe_interval_ms: 500,
        fence_ms: 4_000,
        exclusive_failover_ms: 12_000,
        missing_grace_ms: rng.between(1_000, 4_000),
        resend_ms: rng.between(1_000, 3_000),
        redeliver_ms: 200,
        apply_timeout_ms: 7_000,
        vm_apply_timeout_ms: 9_000,
        delete_timeout_ms: 7_000,
        status_poll_ms: 300,
        retry_attempts: u32::try_from(rng.between(2, 5)).unwrap_or(3),
        retry_base_ms: 500,
        retry_cap_ms: 4_000,
        retry_refill_ms: rng.between(5_000, 12_000),
        drift_interval_ms: rng.between(3_000, 8_000),
        brake_percent: *rng.pick(&[30, 30, 50]).unwrap_or(&30),
        leader_ttl_ms: 3_000,
        renew_ms: 700,
        campaign_ms: 1_000,
        look_ms: 5_000,
        pending_limit: *rng.pick(&[3, 1_000]).unwrap_or(&1_000),
        brake_window_ms: rng.between(5_000, 15_000),
        shadow: false,
        mark_key: Arc::from("key of this cluster"),
        listen_ms: 2_000,
        zoo: Zoo::NONE,
    }
}

fn agent_settings(rng: &mut Rng) -> AgentSettings {
    AgentSettings {
        observe_wait_ms: 1_000,
        observe_ms: rng.between(2_000, 6_000),
        observe_retry_ms: 500,
        answer_wait_ms: 4_000,
        register_base_ms: 200,
        register_cap_ms: 2_000,
        beat_ms: 500,
        min_beat_gap_ms: 50,
        fence_ms: 4_000,
        start_margin_ms: 500,
        restart_base_ms: 300,
        restart_cap_ms: 3_000,
        restart_reset_ms: 5_000,
        start_attempts: u32::try_from(rng.between(1, 2)).unwrap_or(1),
        ledger_retry_ms: 500,
        tombstone_ms: 600_000,
        tombstone_limit: 1_000,
        ..AgentSettings::default()
    }
}
