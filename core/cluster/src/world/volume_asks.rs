//! What is asked of volumes: to be made, to be deleted, to keep workloads to where their data is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_model::assignment::Grave;
use persys_model::event::Happening;
use persys_model::id::{NodeId, WorkloadId};
use persys_model::node::Condition;
use persys_model::resources::Resources;
use persys_model::spec::volume::{ManagedVolume, VolumeDriver};
use persys_model::spec::{Class, OnNodeLoss, Spec};
use persys_model::volume::{Attachment, Volume, VolumeKey, VolumePhase, single_attach};
use persys_model::zoo::Bug;

use super::World;
use super::slots::{WorkloadIndex, WorkloadSlot};
use crate::effects::{Mark, RefusalCode};
use crate::input::RequestId;
use crate::placement::NodeIndex;

/// Most volumes there may be that were made without a workload, and others with them.
const MOST_VOLUMES: usize = 100_000;

/// Users of a volume that are named in a refusal.
const MOST_NAMED: usize = 5;

/// Nodes that alone can run a workload, with the volume that is there; without one where the data is
/// all the workload has.
pub type Homes = BTreeMap<NodeId, Option<VolumeKey>>;

impl World {
    /// All volumes.
    pub fn volumes(&self) -> impl Iterator<Item = &Volume> {
        self.volumes.all().map(|volume| &**volume)
    }

    /// One volume.
    pub fn volume(&self, key: &VolumeKey) -> Option<&Volume> {
        self.volumes.get(key).map(|volume| &**volume)
    }

    /// Where a volume is, and for whom.
    pub fn attachments(&self, key: &VolumeKey) -> impl Iterator<Item = &Attachment> {
        self.volumes.spots(key).map(|one| &**one)
    }

    /// Nodes that alone can run this workload: they have its data.
    pub fn homes_of(&self, id: &WorkloadId) -> Homes {
        let slot = self.workload_by_id.get(id).and_then(|at| self.workloads.get(at.0));
        slot.map(|slot| self.homes(slot)).unwrap_or_default()
    }

    /// Where a workload has to run: where its data is, and where a volume is that only one node at a
    /// time may have. More than one means nowhere.
    pub(super) fn homes(&self, slot: &WorkloadSlot) -> Homes {
        let mut homes = Homes::new();
        if let Some(home) = &slot.assignment.data_on {
            homes.insert(home.clone(), None);
        }
        let id = &slot.workload.id;
        for asked in slot.workload.spec.managed_volumes() {
            let key = VolumeKey::of(asked);
            if single_attach(asked.driver, asked.access) {
                // An orphan may have it without a record of it.
                for node in self.held_by_others(id, &key).chain(self.held_by_orphans(id, &key)) {
                    homes.entry(node).or_insert_with(|| Some(key.clone()));
                }
            } else if let Some(volume) = self.volumes.get(&key).filter(|_| key.driver.is_local())
                && let Some(home) = self.local_home(slot, volume)
            {
                homes.entry(home).or_insert(Some(key));
            }
        }
        homes
    }

    /// The node that has what a workload would find under the name of this local volume.
    fn local_home(&self, slot: &WorkloadSlot, volume: &Volume) -> Option<NodeId> {
        let id = &slot.workload.id;
        let shared = volume.users.iter().any(|user| user != id);
        let held = || self.held_by_others(id, &volume.key).next().filter(|_| shared);
        let home = volume.home.clone().or_else(held)?;
        let moves = slot.workload.spec.placement.on_node_loss == OnNodeLoss::Move;
        // Its user would rather have it without its data than not at all.
        let given_up = moves && !shared && !self.keeps_work(&home);
        let lost = self.settings.zoo.has(Bug::RetainedNotFound) && !shared;
        (!given_up && !lost).then_some(home)
    }

    /// Nodes that have a volume for others, and may really have it.
    fn held_by_others(&self, id: &WorkloadId, key: &VolumeKey) -> impl Iterator<Item = NodeId> {
        let off = |node: &NodeId| {
            let slot = self.node_at(node).and_then(|at| self.nodes.get(at.0));
            slot.is_none_or(|slot| slot.confirmed_gone)
        };
        let others = self.volumes.spots(key).filter(move |one| one.workload != *id);
        others.map(|one| one.node.clone()).filter(move |node| !off(node))
    }

