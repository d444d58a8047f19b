//! Records of volumes: kept in step with the decisions about workloads, in the same unit.
//!
//! Nothing here decides where anything runs. Whenever the decision about a workload with volumes is
//! written, what is recorded of its volumes is made to follow: an attachment is there as long as its
//! place, an earlier copy or a grave is, and the record of a volume as long as anything may be left of
//! it. A workload without volumes costs one look into an empty map.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_model::assignment::{Assignment, Grave};
use persys_model::event::Happening;
use persys_model::failure::FailureReason;
use persys_model::id::{NodeId, WorkloadId};
use persys_model::phase::Phase;
use persys_model::resources::Resources;
use persys_model::spec::volume::ManagedVolume;
use persys_model::volume::{Attachment, AttachmentPhase, Volume, VolumeKey, VolumePhase};
use persys_model::workload::Desired;
use persys_model::zoo::Bug;

use super::World;
use super::slots::{WorkloadIndex, WorkloadSlot};

/// Who has a volume where.
pub(super) type Spots = BTreeMap<(NodeId, WorkloadId), Arc<Attachment>>;

/// What is stored of volumes.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) volumes: BTreeMap<VolumeKey, Arc<Volume>>,
    pub(super) attachments: BTreeMap<VolumeKey, Spots>,
    /// Volumes that a workload names or has somewhere.
    pub(super) by_workload: BTreeMap<WorkloadId, BTreeSet<VolumeKey>>,
}

impl Kept {
    pub(super) fn get(&self, key: &VolumeKey) -> Option<&Arc<Volume>> {
        self.volumes.get(key)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Volume>> {
        self.volumes.values()
    }

    pub(super) fn len(&self) -> usize {
        self.volumes.len()
    }

    /// Who has a volume, and where.
    pub(super) fn spots(&self, key: &VolumeKey) -> impl Iterator<Item = &Arc<Attachment>> {
        self.attachments.get(key).into_iter().flat_map(BTreeMap::values)
    }

    /// All attachments there are.
    pub(super) fn attached(&self) -> impl Iterator<Item = &Arc<Attachment>> {
        self.attachments.values().flat_map(BTreeMap::values)
    }

    pub(super) fn put(&mut self, volume: Volume) {
        self.volumes.insert(volume.key.clone(), Arc::new(volume));
    }

    pub(super) fn attach(&mut self, attachment: Arc<Attachment>) {
        let Attachment { node, workload, volume, .. } = &*attachment;
        let spot = (node.clone(), workload.clone());
        self.by_workload.entry(workload.clone()).or_default().insert(volume.clone());
        self.attachments.entry(volume.clone()).or_default().insert(spot, attachment);
    }

    fn detach(&mut self, key: &VolumeKey, spot: &(NodeId, WorkloadId)) {
        if let Some(spots) = self.attachments.get_mut(key) {
            spots.remove(spot);
            if spots.is_empty() {
                self.attachments.remove(key);
            }
        }
    }
}

/// What the present decision means for a volume on its node.
fn phase_at_place(desired: Desired, assignment: &Assignment) -> AttachmentPhase {
    let failure = assignment.reason.failure.as_ref();
    let broken = failure.is_some_and(|failure| failure.reason == FailureReason::StorageError);
    match assignment.phase {
        Phase::Deleting => AttachmentPhase::Detaching,
        _ if desired == Desired::Deleted => AttachmentPhase::Detaching,
        _ if broken => AttachmentPhase::Error,
        Phase::Starting => AttachmentPhase::Attaching,
        Phase::Running
        | Phase::Paused
        | Phase::Unresponsive
        | Phase::Restarting
        | Phase::Stopping => AttachmentPhase::Attached,
        Phase::Pending | Phase::Stopped | Phase::Completed | Phase::Backoff | Phase::Failed => {
            AttachmentPhase::Resting
        }
    }
}

/// The volumes of what its node was last told.
pub(super) fn told(slot: &WorkloadSlot) -> &[ManagedVolume] {
    let version = slot.assignment.place.as_ref().and_then(|place| place.version.as_ref());
    version.map_or(&slot.workload.spec, |version| &version.spec).managed_volumes()
}

/// The volumes a workload names: in what is wanted, and in what its node was last told.
pub(super) fn named(slot: &WorkloadSlot) -> BTreeMap<VolumeKey, ManagedVolume> {
    let wanted = slot.workload.spec.managed_volumes();
    let all = told(slot).iter().chain(wanted);
    all.map(|volume| (VolumeKey::of(volume), volume.clone())).collect()
}

impl World {
    /// Has the volumes of a workload looked at before the unit is closed.
    pub(super) fn touch_volumes_of(&mut self, id: &WorkloadId) {
        if self.volumes.by_workload.contains_key(id) {
            self.draft.volumes_of.insert(id.clone());
        }
    }

