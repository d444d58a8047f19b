//! The cluster, counted: what dashboards show. One pass over all there is, looking nothing up, so that
//! a look at a large cluster holds up nobody.

use std::collections::BTreeMap;

use persys_model::assignment::{ReasonCode, UpdateState};
use persys_model::drift::DriftKind;
use persys_model::failure::FailureReason;
use persys_model::health::HealthState;
use persys_model::node::{Condition, total_gib};
use persys_model::phase::Phase;
use persys_model::resources::Compute;
use persys_model::time::WallMillis;
use persys_model::workload::Desired;

use super::World;
use super::slots::{NodeSlot, WorkloadSlot};
use super::view::update_state;

/// How many there are of what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Nodes by condition.
    pub nodes: BTreeMap<Condition, u64>,
    /// Nodes that are ready and being emptied.
    pub draining: u64,
    /// Nodes that take nothing new because their machines are busy.
    pub busy: u64,
    /// Ready nodes to which orders cannot be delivered.
    pub unreachable: u64,
    /// Ready nodes with a runtime that does not answer.
    pub runtimes_down: u64,
    /// Workloads by phase.
    pub phases: BTreeMap<Phase, u64>,
    /// Workloads by the state of their update, those that have one.
    pub updates: BTreeMap<UpdateState, u64>,
    /// Workloads by their health, those that are checked.
    pub health: BTreeMap<HealthState, u64>,
    /// Workloads by what should become of them.
    pub desired: BTreeMap<Desired, u64>,
    /// Workloads that are pending, by why.
    pub pending: BTreeMap<ReasonCode, u64>,
    /// Since when the one waits that is pending or being started for the longest, for the same reason.
    pub pending_since: Option<WallMillis>,
    /// Workloads that have failed, or failed and will be tried again, by why.
    pub failed: BTreeMap<FailureReason, u64>,
    /// Open differences between what is recorded and what nodes have.
    pub drifts: BTreeMap<DriftKind, u64>,
    /// What nodes that are ready have, together.
    pub capacity: Compute,
    /// What is reserved of that.
    pub reserved: Compute,
    /// What their machines really use.
    pub used: Compute,
    /// Disk of nodes that are ready, in GiB.
    pub disk_gib: u64,
    /// What is not reserved of that.
    pub free_disk_gib: u64,
    /// Copies that were left behind and are not known to be gone.
    pub left_behind: u64,
    /// Workloads that nobody knows, on nodes.
    pub orphans: u64,
    /// Orders that were sent and are not yet obeyed.
    pub orders: u64,
    /// Workloads that are still to be looked at; none between steps, unless the cluster is frozen.
    pub dirty: u64,
    /// Workloads that want room.
    pub waiting: u64,
    /// Managed volumes.
    pub volumes: u64,
    /// Workloads in shadow.
    pub shadow: u64,
}

impl World {
    /// Counts everything.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally {
            dirty: count(self.dirty.len()),
            waiting: count(self.waiting.len()),
            volumes: count(self.volumes.all().count()),
            shadow: count(self.shadow_count()),
            ..Tally::default()
        };
        for slot in self.workloads.iter() {
            tally.workload(slot);
            if let Some(state) = update_state(&slot.workload, &slot.assignment) {
                more(&mut tally.updates, state);
            }
        }
        for at in self.node_by_id.values() {
            let Some(slot) = self.nodes.get(at.0) else { continue };
            tally.node(slot);
            if slot.node.condition == Condition::Ready {
                tally.capacity = tally.capacity.plus(slot.node.facts.capacity);
                tally.reserved = tally.reserved.plus(self.index.taken(*at));
                tally.used = tally.used.plus(slot.usage.used);
                let disk = total_gib(&slot.node.facts.pools);
                tally.disk_gib = tally.disk_gib.saturating_add(disk);
                let free = self.free_disk(*at, &slot.node);
                tally.free_disk_gib = tally.free_disk_gib.saturating_add(free);
            }
        }
        tally
    }
}

impl Tally {
    fn workload(&mut self, slot: &WorkloadSlot) {
        let assignment = &slot.assignment;
        more(&mut self.phases, assignment.phase);
        more(&mut self.desired, slot.workload.desired);
        if let Some(known) = &assignment.health {
            more(&mut self.health, known.health.state);
        }
        self.left_behind = self.left_behind.saturating_add(count(assignment.former.len()));
        let reason = &assignment.reason;
        match (assignment.phase, &reason.failure) {
            (Phase::Pending, _) => {
                more(&mut self.pending, reason.code);
                self.waits_since(reason.since);
            }
            (Phase::Starting, _) => self.waits_since(reason.since),
            (Phase::Failed | Phase::Backoff, Some(failure)) => {
                more(&mut self.failed, failure.reason);
            }
            (
                Phase::Failed
                | Phase::Backoff
                | Phase::Running
                | Phase::Paused
                | Phase::Unresponsive
                | Phase::Restarting
                | Phase::Stopping
                | Phase::Stopped
                | Phase::Completed
                | Phase::Deleting,
                _,
            ) => {}
        }
    }

    fn waits_since(&mut self, since: WallMillis) {
        let earliest = self.pending_since.map_or(since, |known| known.min(since));
        self.pending_since = Some(earliest);
    }

    fn node(&mut self, slot: &NodeSlot) {
        let node = &slot.node;
        more(&mut self.nodes, node.condition);
        let draining = node.condition == Condition::Ready && node.drain.is_some();
        self.draining = self.draining.saturating_add(u64::from(draining));
        self.busy = self.busy.saturating_add(u64::from(slot.busy.is_some()));
        let unreachable = slot.reach.trouble().is_some();
        self.unreachable = self.unreachable.saturating_add(u64::from(unreachable));
        self.runtimes_down = self.runtimes_down.saturating_add(u64::from(!slot.down.is_empty()));
        self.left_behind = self.left_behind.saturating_add(count(slot.graves.len()));
        self.orphans = self.orphans.saturating_add(count(slot.orphans.len()));
        self.orders = self.orders.saturating_add(count(slot.orders.len()));
        for (_, kind) in slot.drifts.keys() {
            more(&mut self.drifts, *kind);
        }
    }
}

fn more<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    let counted = counts.entry(key).or_default();
    *counted = counted.saturating_add(1);
}

fn count(of: usize) -> u64 {
    u64::try_from(of).unwrap_or(u64::MAX)
}