    /// Whether a node has said all it holds.
    fn has_told(&self, node: &NodeId) -> bool {
        let slot = self.node_at(node).and_then(|at| self.nodes.get(at.0));
        slot.is_none_or(|slot| slot.known)
    }

    /// Whether a node is neither lost nor being emptied.
    fn keeps_work(&self, node: &NodeId) -> bool {
        let slot = self.node_at(node).and_then(|at| self.nodes.get(at.0));
        slot.is_some_and(|slot| slot.node.condition != Condition::Lost && slot.node.drain.is_none())
    }

    /// Whether the volumes of a workload let it be on this node.
    pub(super) fn homes_allow(&self, at: WorkloadIndex, node: NodeIndex) -> bool {
        let Some(slot) = self.workloads.get(at.0) else { return false };
        let node = self.node_id(node);
        // Where its data was before it ran elsewhere is no reason to leave.
        self.homes(slot).iter().all(|(home, volume)| *home == node || volume.is_none())
    }

    /// Why only the nodes that have its data can run it, if so.
    pub(super) fn says_home(&self, slot: &WorkloadSlot) -> Option<String> {
        let homes = self.homes(slot);
        let mut all = homes.iter();
        let (home, volume) = all.next()?;
        if all.next().is_some() {
            let what = |(node, volume): (&NodeId, &Option<VolumeKey>)| match volume {
                Some(volume) => format!("{volume} on {node}"),
                None => format!("its own data on {node}"),
            };
            let said: Vec<_> = homes.iter().map(what).collect();
            return Some(format!("no node has all of its data: {}", said.join(", ")));
        }
        Some(match volume {
            Some(key) if !key.driver.is_local() && !self.has_told(home) => format!(
                "one node at a time may have {key}, and {home}, which has not yet said what it \
                 holds, may have it"
            ),
            Some(key) if !key.driver.is_local() => format!(
                "one node at a time may have {key}, and {home} has it, where there is no room now"
            ),
            None if slot.workload.spec.adopt_on().as_ref() == Some(home) => {
                self.says_waits_for_adoption(home)
            }
            Some(_) | None => format!("its data is on {home}, which has no room for it now"),
        })
    }

    /// Why an imported workload has not started on the node that ran it before.
    fn says_waits_for_adoption(&self, home: &NodeId) -> String {
        if self.node_at(home).is_some() {
            format!("the earlier installation runs it on {home}, which has no room for it now")
        } else {
            format!("the earlier installation runs it on {home}, which has not joined this cluster")
        }
    }

    /// What work waits for whose copy on a silent node may still run.
    pub(super) fn says_waits_for_copy(&self, at: WorkloadIndex, node: &NodeId) -> String {
        let spec = self.workloads.get(at.0).map(|slot| &slot.workload.spec);
        let default = spec.filter(|spec| spec.placement.class == Class::Default);
        let single = default.and_then(|spec| {
            spec.managed_volumes().iter().find(|one| single_attach(one.driver, one.access))
        });
        match single.map(VolumeKey::of) {
            Some(key) => format!(
                "one node at a time may have {key}, and {node} may still have it: bring {node} back, \
                 or vouch that it is off with persys node confirm-gone {node}"
            ),
            None => format!("waits until its copy on {node} surely stopped"),
        }
    }

    /// What stands against a spec that names volumes which are there already.
    pub(super) fn volume_conflict(&self, id: &WorkloadId, spec: &Spec) -> Option<String> {
        let namespace = spec.namespace();
        let conflict = |asked: &ManagedVolume| {
            let volume = self.volumes.get(&VolumeKey::of(asked))?;
            // Whose it is is nobody's business: data outlives its workloads, and who sees it does not
            // depend on who is quick to name it next.
            if volume.namespace.as_ref().is_some_and(|owner| *owner != namespace) {
                let key = &volume.key;
                return Some(format!(
                    "disk {key} belongs to another namespace: choose another name"
                ));
            }
            self.conflict_with(id, asked, volume)
        };
        let found: Vec<_> = spec.managed_volumes().iter().filter_map(conflict).collect();
        let found = found.into_iter().chain(self.stack_volume_conflict(id, spec));
        let found: Vec<_> = found.collect();
        (!found.is_empty()).then(|| found.join("; "))
    }