    /// Makes the records of volumes follow what the open unit changes.
    pub(super) fn keep_volumes(&mut self) {
        let mut concerned = std::mem::take(&mut self.draft.volumes_of);
        for at in self.draft.workloads() {
            if let Some(slot) = self.workloads.get(at.0) {
                let id = &slot.workload.id;
                if !slot.workload.spec.managed_volumes().is_empty()
                    || self.volumes.by_workload.contains_key(id)
                {
                    concerned.insert(id.clone());
                }
            }
        }
        for id in concerned {
            self.keep_volumes_of(&id);
        }
    }

    fn keep_volumes_of(&mut self, id: &WorkloadId) {
        let slot = self.workload_by_id.get(id).and_then(|at| self.workloads.get(at.0));
        let named = slot.map(named).unwrap_or_default();
        let known = self.volumes.by_workload.get(id).into_iter().flatten();
        let keys: BTreeSet<_> = known.chain(named.keys()).cloned().collect();
        let mut kept = BTreeSet::new();
        for key in keys {
            let asked = named.get(&key);
            let spots = self.spots_of(id, &key);
            let uses = asked.is_some() || !spots.is_empty() || self.is_of_stack(id, &key);
            self.move_spots(id, &key, asked, &spots);
            self.name_user(id, &key, asked);
            if uses && self.volumes.get(&key).is_some() {
                kept.insert(key.clone());
            }
            self.refresh_volume(&key);
        }
        if kept.is_empty() {
            self.volumes.by_workload.remove(id);
        } else {
            self.volumes.by_workload.insert(id.clone(), kept);
        }
    }

    /// On which nodes a workload may have a volume, and how far each is.
    fn spots_of(&self, id: &WorkloadId, key: &VolumeKey) -> BTreeMap<NodeId, AttachmentPhase> {
        let mut spots = BTreeMap::new();
        let before = |node: &NodeId| {
            let spot = (node.clone(), id.clone());
            self.volumes.attachments.get(key).is_some_and(|spots| spots.contains_key(&spot))
        };
        let early = self.settings.zoo.has(Bug::VolumeForgottenEarly);
        for at in self.buried.get(id).into_iter().flatten().filter(|_| !early) {
            let node = self.node_id(*at);
            if before(&node) {
                spots.insert(node, AttachmentPhase::Detaching);
            }
        }
        let Some(slot) = self.workload_by_id.get(id).and_then(|at| self.workloads.get(at.0)) else {
            return spots;
        };
        for node in slot.assignment.former.keys().filter(|node| before(node)) {
            spots.insert(node.clone(), AttachmentPhase::Detaching);
        }
        if let Some(place) = &slot.assignment.place {
            // What another revision has no more keeps its claim until the workload is gone.
            let has = told(slot).iter().any(|volume| VolumeKey::of(volume) == *key);
            let at_place = phase_at_place(slot.workload.desired, &slot.assignment);
            let leaves = at_place == AttachmentPhase::Detaching;
            let phase = if has || leaves { at_place } else { AttachmentPhase::Resting };
            // A node that was told to rest attaches nothing it did not have.
            if before(&place.node) || phase > AttachmentPhase::Resting {
                spots.insert(place.node.clone(), phase);
            }
        }
        spots
    }

