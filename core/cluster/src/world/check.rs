//! What must hold between steps, whatever happened. Called by proofs after every step.

use std::collections::BTreeMap;

use persys_model::phase::Phase;
use persys_model::resources::Compute;
use persys_model::workload::Desired;

use super::World;
use crate::placement::NodeIndex;

impl World {
    /// Everything that is wrong with this world; empty when all is well.
    pub fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        // While nothing may be decided, what was read waits to be looked at.
        if !self.dirty.is_empty() && !self.frozen() {
            wrong.push(format!("{} workloads were left unsettled", self.dirty.len()));
        }
        self.check_amounts(&mut wrong);
        self.check_waiting(&mut wrong);
        self.check_volumes(&mut wrong);
        wrong
    }

    /// What the index counts is the sum of all that is held.
    fn check_amounts(&self, wrong: &mut Vec<String>) {
        let mut sums: BTreeMap<NodeIndex, Compute> = BTreeMap::new();
        let mut add = |at: Option<NodeIndex>, what: Compute| {
            if let Some(at) = at {
                let sum = sums.entry(at).or_default();
                *sum = sum.plus(what);
            }
        };
        for at in self.workload_by_id.values() {
            let Some(slot) = self.workloads.get(at.0) else { continue };
            if let Some(place) = &slot.assignment.place {
                add(self.node_at(&place.node), place.reserved.compute);
            }
            for (node, former) in &slot.assignment.former {
                add(self.node_at(node), former.reserved.compute);
            }
        }
        for at in self.node_by_id.values() {
            let Some(slot) = self.nodes.get(at.0) else { continue };
            for grave in slot.graves.values() {
                add(Some(*at), grave.reserved.compute);
            }
            for orphan in slot.orphans.values() {
                add(Some(*at), orphan.taken.compute);
            }
        }
        for (id, at) in &self.node_by_id {
            let sum = sums.get(at).copied().unwrap_or_default();
            let taken = self.index.taken(*at);
            if sum != taken {
                wrong.push(format!("node {id}: {taken:?} counted as taken, {sum:?} held"));
            }
        }
    }

    /// Every workload that wants room waits, with a reason; nobody else does.
    fn check_waiting(&self, wrong: &mut Vec<String>) {
        if self.frozen() {
            return;
        }
        for (id, at) in &self.workload_by_id {
            let Some(slot) = self.workloads.get(at.0) else { continue };
            let pending = slot.assignment.phase == Phase::Pending;
            let waits_for_fence =
                slot.assignment.reason.code == persys_model::assignment::ReasonCode::WaitsForFence;
            if pending
                && slot.waits.is_none()
                && !waits_for_fence
                && slot.assignment.place.is_none()
            {
                wrong.push(format!("{id} is pending and nobody will look at it again"));
            }
            if slot.workload.desired == Desired::Deleted && slot.waits.is_some() {
                wrong.push(format!("{id} is to go and still waits for room"));
            }
        }
    }
}