    fn conflict_with(
        &self,
        id: &WorkloadId,
        asked: &ManagedVolume,
        volume: &Volume,
    ) -> Option<String> {
        let key = &volume.key;
        let going = volume.phase == VolumePhase::Deleting && !volume.users.contains(id);
        // On another node a local volume of this name is another volume.
        if going && (!key.driver.is_local() || self.buried.contains_key(&key.order_id())) {
            return Some(format!(
                "disk {key} is being deleted: wait until persys disk list has it no more, or choose \
                 another name"
            ));
        }
        let others: Vec<_> = volume.users.iter().filter(|user| *user != id).collect();
        let mine = others.is_empty() && volume.users.contains(id) && !volume.standalone;
        if mine || going {
            return None;
        }
        let by = match others.first() {
            Some(user) => format!("workload {user} uses it so"),
            None => "it was made so".to_owned(),
        };
        if asked.retain != volume.retain {
            let policy = if volume.retain { "Retain" } else { "Delete" };
            return Some(format!("disk {key} has the policy {policy}, say the same: {by}"));
        }
        if asked.access != volume.access {
            return Some(format!("disk {key} has another access mode, say the same: {by}"));
        }
        if asked.size_gib < volume.size_gib {
            let size = volume.size_gib;
            return Some(format!("disk {key} has {size} GiB and does not shrink: {by}"));
        }
        let named = !asked.fs_type.is_empty() && !volume.fs_type.is_empty();
        if named && asked.fs_type != volume.fs_type {
            return Some(format!("disk {key} has the file system {}: {by}", volume.fs_type));
        }
        None
    }

    /// A volume without a workload. Nothing is ordered: it is made when it is first used.
    pub(super) fn create_volume(
        &mut self,
        request: RequestId,
        asked: &ManagedVolume,
        node: Option<NodeId>,
    ) {
        let mut volume = Volume::new(asked, self.now.wall);
        volume.standalone = true;
        volume.phase = VolumePhase::Available;
        let key = volume.key.clone();
        if let Some(known) = self.volumes.get(&key) {
            let as_wanted = Volume {
                users: known.users.clone(),
                left_on: known.left_on.clone(),
                last_error: Arc::clone(&known.last_error),
                home: node.or_else(|| known.home.clone()),
                phase: known.phase,
                used: known.used,
                namespace: known.namespace.clone(),
                created_at: known.created_at,
                updated_at: known.updated_at,
                ..volume
            };
            if as_wanted == **known && known.phase != VolumePhase::Deleting {
                self.mark(Mark::Idempotent);
                return self.done(request, "it is there already");
            }
            let why = format!("there is a disk {key} already: see persys disk get {key}");
            return self.refuse(request, RefusalCode::Conflict, why);
        }
        if let Some(why) = self.cannot_store(&key, node.as_ref()) {
            return self.refuse(request, RefusalCode::Conflict, why);
        }
        if self.volumes.len() >= MOST_VOLUMES {
            let why = format!("there are {} disks already", self.volumes.len());
            return self.refuse(request, RefusalCode::Exhausted, why);
        }
        volume.home.clone_from(&node);
        let to = Some(VolumePhase::Available);
        self.happen(Happening::Volume { key: key.clone(), to, node });
        self.draft.volumes.insert(key);
        self.volumes.put(volume);
        self.done(request, "it is made on first use");
    }

    /// Why nobody could store a volume there.
    fn cannot_store(&self, key: &VolumeKey, node: Option<&NodeId>) -> Option<String> {
        let driver = key.driver.name();
        match (key.driver, node) {
            (VolumeDriver::Local | VolumeDriver::Compose, Some(node)) => {
                let slot = self.node_at(node).and_then(|at| self.nodes.get(at.0));
                let Some(slot) = slot else { return Some(format!("there is no node {node}")) };
                let stores = slot.node.facts.drivers.contains(&driver);
                (!stores).then(|| format!("node {node} stores no {driver} volumes"))
            }
            (VolumeDriver::Nfs | VolumeDriver::CephRbd, Some(node)) => {
                Some(format!("a {driver} disk is on no node: leave {node} out"))
            }
            (_, None) => None,
        }
    }

