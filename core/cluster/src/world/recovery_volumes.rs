//! What one node at a time may have, when the store and the agents together have it on two.
//!
//! An older store may place a workload where a volume was that has moved since, and two nodes that did
//! not hear of each other may each have been told to have it. The volume stays where an agent holds
//! it, and of several with the latest decision; whoever else names it leaves its place, like any copy
//! that moved, and goes to where the volume is.

use std::collections::{BTreeMap, BTreeSet};

use persys_model::assignment::ReasonCode;
use persys_model::id::{NodeId, WorkloadId};
use persys_model::phase::Phase;
use persys_model::token::Epoch;
use persys_model::volume::{AttachmentPhase, VolumeKey, single_attach};

use super::World;
use super::recovery_plan::{Conflict, Disagreement, RecoveryPlan, newest_copies};
use super::slots::{WorkloadIndex, WorkloadSlot};

/// A workload that would have a volume on a node. Of several the greatest keeps it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    /// Whether an agent says that it holds the workload there.
    held: bool,
    epoch: Epoch,
    node: NodeId,
    workload: WorkloadId,
}

impl World {
    /// Says in a plan who would leave a place because of a volume that is elsewhere.
    pub(super) fn part_volumes(&self, plan: &mut RecoveryPlan) {
        for (volume, claims) in self.claims(plan) {
            let Some(keeper) = claims.last() else { continue };
            for claim in claims.iter().filter(|claim| claim.node != keeper.node) {
                let (from, to) = (claim.node.clone(), keeper.node.clone());
                let what = Disagreement::VolumeElsewhere { volume: volume.clone(), from, to };
                plan.conflicts.insert(Conflict { workload: claim.workload.clone(), what });
            }
        }
    }

    /// Who would have which volume that one node at a time may have.
    fn claims(&self, plan: &RecoveryPlan) -> BTreeMap<VolumeKey, BTreeSet<Claim>> {
        let mut claims: BTreeMap<VolumeKey, BTreeSet<Claim>> = BTreeMap::new();
        let newest = newest_copies(&self.heard);
        for (workload, node) in &plan.restored {
            let Some((_, held)) = newest.get(workload) else { continue };
            for asked in held.spec.iter().flat_map(|spec| spec.managed_volumes()) {
                let volume = VolumeKey::of(asked);
                // A node that was told to rest attaches nothing it did not have.
                let has = held.run || self.is_attached(&volume, workload, node);
                if has && single_attach(asked.driver, asked.access) {
                    let (node, workload) = (node.clone(), workload.clone());
                    let claim = Claim { held: true, epoch: held.report.epoch, node, workload };
                    claims.entry(volume).or_default().insert(claim);
                }
            }
        }
        for workload in &plan.kept {
            let at = self.workload_by_id.get(workload);
            let slot = at.and_then(|at| self.workloads.get(at.0));
            let Some(place) = slot.and_then(|slot| slot.assignment.place.as_ref()) else {
                continue;
            };
            let held = self.heard.get(&place.node).is_some_and(|registration| {
                let mut held = registration.inventory.held.iter();
                held.any(|held| held.report.workload == *workload)
            });
            let known = self.volumes.by_workload.get(workload).into_iter().flatten();
            let known = known.filter_map(|key| self.volumes.get(key));
            for volume in known.filter(|volume| volume.single_attach()) {
                if self.is_attached(&volume.key, workload, &place.node) {
                    let (epoch, node) = (place.epoch, place.node.clone());
                    let claim = Claim { held, epoch, node, workload: workload.clone() };
                    claims.entry(volume.key.clone()).or_default().insert(claim);
                }
            }
        }
        claims
    }

    /// Whether a node has a volume for a workload, and is to keep it.
    fn is_attached(&self, key: &VolumeKey, workload: &WorkloadId, node: &NodeId) -> bool {
        self.volumes.spots(key).any(|one| {
            let here = one.workload == *workload && one.node == *node;
            here && one.phase != AttachmentPhase::Detaching
        })
    }

    /// Carries out what the plan says about volumes.
    pub(super) fn leave_volumes(&mut self, plan: &RecoveryPlan) {
        for Conflict { workload, what } in &plan.conflicts {
            let Disagreement::VolumeElsewhere { volume, from, to } = what else { continue };
            let Some(at) = self.workload_by_id.get(workload).copied() else { continue };
            let here = |slot: &WorkloadSlot| {
                slot.assignment.place.as_ref().is_some_and(|place| place.node == *from)
            };
            if self.workloads.get(at.0).is_some_and(here) {
                let why = format!("one node at a time may have {volume}, and {to} has it");
                self.leave_place(at, &why);
            }
        }
    }

    /// A workload gives up its place. If it is to run, it looks for another one.
    fn leave_place(&mut self, at: WorkloadIndex, why: &str) {
        self.retire(at);
        let Some(slot) = self.workloads.get(at.0) else { return };
        let runs = match slot.assignment.phase {
            Phase::Starting
            | Phase::Running
            | Phase::Paused
            | Phase::Unresponsive
            | Phase::Restarting => true,
            Phase::Pending
            | Phase::Stopping
            | Phase::Stopped
            | Phase::Completed
            | Phase::Backoff
            | Phase::Failed
            | Phase::Deleting => false,
        };
        if runs && slot.workload.desired.is_up() {
            self.set_phase(at, Phase::Pending, ReasonCode::Recovered, why, None);
        }
        self.close_unit();
        self.mark_dirty(at);
    }
}
