//! What must hold between steps, whatever happened. Called by proofs after every step, and by a leading
//! scheduler now and then.

use std::collections::BTreeMap;

use persys_model::phase::Phase;
use persys_model::resources::Compute;
use persys_model::workload::Desired;

use super::World;
use crate::placement::NodeIndex;

/// What is checked, and the word for it in metrics.
type Check = (&'static str, fn(&World, &mut Vec<String>));

const CHECKS: [Check; 5] = [
    ("unsettled", World::check_settled),
    ("amounts", World::check_amounts),
    ("waiting", World::check_waiting),
    ("volumes", World::check_volumes),
    ("copies", World::check_copies),
];

impl World {
    /// Words for everything that is checked.
    pub fn checks() -> impl Iterator<Item = &'static str> {
        CHECKS.iter().map(|(name, _)| *name)
    }

    /// Everything that is wrong with this world, by what was checked; empty when all is well.
    pub fn violations(&self) -> Vec<(&'static str, String)> {
        let mut violations = Vec::new();
        for (name, check) in CHECKS {
            let mut wrong = Vec::new();
            check(self, &mut wrong);
            violations.extend(wrong.into_iter().map(|what| (name, what)));
        }
        violations
    }

    /// The same in words alone.
    pub fn check(&self) -> Vec<String> {
        self.violations().into_iter().map(|(_, what)| what).collect()
    }

    fn check_settled(&self, wrong: &mut Vec<String>) {
        // While nothing may be decided, what was read waits to be looked at.
        if !self.dirty.is_empty() && !self.undecided() {
            wrong.push(format!("{} workloads were left unsettled", self.dirty.len()));
        }
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

    /// No node is told both to have a workload and to remove it.
    fn check_copies(&self, wrong: &mut Vec<String>) {
        for (id, at) in &self.workload_by_id {
            let Some(slot) = self.workloads.get(at.0) else { continue };
            let Some(place) = &slot.assignment.place else { continue };
            if slot.assignment.former.contains_key(&place.node) {
                wrong.push(format!("{id} has its place on {} and is to leave it", place.node));
            }
            let node = self.node_at(&place.node).and_then(|at| self.nodes.get(at.0));
            if node.is_some_and(|node| node.graves.contains_key(id)) {
                wrong.push(format!("{id} has its place on {} and a grave there", place.node));
            }
        }
    }

    /// Every workload that wants room waits, with a reason; nobody else does.
    fn check_waiting(&self, wrong: &mut Vec<String>) {
        if self.undecided() {
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
