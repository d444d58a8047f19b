//! Volumes of what nobody knows. An orphan is in no record of a volume, and has what it has all the same:
//! nobody else is given what one node at a time may have, and nothing is deleted under it.

use std::sync::Arc;

use persys_model::id::{NodeId, WorkloadId};
use persys_model::spec::Spec;
use persys_model::volume::{Attachment, AttachmentPhase, Volume, VolumeKey, single_attach};

use super::World;
use crate::placement::NodeIndex;

impl World {
    /// Nodes that have a volume for what nobody knows: it may be in use there all the same.
    pub(super) fn held_by_orphans(
        &self,
        id: &WorkloadId,
        key: &VolumeKey,
    ) -> impl Iterator<Item = NodeId> {
        let others = self.orphan_spots().filter(move |(other, _)| *other != id);
        let off = |at: NodeIndex| self.nodes.get(at.0).is_none_or(|slot| slot.confirmed_gone);
        let may_have =
            others.filter(move |(other, at)| !off(*at) && self.may_have(other, *at, key));
        may_have.map(|(_, at)| self.node_id(at))
    }

    fn orphan_spots(&self) -> impl Iterator<Item = (&WorkloadId, NodeIndex)> {
        self.orphans.iter().flat_map(|(id, nodes)| nodes.iter().map(move |at| (id, *at)))
    }

    /// Whether an orphan may have a volume. Before its node has said what it is, it may have any. Of one
    /// that is known by its labels alone nobody will ever say: it may have what is on its node, and
    /// shared storage does not let itself be taken or deleted under anybody.
    fn may_have(&self, id: &WorkloadId, at: NodeIndex, key: &VolumeKey) -> bool {
        let Some(orphan) = self.nodes.get(at.0).and_then(|slot| slot.orphans.get(id)) else {
            return true;
        };
        match &orphan.held.spec {
            Some(spec) => spec.managed_volumes().iter().any(|one| VolumeKey::of(one) == *key),
            None => key.driver.is_local(),
        }
    }

    /// Which orphan may use a volume that is to be deleted, in words, if any does.
    pub(super) fn used_by_orphan(&self, volume: &Volume) -> Option<String> {
        let key = &volume.key;
        let told = self.who_deletes(volume);
        let mut near =
            self.orphan_spots().filter(|(_, at)| !key.driver.is_local() || told.contains(at));
        let (id, at) = near.find(|(id, at)| self.may_have(id, *at, key))?;
        let node = self.node_id(at);
        Some(format!(
            "{node} has a workload {id} that nobody here knows and that may use disk {key}: adopt it \
             or delete it first"
        ))
    }

    /// What keeps an orphan from being left alone: somebody wants data gone that it may use, and neither
    /// would ever come to an end.
    pub(super) fn in_the_way(&self, id: &WorkloadId, at: NodeIndex) -> Option<String> {
        let ordered = self.buried.iter().filter_map(|(name, nodes)| {
            let key = VolumeKey::ordered_by(name)?;
            (!key.driver.is_local() || nodes.contains(&at)).then_some(key)
        });
        let key = ordered.into_iter().find(|key| self.may_have(id, at, key))?;
        Some(format!(
            "disk {key} is being deleted, and {id} may use it: adopt it, and the data stays, or \
             delete it"
        ))
    }

    /// What keeps this spec from a node: a volume that one node at a time may have, and who has it.
    pub(super) fn had_elsewhere(
        &self,
        id: &WorkloadId,
        spec: &Spec,
        node: &NodeId,
    ) -> Option<String> {
        let singles = spec.managed_volumes().iter();
        let mut singles = singles.filter(|one| single_attach(one.driver, one.access));
        singles.find_map(|asked| {
            let key = VolumeKey::of(asked);
            let has = |one: &&Arc<Attachment>| one.workload != *id && one.node != *node;
            let Attachment { node, workload, .. } = &**self.volumes.spots(&key).find(has)?;
            Some(format!(
                "one node at a time may have {key}, and {node} has it for {workload}: delete that \
                 first, or this"
            ))
        })
    }

    /// An orphan is ordered away. What one node at a time may have of it stays there until its node
    /// proves that it is gone.
    pub(super) fn orphan_leaves(&mut self, at: NodeIndex, id: &WorkloadId, spec: &Spec) {
        let (node, now) = (self.node_id(at), self.now.wall);
        for asked in spec.managed_volumes() {
            let key = VolumeKey::of(asked);
            if !single_attach(asked.driver, asked.access) {
                continue;
            }
            if self.volumes.get(&key).is_none() {
                self.volumes.put(Volume { used: true, ..Volume::new(asked, now) });
            }
            self.draft.volumes.insert(key.clone());
            self.draft.attachments.insert((key.clone(), node.clone(), id.clone()));
            self.volumes.attach(Arc::new(Attachment {
                node: node.clone(),
                workload: id.clone(),
                volume: key,
                mount_path: Arc::clone(&asked.mount_path),
                read_only: asked.read_only,
                phase: AttachmentPhase::Detaching,
                last_error: Arc::from(""),
                since: now,
                created_at: now,
            }));
        }
    }
}
