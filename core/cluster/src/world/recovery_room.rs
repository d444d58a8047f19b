//! Room after a recovery: what its own node proves to be gone reserves nothing.
//!
//! An older store still reserves for workloads that were deleted since. Their nodes gave that room to
//! others, which the recovery brings back, so both together may exceed what a node has.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_model::id::{NodeId, WorkloadId};
use persys_model::inventory::Tombstone;
use persys_model::link::Registration;
use persys_model::resources::Resources;

use super::World;

impl World {
    /// Gives back the room of a workload that was deleted, on the node that has proof of that. Its removal is
    /// still ordered there: data may be left.
    pub(super) fn free_proven_gone(
        &mut self,
        id: &WorkloadId,
        heard: &BTreeMap<NodeId, Registration>,
    ) {
        let Some(at) = self.workload_by_id.get(id).copied() else { return };
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let Some(place) = slot.assignment.place.clone() else { return };
        let left = match proof_of_removal(heard, &place.node, id) {
            None => return,
            Some(Tombstone { purged: true, .. }) => Resources::default(),
            Some(Tombstone { purged: false, .. }) => place.reserved.at_rest(),
        };
        if let Some(place) = Arc::make_mut(&mut slot.assignment).place.as_mut() {
            place.reserved = left.clone();
            place.ports = Vec::new();
        }
        self.touch_decision(at);
        if let Some(node) = self.node_at(&place.node) {
            self.index.give(node, &place.reserved, &place.ports);
            self.index.take(node, &left, &[]);
            self.room_changed = true;
        }
        self.close_unit();
    }
}

/// The tombstone of a node that removed a copy of a workload and holds no later one.
fn proof_of_removal<'a>(
    heard: &'a BTreeMap<NodeId, Registration>,
    node: &NodeId,
    id: &WorkloadId,
) -> Option<&'a Tombstone> {
    let inventory = &heard.get(node)?.inventory;
    let removed = inventory.tombstones.iter().filter(|one| one.workload == *id);
    let removed = removed.max_by_key(|one| one.epoch)?;
    let held = inventory.held.iter().filter(|held| held.report.workload == *id);
    let held = held.map(|held| held.report.epoch).max();
    (Some(removed.epoch) > held).then_some(removed)
}
