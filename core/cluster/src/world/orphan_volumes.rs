//! Volumes of what nobody knows. An orphan is in no record of a volume, and has what it has all the same:
//! nobody else is given what one node at a time may have, and nothing is deleted under it.

use std::sync::Arc;

use persys_model::id::{NodeId, WorkloadId};
use persys_model::spec::Spec;
use persys_model::volume::{Attachment, AttachmentPhase, Volume, VolumeKey, single_attach};

use super::World;
use crate::placement::NodeIndex;

impl World {
    /// Nodes that have a volume for what nobody knows: it may be in use there all the same. Before its
    /// node has said what it is, it may have any.
    pub(super) fn held_by_orphans(
        &self,
        id: &WorkloadId,
        key: &VolumeKey,
    ) -> impl Iterator<Item = NodeId> {
        let others = self.orphans.iter().filter(move |(other, _)| *other != id);
        let nodes = others.flat_map(|(other, nodes)| nodes.iter().map(move |at| (other, at)));
        nodes.filter_map(move |(other, at)| {
            let slot = self.nodes.get(at.0).filter(|slot| !slot.confirmed_gone)?;
            let orphan = slot.orphans.get(other).map(|orphan| orphan.held.spec.as_deref());
            let has = orphan.is_none_or(|spec| spec.is_some_and(|spec| names(spec, key)));
            has.then(|| slot.node.facts.id.clone())
        })
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

/// Whether a spec names this volume.
fn names(spec: &Spec, key: &VolumeKey) -> bool {
    spec.managed_volumes().iter().any(|one| VolumeKey::of(one) == *key)
}
