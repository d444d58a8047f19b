//! Proof by heartbeat that a node has no copy of a workload.
//!
//! ```text
//!   order that may have arrived ── overdue, another node fits ──► former copy, with a newer decision
//!                                                                      │ its removal cannot be delivered
//!                                                                      ▼
//!   placed elsewhere ◄── tombstone in a heartbeat ◄── agent ◄── answer to a heartbeat
//! ```
//! The tombstone is on the agent's disk and newer than the order: however late that arrives, it is
//! refused. Until it is there the workload waits, as after any other move of work that must not run
//! twice. Nothing is carried that was not sent before, so all of it is durable.

use persys_model::link::Removal;
use persys_model::phase::Phase;

use super::World;
use super::slots::WorkloadIndex;
use crate::placement::NodeIndex;

/// Most removals that one answer carries; the next answers carry the rest.
const MOST_AT_ONCE: usize = 64;

impl World {
    /// True if the agent of a node obeys removals in the answer to a heartbeat.
    pub(super) fn proves_removals(&self, at: NodeIndex) -> bool {
        self.nodes.get(at.0).is_some_and(|slot| slot.reach.takes_removals())
    }

    /// Removals that a node which cannot be called is told with the answer to its heartbeat.
    pub(super) fn removals_by_answer(&self, at: NodeIndex) -> Vec<Removal> {
        let Some(node) = self.nodes.get(at.0) else { return Vec::new() };
        if !node.reach.takes_removals() || node.reach.trouble().is_none() {
            return Vec::new();
        }
        let undelivered = |index: &WorkloadIndex| {
            let slot = self.workloads.get(index.0)?;
            let former = slot.assignment.former.get(&node.node.facts.id)?;
            let sent = node.orders.get(&slot.workload.id)?;
            let carried = sent.went_out && sent.epoch == former.epoch;
            carried.then(|| Removal { workload: slot.workload.id.clone(), epoch: former.epoch })
        };
        node.formers.iter().filter_map(undelivered).take(MOST_AT_ONCE).collect()
    }

    /// The rest of the sentence for work that waits for a node which cannot prove that it has no copy.
    pub(super) fn says_unprovable(&self, at: WorkloadIndex) -> &'static str {
        let Some(slot) = self.workloads.get(at.0) else { return "" };
        let node = slot.assignment.place.as_ref().and_then(|place| self.node_at(&place.node));
        let waits = slot.assignment.phase == Phase::Starting
            && self.is_overdue(at)
            && self.at_most_once(&slot.workload.spec)
            && !slot.attempt.never_arrived();
        if waits && node.is_some_and(|node| !self.proves_removals(node)) {
            "; it is not started elsewhere, because a copy may run there and the agent is too old to prove \
             that none does"
        } else {
            ""
        }
    }
}
