//! Volumes that a Compose file names: the data of a stack, which outlives it unless its user says
//! otherwise.
//!
//! While a stack is there its volumes are its own affair. When it is deleted each becomes a record like
//! that of any other volume, with what was said about it:
//!
//! ```text
//!   delete ────────────── Retain ── listed, taken again by a stack of the same id, deleted by name
//!   delete with volumes ─ Delete ── its node is ordered to delete it once the stack is gone
//! ```
//!
//! The order that removes the stack itself always spares them, so that no agent takes along what
//! nobody named.

use std::collections::BTreeSet;
use std::sync::Arc;

use persys_model::id::{NodeId, WorkloadId};
use persys_model::spec::volume::{AccessMode, ManagedVolume, VolumeDriver};
use persys_model::spec::{Kind, Spec};
use persys_model::volume::{Attachment, AttachmentPhase, Volume, VolumeKey};

use super::World;
use super::slots::WorkloadIndex;

/// Disks that are named in an answer.
const MOST_NAMED: usize = 5;

/// The volumes that the file of a stack names, as records know them.
fn named_in_file(id: &WorkloadId, spec: &Spec) -> BTreeSet<VolumeKey> {
    let Kind::Compose(stack) = &spec.kind else { return BTreeSet::new() };
    stack.named_volumes().iter().map(|name| VolumeKey::of_stack(id, name)).collect()
}

impl World {
    /// A stack is to be deleted: what becomes of each volume of its file is written down. Names those
    /// that are kept.
    pub(super) fn keep_stack_volumes(&mut self, at: WorkloadIndex, keep: bool) -> Option<String> {
        let slot = self.workloads.get(at.0)?;
        let (id, assignment) = (slot.workload.id.clone(), Arc::clone(&slot.assignment));
        let mut spec = Arc::clone(&slot.workload.spec);
        if let Some(version) = assignment.place.as_ref().and_then(|place| place.version.as_ref()) {
            // What its node has is of the version it was told last.
            spec = Arc::clone(&version.spec);
        }
        let mut keys = named_in_file(&id, &spec);
        keys.extend(named_in_file(&id, &slot.workload.spec));
        let place = assignment.place.as_ref().map(|place| place.node.clone());
        let home = place.clone().or_else(|| assignment.data_on.clone());
        let mut nodes: BTreeSet<NodeId> = assignment.former.keys().cloned().collect();
        nodes.extend(home.clone());
        if keys.is_empty() || nodes.is_empty() {
            return None;
        }
        for key in &keys {
            let asked = as_managed(key, keep);
            let mut volume = match self.volumes.get(key) {
                Some(known) => Volume::clone(known),
                None => Volume::new(&asked, self.now.wall),
            };
            volume.retain = keep;
            volume.used = true;
            volume.home.clone_from(&home);
            volume.left_on.extend(nodes.iter().cloned());
            volume.users.insert(id.clone());
            volume.namespace.get_or_insert_with(|| spec.namespace());
            volume.updated_at = self.now.wall;
            self.draft.volumes.insert(key.clone());
            self.volumes.put(volume);
            for node in &nodes {
                let attachment = Attachment {
                    node: node.clone(),
                    workload: id.clone(),
                    volume: key.clone(),
                    mount_path: Arc::from(""),
                    read_only: false,
                    phase: AttachmentPhase::Detaching,
                    last_error: Arc::from(""),
                    since: self.now.wall,
                    created_at: self.now.wall,
                };
                self.draft.attachments.insert((key.clone(), node.clone(), id.clone()));
                self.volumes.attach(Arc::new(attachment));
            }
        }
        keep.then(|| says_kept(&keys, home.as_ref()))
    }

    /// Whether it is a volume of the file of this stack, which is being deleted and still there.
    pub(super) fn is_of_stack(&self, id: &WorkloadId, key: &VolumeKey) -> bool {
        key.driver == VolumeDriver::Compose
            && self.workload_by_id.contains_key(id)
            && self.volumes.get(key).is_some_and(|volume| volume.users.contains(id))
    }

    /// What stands against a stack of this id: data that an earlier one of another namespace left.
    pub(super) fn stack_volume_conflict(&self, id: &WorkloadId, spec: &Spec) -> Option<String> {
        let foreign = named_in_file(id, spec).into_iter().find(|key| {
            let owner = self.volumes.get(key).and_then(|volume| volume.namespace.as_ref());
            owner.is_some_and(|owner| *owner != spec.namespace())
        })?;
        Some(format!("disk {foreign} belongs to another namespace: choose another id"))
    }

    /// Where a stack that nobody knows yet would find data of an earlier one of the same id.
    pub(super) fn home_of_stack(&self, id: &WorkloadId, spec: &Spec) -> Option<NodeId> {
        let keys = named_in_file(id, spec);
        let homes = keys.iter().filter_map(|key| self.volumes.get(key)?.home.as_ref());
        homes.into_iter().find(|home| self.node_by_id.contains_key(*home)).cloned()
    }

    /// Where a stack that nobody knows yet finds data of an earlier one of the same id, which is its
    /// own from now on.
    pub(super) fn take_stack_volumes(&mut self, id: &WorkloadId, spec: &Spec) -> Option<NodeId> {
        let mut found = None;
        for key in named_in_file(id, spec) {
            let Some(volume) = self.volumes.get(&key).map(|volume| Volume::clone(volume)) else {
                continue;
            };
            for at in self.buried.get(&key.order_id()).cloned().unwrap_or_default() {
                self.call_off_removal(at, key.order_id());
            }
            let home = volume.home.clone().filter(|home| self.node_by_id.contains_key(home));
            let left: BTreeSet<NodeId> = volume
                .left_on
                .iter()
                .filter(|node| Some(*node) != home.as_ref())
                .cloned()
                .collect();
            self.draft.volumes.insert(key.clone());
            if left.is_empty() {
                self.volumes.volumes.remove(&key);
            } else {
                // What lies elsewhere under the same name is still somebody's to delete.
                self.volumes.put(Volume { home: None, left_on: left, ..volume });
            }
            found = found.or(home);
        }
        found
    }
}

fn says_kept(keys: &BTreeSet<VolumeKey>, home: Option<&NodeId>) -> String {
    let mut names: Vec<_> = keys.iter().take(MOST_NAMED).map(ToString::to_string).collect();
    if keys.len() > MOST_NAMED {
        names.push(format!("{} more", keys.len() - MOST_NAMED));
    }
    let on = home.map(|home| format!(" on {home}")).unwrap_or_default();
    format!("its volumes are kept{on}: {} (persys disk delete removes one)", names.join(", "))
}

fn as_managed(key: &VolumeKey, retain: bool) -> ManagedVolume {
    ManagedVolume {
        name: key.name.clone(),
        driver: key.driver,
        size_gib: 0,
        access: AccessMode::ReadWriteOnce,
        fs_type: Arc::from(""),
        mount_path: Arc::from(""),
        read_only: false,
        retain,
    }
}