    /// A volume is to go with its data: an order that its node proves, like any removal.
    pub(super) fn delete_volume(&mut self, request: RequestId, key: &VolumeKey) {
        let Some(volume) = self.volumes.get(key).map(Arc::clone) else {
            let why = format!("there is no disk {key}");
            return self.refuse(request, RefusalCode::NotFound, why);
        };
        if let Some(why) = self.in_use(&volume) {
            return self.refuse(request, RefusalCode::Conflict, why);
        }
        if let Some(nodes) = self.buried.get(&key.order_id()) {
            let nodes: Vec<_> = nodes.iter().map(|at| self.node_id(*at).to_string()).collect();
            self.mark(Mark::Idempotent);
            let note = format!("already being deleted on {}", nodes.join(", "));
            return self.done(request, note);
        }
        if !volume.used {
            self.drop_volume(key);
            return self.done(request, "accepted");
        }
        let holders = self.who_deletes(&volume);
        if holders.is_empty() {
            let why =
                format!("no node that stores {} is ready: try again later", key.driver.word());
            return self.refuse(request, RefusalCode::Unavailable, why);
        }
        let to = Some(VolumePhase::Deleting);
        self.happen(Happening::Volume { key: key.clone(), to, node: volume.home.clone() });
        let ready = |at: &NodeIndex| {
            self.nodes.get(at.0).is_some_and(|slot| slot.node.condition == Condition::Ready)
        };
        let away: Vec<_> = holders.iter().filter(|at| !ready(at)).copied().collect();
        for at in &holders {
            let epoch = self.draw_epoch(None);
            let (workload, node) = (key.order_id(), self.node_id(*at));
            self.dig(Grave {
                workload,
                node,
                epoch,
                reserved: Resources::default(),
                version: None,
            });
        }
        let mut volume = Volume::clone(&volume);
        volume.phase = VolumePhase::Deleting;
        volume.updated_at = self.now.wall;
        self.draft.volumes.insert(key.clone());
        self.volumes.put(volume);
        let away: Vec<_> = away.iter().map(|at| self.node_id(*at).to_string()).collect();
        let note = match &*away.join(", ") {
            "" => "accepted".to_owned(),
            away => format!("its data is deleted when {away} is back; until then it is listed"),
        };
        self.done(request, note);
    }

    /// Who uses a volume, in words, if anybody does or may.
    fn in_use(&self, volume: &Volume) -> Option<String> {
        let key = &volume.key;
        let mut users: Vec<_> =
            volume.users.iter().take(MOST_NAMED).map(ToString::to_string).collect();
        if volume.users.len() > MOST_NAMED {
            users.push(format!("{} more", volume.users.len() - MOST_NAMED));
        }
        if !users.is_empty() {
            let (first, all) = (volume.users.first()?, users.join(", "));
            let after = if volume.retain {
                "its data then stays, as its policy says, and can be deleted"
            } else {
                "its data goes with the last of them"
            };
            return Some(format!(
                "disk {key} is used by {all}: delete them first (persys delete {first}); {after}"
            ));
        }
        let Some(held) = self.volumes.spots(key).next() else {
            return self.used_by_orphan(volume);
        };
        let Attachment { node, workload, .. } = &**held;
        Some(format!(
            "disk {key} is still attached on {node} for {workload}, which is deleted: {node} has to \
             say that it is gone, or be removed"
        ))
    }

    /// The nodes that are told to delete the data of a volume.
    pub(super) fn who_deletes(&self, volume: &Volume) -> BTreeSet<NodeIndex> {
        let left = volume.home.iter().chain(&volume.left_on);
        let mut left = left.filter_map(|node| self.node_at(node));
        if volume.key.driver.is_local() {
            return left.collect();
        }
        let driver = volume.key.driver.name();
        let able = self.node_by_id.values().copied().find(|at| {
            self.nodes.get(at.0).is_some_and(|slot| {
                slot.node.condition == Condition::Ready && slot.node.facts.drivers.contains(&driver)
            })
        });
        able.or_else(|| left.next()).into_iter().collect()
    }
}