    /// Makes the attachments of one workload to one volume be these.
    fn move_spots(
        &mut self,
        id: &WorkloadId,
        key: &VolumeKey,
        asked: Option<&ManagedVolume>,
        spots: &BTreeMap<NodeId, AttachmentPhase>,
    ) {
        let had = self.volumes.attachments.get(key).cloned().unwrap_or_default();
        for spot in had.keys().filter(|(node, by)| by == id && !spots.contains_key(node)) {
            self.volumes.detach(key, spot);
            self.draft.attachments.insert((key.clone(), spot.0.clone(), spot.1.clone()));
            // Whoever waited for it may have it now.
            self.room_changed = true;
        }
        let error = self.storage_error(id);
        for (node, phase) in spots {
            let before = had.get(&(node.clone(), id.clone()));
            let failed = *phase == AttachmentPhase::Error;
            let last_error = if failed { Arc::clone(&error) } else { Arc::from("") };
            let since = before.filter(|before| before.phase == *phase).map(|before| before.since);
            let seen = asked.map(|asked| (Arc::clone(&asked.mount_path), asked.read_only));
            let seen = seen.or_else(|| before.map(|b| (Arc::clone(&b.mount_path), b.read_only)));
            let (mount_path, read_only) = seen.unwrap_or_else(|| (Arc::from(""), false));
            let now = Attachment {
                node: node.clone(),
                workload: id.clone(),
                volume: key.clone(),
                mount_path,
                read_only,
                phase: *phase,
                last_error,
                since: since.unwrap_or(self.now.wall),
                created_at: before.map_or(self.now.wall, |before| before.created_at),
            };
            if before.is_none_or(|before| **before != now) {
                self.draft.attachments.insert((key.clone(), node.clone(), id.clone()));
                self.volumes.attach(Arc::new(now));
            }
        }
    }

    fn storage_error(&self, id: &WorkloadId) -> Arc<str> {
        let slot = self.workload_by_id.get(id).and_then(|at| self.workloads.get(at.0));
        let failure = slot.and_then(|slot| slot.assignment.reason.failure.as_ref());
        failure.map_or_else(|| Arc::from(""), |failure| Arc::clone(&failure.message))
    }

    /// Has a workload among the users of a volume, or not, and its wishes in the record.
    fn name_user(&mut self, id: &WorkloadId, key: &VolumeKey, asked: Option<&ManagedVolume>) {
        let now = self.now.wall;
        let mut volume = match (self.volumes.get(key), asked) {
            (Some(volume), _) => Volume::clone(volume),
            (None, Some(asked)) => Volume::new(asked, now),
            (None, None) => return,
        };
        let slot = self.workload_by_id.get(id).and_then(|at| self.workloads.get(at.0));
        let has = self.volumes.spots(key).any(|one| one.workload == *id);
        if slot.is_some() && (asked.is_some() || has || self.is_of_stack(id, key)) {
            volume.users.insert(id.clone());
        } else {
            volume.users.remove(id);
        }
        if let Some(asked) = asked {
            let alone = volume.users.len() == 1 && !volume.standalone;
            if alone {
                volume.retain = asked.retain;
                volume.access = asked.access;
                volume.fs_type = Arc::clone(&asked.fs_type);
                volume.mount_path = Arc::clone(&asked.mount_path);
            }
            let fresh = alone && !volume.used;
            let larger = volume.size_gib.max(asked.size_gib);
            volume.size_gib = if fresh { asked.size_gib } else { larger };
        }
        if let Some(slot) = slot.filter(|_| asked.is_some()) {
            // A node that is no more has nothing, whatever was decided when it was.
            let home = home_of(&volume, slot).filter(|home| self.node_by_id.contains_key(*home));
            if let Some(home) = home {
                volume.home = Some(home.clone());
            }
            volume.namespace.get_or_insert_with(|| slot.workload.spec.namespace());
        }
        self.put_volume(volume);
    }

