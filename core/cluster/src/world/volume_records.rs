//! Records of volumes between memory and store: read, written, erased, and checked.

use std::collections::BTreeSet;
use std::sync::Arc;

use persys_model::id::{NodeId, WorkloadId};
use persys_model::phase::Phase;
use persys_model::volume::{Attachment, AttachmentPhase, Volume, VolumeKey};

use super::World;
use super::slots::WorkloadSlot;
use super::volumes::{named, told};
use crate::record::Write;

impl World {
    /// The writes of the open unit about volumes.
    pub(super) fn volume_writes(
        &self,
        volumes: BTreeSet<VolumeKey>,
        attachments: BTreeSet<(VolumeKey, NodeId, WorkloadId)>,
        writes: &mut Vec<Write>,
    ) {
        for key in volumes {
            writes.push(match self.volumes.get(&key) {
                Some(volume) => Write::PutVolume(Arc::clone(volume)),
                None => Write::DeleteVolume(key),
            });
        }
        for (key, node, workload) in attachments {
            let spot = (node, workload);
            let found = self.volumes.attachments.get(&key).and_then(|spots| spots.get(&spot));
            writes.push(match found {
                Some(found) => Write::PutAttachment(Arc::clone(found)),
                None => Write::DeleteAttachment(spot.0, spot.1, key),
            });
        }
    }

    /// Takes in what is stored of volumes.
    pub(super) fn fill_volumes(
        &mut self,
        volumes: Vec<Arc<Volume>>,
        attachments: Vec<Arc<Attachment>>,
    ) {
        for volume in volumes {
            for user in &volume.users {
                let keys = self.volumes.by_workload.entry(user.clone()).or_default();
                keys.insert(volume.key.clone());
            }
            self.volumes.volumes.insert(volume.key.clone(), volume);
        }
        for attachment in attachments {
            self.volumes.attach(attachment);
        }
    }

    /// A store of an earlier release has no records of volumes, and any store may have lost one: what
    /// follows from decisions is made to follow again.
    pub(super) fn look_at_all_volumes(&mut self) {
        let has = |slot: &WorkloadSlot| !slot.workload.spec.managed_volumes().is_empty();
        for (id, at) in &self.workload_by_id {
            if self.workloads.get(at.0).is_some_and(has) {
                self.draft.volumes_of.insert(id.clone());
            }
        }
        self.draft.volumes_of.extend(self.volumes.by_workload.keys().cloned());
    }

    /// Everything in memory is written: the store may hold nothing, or something older.
    pub(super) fn write_volumes(&mut self) {
        self.draft.volumes = self.volumes.volumes.keys().cloned().collect();
        let spot =
            |one: &Arc<Attachment>| (one.volume.clone(), one.node.clone(), one.workload.clone());
        self.draft.attachments = self.volumes.attached().map(spot).collect();
        self.look_at_all_volumes();
        self.close_unit();
    }

    /// What it takes to erase every record of volumes.
    pub(super) fn volume_erasure(&self) -> Vec<Write> {
        let volumes = self.volumes.volumes.keys().cloned().map(Write::DeleteVolume);
        let spots = self.volumes.attached().map(|one| {
            Write::DeleteAttachment(one.node.clone(), one.workload.clone(), one.volume.clone())
        });
        volumes.chain(spots).collect()
    }

    /// Records of volumes match decisions: every volume of a place is attached there, whatever is
    /// attached has a reason to be, and what one node at a time may have is on one.
    pub(super) fn check_volumes(&self, wrong: &mut Vec<String>) {
        if self.undecided() {
            return;
        }
        for (id, at) in &self.workload_by_id {
            let Some(slot) = self.workloads.get(at.0) else { continue };
            let runs = slot.assignment.phase == Phase::Running;
            let place = slot.assignment.place.as_ref().filter(|_| runs).map(|place| &place.node);
            let told: BTreeSet<_> = told(slot).iter().map(VolumeKey::of).collect();
            for key in named(slot).keys() {
                let Some(volume) = self.volumes.get(key) else {
                    wrong.push(format!("{id} names {key}, of which there is no record"));
                    continue;
                };
                if !volume.users.contains(id) {
                    wrong.push(format!("{id} names {key} and is not among its users"));
                }
                let there = |one: &Arc<Attachment>| one.workload == *id && Some(&one.node) == place;
                if place.is_some() && told.contains(key) && !self.volumes.spots(key).any(there) {
                    wrong.push(format!("{id} has its place, but {key} is not attached there"));
                }
            }
        }
        for one in self.volumes.attached() {
            if self.volumes.get(&one.volume).is_none() {
                wrong.push(format!("{} is attached, and there is no record of it", one.volume));
            }
            if !self.may_hold(&one.workload, &one.node) {
                let Attachment { node, workload, volume, .. } = &**one;
                wrong.push(format!("{volume} is attached on {node} for {workload}, which is not"));
            }
        }
        for volume in self.volumes.all().filter(|volume| volume.single_attach()) {
            let held = self.volumes.spots(&volume.key);
            let held = held.filter(|one| one.phase != AttachmentPhase::Detaching);
            let nodes: BTreeSet<_> = held.map(|one| &one.node).collect();
            if nodes.len() > 1 {
                wrong.push(format!("{} is attached on {nodes:?} at once", volume.key));
            }
        }
    }

    /// Whether a node may hold a copy of a workload, by what is recorded.
    fn may_hold(&self, id: &WorkloadId, node: &NodeId) -> bool {
        let slot = self.workload_by_id.get(id).and_then(|at| self.workloads.get(at.0));
        let decided = slot.is_some_and(|slot| {
            let place = slot.assignment.place.as_ref();
            place.is_some_and(|place| place.node == *node)
                || slot.assignment.former.contains_key(node)
        });
        let buried = self.node_at(node).and_then(|at| Some(self.buried.get(id)?.contains(&at)));
        decided || buried == Some(true)
    }
}
