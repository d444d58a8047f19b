//! Records that follow from others and are written for operators: leases of nodes, and the last
//! outcome for each workload.
//!
//! Both are added when a unit is closed, so each is in the unit of the change it follows from.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_model::event::{Event, Happening};
use persys_model::lease::{Lease, LeaseState};
use persys_model::reconciliation::Reconciliation;

use super::World;
use crate::placement::NodeIndex;
use crate::record::Write;

impl World {
    /// Writes the leases of these nodes, where the record says something else or is not there.
    pub(super) fn lease_writes(
        &mut self,
        nodes: impl Iterator<Item = NodeIndex>,
        writes: &mut Vec<Write>,
    ) {
        let (length_ms, since) = (self.lease_ms(), self.now.wall);
        for at in nodes {
            let Some(slot) = self.nodes.get_mut(at.0) else { continue };
            let (session, state) = (slot.node.session, LeaseState::of(slot.node.condition));
            if slot.lease.as_ref().is_some_and(|l| l.session == session && l.state == state) {
                continue;
            }
            let node = slot.node.facts.id.clone();
            let lease = Arc::new(Lease { node, session, state, length_ms, since });
            slot.lease = Some(Arc::clone(&lease));
            writes.push(Write::PutLease(lease));
        }
    }
}

/// Writes the last outcome that these events tell of each workload.
pub(super) fn outcome_writes(events: &[Arc<Event>], writes: &mut Vec<Write>) {
    let mut last = BTreeMap::new();
    for event in events {
        if let Happening::Workload { id, to: None, .. } = &event.what {
            last.remove(id);
        } else if let Some(outcome) = Reconciliation::of(&event.what, event.at) {
            last.insert(outcome.workload.clone(), outcome);
        }
    }
    writes.extend(last.into_values().map(|one| Write::PutReconciliation(Arc::new(one))));
}