    /// Works out how a volume is now; one of which nothing is left goes.
    fn refresh_volume(&mut self, key: &VolumeKey) {
        let Some(mut volume) = self.volumes.get(key).map(|volume| Volume::clone(volume)) else {
            return;
        };
        let leaving = |id: &WorkloadId| {
            let slot = self.workload_by_id.get(id).and_then(|at| self.workloads.get(at.0));
            slot.is_none_or(|slot| slot.workload.desired == Desired::Deleted)
        };
        let doomed = !volume.retain && volume.users.iter().all(leaving);
        let best = self.volumes.spots(key).map(|one| one.phase).max();
        volume.used |= best.is_some();
        let error = self.volumes.spots(key).find(|one| !one.last_error.is_empty());
        volume.last_error = error.map_or_else(|| Arc::from(""), |one| Arc::clone(&one.last_error));
        let ordered = self.buried.contains_key(&key.order_id());
        let nowhere = key.driver.is_local() && volume.home.is_none() && volume.left_on.is_empty();
        let phase = match best {
            _ if ordered => VolumePhase::Deleting,
            Some(AttachmentPhase::Error) => VolumePhase::Error,
            Some(AttachmentPhase::Attached) => VolumePhase::Attached,
            Some(AttachmentPhase::Attaching) => VolumePhase::Provisioning,
            Some(AttachmentPhase::Detaching) if doomed => VolumePhase::Deleting,
            Some(AttachmentPhase::Resting | AttachmentPhase::Detaching) => VolumePhase::Released,
            None if !volume.users.is_empty() && volume.used => VolumePhase::Released,
            None if !volume.users.is_empty() => VolumePhase::Pending,
            None if volume.standalone && !volume.used => VolumePhase::Available,
            None if volume.retain && volume.used && !nowhere => VolumePhase::Retained,
            None => return self.drop_volume(key),
        };
        if volume.phase != phase && phase == VolumePhase::Retained {
            let (key, node) = (key.clone(), volume.home.clone());
            self.happen(Happening::Volume { key, to: Some(phase), node });
        }
        volume.phase = phase;
        if doomed && best.is_some() {
            // What is about to be deleted keeps nobody near it.
            volume.home = None;
        }
        self.put_volume(volume);
    }

    /// Keeps a record, and writes it if it is another than before.
    fn put_volume(&mut self, mut volume: Volume) {
        let before = self.volumes.get(&volume.key);
        volume.updated_at = before.map_or(volume.updated_at, |before| before.updated_at);
        if before.is_some_and(|before| **before == volume) {
            return;
        }
        volume.updated_at = self.now.wall;
        self.draft.volumes.insert(volume.key.clone());
        self.volumes.put(volume);
    }

    /// Nothing is left of a volume.
    pub(super) fn drop_volume(&mut self, key: &VolumeKey) {
        let Some(volume) = self.volumes.volumes.remove(key) else { return };
        self.draft.volumes.insert(key.clone());
        if volume.standalone || volume.phase == VolumePhase::Retained || volume.users.is_empty() {
            let (key, node) = (key.clone(), volume.home.clone());
            self.happen(Happening::Volume { key, to: None, node });
        }
    }

    /// A grave of this name was cleared by its node's proof.
    pub(super) fn volumes_given_up(&mut self, name: &WorkloadId, node: &NodeId) {
        let Some(key) = VolumeKey::ordered_by(name) else { return self.touch_volumes_of(name) };
        let Some(mut volume) = self.volumes.get(&key).map(|volume| Volume::clone(volume)) else {
            return;
        };
        let free = volume.users.is_empty() && self.volumes.spots(&key).next().is_none();
        if free && !self.buried.contains_key(name) {
            return self.drop_volume(&key);
        }
        volume.left_on.remove(node);
        volume.home = volume.home.filter(|home| home != node);
        self.put_volume(volume);
        self.refresh_volume(&key);
    }

    /// A copy left its node for another, and its data stays there.
    pub(super) fn data_left_behind(&mut self, id: &WorkloadId, node: &NodeId) {
        let keys = self.volumes.by_workload.get(id).cloned().unwrap_or_default();
        for key in keys.into_iter().filter(|key| key.driver.is_local()) {
            let here = self.volumes.spots(&key).any(|s| s.workload == *id && s.node == *node);
            if let Some(volume) = self.volumes.get(&key).filter(|_| here) {
                let mut volume = Volume::clone(volume);
                volume.left_on.insert(node.clone());
                self.put_volume(volume);
            }
        }
    }

    /// A workload is to go, and another one names a volume of it: its removal spares the data, which
    /// goes with the last of them.
    pub(super) fn spare_shared_data(&mut self, id: &WorkloadId) {
        let keys = self.volumes.by_workload.get(id).cloned().unwrap_or_default();
        for key in keys {
            let Some(volume) = self.volumes.get(&key) else { continue };
            let mut volume = Volume::clone(volume);
            if volume.retain || !self.needed_beside(id, &volume) {
                continue;
            }
            let mine = self.volumes.spots(&key).filter(|one| one.workload == *id);
            volume.left_on.extend(mine.map(|one| one.node.clone()));
            self.put_volume(volume);
        }
    }

