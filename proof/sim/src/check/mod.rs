//! The independent judge: reads what the store, the runtimes and the users saw, and says when
//! something happened that must never happen.
//!
//! - `history`: every unit the store took (I5 to I9, I17, I18, I20)
//! - `room`: what fits where, counted anew from the records
//! - `guard`: schedulers that must keep still (I12, I13) and write before they speak
//! - `agents`: what agents obey and do to their runtimes (I3, I4, I10, I14, I19)
//! - `wishes`: what users were promised (I1)
//! - `volumes`: data and its records (V1 to V4)
//! - `derived`: leases and outcomes follow what they are about (I21)
//! - `shadow`: what is in shadow is not seen from outside (I22)
//! - `revisions`: every revision that is named can be had again, and no more than ten are kept (I23)
//! - `converge`: whether everything is as it should be (I2, I3, I11, I15)

mod agents;
mod converge;
mod derived;
mod guard;
mod history;
mod policy;
mod revisions;
pub(crate) mod room;
pub(crate) mod shadow;
mod volumes;
mod wishes;

use std::collections::{BTreeMap, BTreeSet};

use persys_cluster::settings::Settings;
use persys_model::id::{NodeId, WorkloadId};
use persys_model::token::Epoch;

use crate::setup::Setup;

use agents::Watched;
use guard::Guard;
use wishes::Wishes;

/// Something that must never happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The virtual millisecond it was noticed.
    pub at: u64,
    /// The invariant.
    pub invariant: &'static str,
    /// What happened.
    pub text: String,
}

/// The judge.
#[derive(Debug)]
pub(crate) struct Check {
    violation: Option<Violation>,
    settings: Settings,
    pub(crate) wishes: Wishes,
    guards: Vec<Guard>,
    watched: Vec<Watched>,
    /// Who runs each workload at this instant.
    running: BTreeMap<WorkloadId, BTreeSet<usize>>,
    /// Every decision ever written: what it was about and where.
    decided: BTreeMap<Epoch, (WorkloadId, NodeId)>,
    /// Decisions whose orders left for a node.
    sent: BTreeMap<(NodeId, WorkloadId), BTreeSet<Epoch>>,
    /// What was recorded as an orphan when each decision put something on a node.
    orphans_at: BTreeMap<Epoch, BTreeSet<(NodeId, WorkloadId)>>,
    /// Whether the records changed since reservations were last added up.
    stale_sums: bool,
    /// Nodes on which something nobody knew of was ordered away since the sums were made.
    orphans_buried: BTreeSet<NodeId>,
    sums: BTreeMap<NodeId, room::Taken>,
    /// Nodes declared lost by the last call, and by whom; judged by the one who knows the network.
    lost_now: Vec<(usize, NodeId)>,
    store_lost_at: Option<u64>,
    /// When the control plane was last rebuilt.
    recovered_at: Option<u64>,
    brake_released_at: Option<u64>,
    counts: Counts,
    programs: policy::Programs,
    /// Nodes whose agents know only the contract, and orphans on them that somebody wants gone.
    contract: BTreeSet<NodeId>,
    condemned: BTreeSet<(NodeId, WorkloadId)>,
}

/// How often anything was done at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) units: u64,
    pub(crate) commands: u64,
    pub(crate) verbs: u64,
}

impl Check {
    /// A node left. It comes back in a new life and refuses what was sent before.
    fn node_left(&mut self, gone: &NodeId) {
        self.stale_sums = true;
        self.sent.retain(|(node, _), _| node != gone);
    }

    pub(crate) fn new(setup: &Setup) -> Self {
        Self {
            violation: None,
            settings: setup.settings.clone(),
            wishes: Wishes::default(),
            guards: (0..setup.schedulers).map(|_| Guard::default()).collect(),
            watched: (0..setup.nodes).map(|_| Watched::default()).collect(),
            running: BTreeMap::new(),
            decided: BTreeMap::new(),
            sent: BTreeMap::new(),
            orphans_at: BTreeMap::new(),
            stale_sums: false,
            orphans_buried: BTreeSet::new(),
            sums: BTreeMap::new(),
            lost_now: Vec::new(),
            store_lost_at: None,
            recovered_at: None,
            brake_released_at: None,
            counts: Counts::default(),
            programs: policy::Programs::default(),
            contract: setup.contract.iter().map(|number| crate::setup::node_id(*number)).collect(),
            condemned: BTreeSet::new(),
        }
    }

    /// Notes that something forbidden happened; the first is the one that is told.
    pub(crate) fn violate(
        &mut self,
        at: u64,
        invariant: &'static str,
        text: impl FnOnce() -> String,
    ) {
        if self.violation.is_none() {
            self.violation = Some(Violation { at, invariant, text: text() });
        }
    }

    pub(crate) fn violated(&self) -> bool {
        self.violation.is_some()
    }

    pub(crate) fn take_violation(&mut self) -> Option<Violation> {
        self.violation.take()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// The store forgot something: promises made before it count no more.
    pub(crate) fn store_lost(&mut self, now: u64) {
        self.store_lost_at = Some(now);
        self.wishes.store_lost(now);
    }

    /// Whether the store lost something and nothing was rebuilt since.
    pub(crate) fn is_loss_open(&self) -> bool {
        self.store_lost_at > self.recovered_at
    }

    /// Somebody may let work be moved although many nodes are silent.
    pub(crate) fn brake_released(&mut self, now: u64) {
        self.brake_released_at = Some(now);
    }

    /// Nodes declared lost since last asked.
    pub(crate) fn take_lost(&mut self) -> Vec<(usize, NodeId)> {
        std::mem::take(&mut self.lost_now)
    }
}