    /// Whether a workload that is to stay names this volume, beside one that is to go.
    fn needed_beside(&self, id: &WorkloadId, volume: &Volume) -> bool {
        volume.users.iter().filter(|user| *user != id).any(|user| {
            let slot = self.workload_by_id.get(user).and_then(|at| self.workloads.get(at.0));
            slot.is_some_and(|slot| slot.workload.desired != Desired::Deleted)
        })
    }

    /// Whether the data of a workload that is gone goes with its removal from a node. What is to be
    /// left there has a deletion of its own.
    pub(super) fn takes_data_along(&self, id: &WorkloadId, node: &NodeId) -> bool {
        let keys = self.volumes.by_workload.get(id).into_iter().flatten();
        let mut volumes = keys.filter_map(|key| self.volumes.get(key));
        !volumes.any(|volume| volume.left_on.contains(node))
    }

    /// A workload is gone: what removals have left on nodes goes too, where its policy lets it.
    pub(super) fn bury_left_data(&mut self, id: &WorkloadId) {
        let keys = self.volumes.by_workload.get(id).cloned().unwrap_or_default();
        for key in keys {
            let Some(volume) = self.volumes.get(&key).map(Arc::clone) else { continue };
            let kept = volume.retain || volume.users.iter().any(|user| user != id);
            if kept || volume.left_on.is_empty() {
                continue;
            }
            for at in self.who_deletes(&volume) {
                let epoch = self.draw_epoch(None);
                let (workload, node) = (key.order_id(), self.node_id(at));
                self.dig(Grave {
                    workload,
                    node,
                    epoch,
                    reserved: Resources::default(),
                    version: None,
                });
            }
        }
    }

    /// A workload is back that names volumes whose deletion is ordered: its data stays. What lies on
    /// other nodes under the same name goes with the workload, once it does.
    pub(super) fn call_off_deletions(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let place = slot.assignment.place.as_ref().map(|place| place.node.clone());
        for key in named(slot).into_keys() {
            let ordered = self.buried.get(&key.order_id()).cloned().unwrap_or_default();
            for at in ordered {
                self.call_off_removal(at, key.order_id());
                let node = self.node_id(at);
                let elsewhere = key.driver.is_local() && place.as_ref() != Some(&node);
                if let Some(volume) = self.volumes.get(&key).filter(|_| elsewhere) {
                    let mut volume = Volume::clone(volume);
                    volume.left_on.insert(node);
                    self.put_volume(volume);
                }
            }
        }
    }

    /// A node is no more, and with it what was only there.
    pub(super) fn volumes_lose_node(&mut self, node: &NodeId) {
        let concerned: Vec<_> = self.volumes.volumes.keys().cloned().collect();
        for key in concerned {
            let Some(volume) = self.volumes.get(&key) else { continue };
            let mut volume = Volume::clone(volume);
            let left = volume.left_on.remove(node);
            if volume.home.as_ref() == Some(node) {
                volume.home = None;
            } else if !left && !self.volumes.spots(&key).any(|one| one.node == *node) {
                // A deletion that only this node was to carry out is to be asked for again.
                if volume.phase == VolumePhase::Deleting {
                    self.refresh_volume(&key);
                }
                continue;
            }
            self.put_volume(volume);
            let users: Vec<_> = self.volumes.spots(&key).map(|one| one.workload.clone()).collect();
            for user in users {
                self.touch_volumes_of(&user);
            }
            self.refresh_volume(&key);
        }
    }
}

/// Where the data of a volume is, as the decision about a workload that has it tells.
fn home_of<'a>(volume: &Volume, slot: &'a WorkloadSlot) -> Option<&'a NodeId> {
    if !volume.key.driver.is_local() {
        return None;
    }
    let assignment = &slot.assignment;
    let place = assignment.place.as_ref().map(|place| &place.node);
    let runs = assignment.phase == Phase::Running;
    let leaves = slot.workload.desired == Desired::Deleted;
    let spared = place.is_some_and(|place| volume.left_on.contains(place));
    if leaves && !volume.retain && !spared {
        // Its data goes with it: that draws nobody there, whoever has named the volume since.
        return None;
    }
    let ends = leaves && volume.home.is_none();
    assignment.data_on.as_ref().or_else(|| place.filter(|_| runs || ends))
}
