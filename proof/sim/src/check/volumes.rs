//! Volumes: data is never deleted while anybody needs it, what one node at a time may have is on one,
//! and records match decisions.

use std::collections::BTreeSet;

use persys_cluster::record::{Unit, Write};
use persys_model::assignment::Assignment;
use persys_model::id::{NodeId, WorkloadId};
use persys_model::spec::{OnNodeLoss, Spec};
use persys_model::volume::{VolumeKey, VolumePhase, single_attach};
use persys_model::workload::Desired;

use super::Check;
use super::history::workload_after;
use crate::host::Host;
use crate::store::Contents;

impl Check {
    /// Somebody wants an orphan gone with all it has.
    pub(crate) fn condemned(&mut self, node: &NodeId, workload: &WorkloadId) {
        if self.contract.contains(node) {
            self.condemned.insert((node.clone(), workload.clone()));
        }
    }

    /// A node deleted data on behalf of an order about `by`.
    pub(crate) fn data_deleted(
        &mut self,
        now: u64,
        contents: &Contents,
        (node, by): (&NodeId, &WorkloadId),
        key: &VolumeKey,
    ) {
        // A store that went back in time may know again what was given up since.
        if self.store_lost_at.is_some() {
            return;
        }
        if self.condemned.contains(&(node.clone(), by.clone())) {
            // Somebody wants an orphan gone. An agent of the contract removes its data with it.
            return;
        }
        let Some(volume) = contents.volumes.get(key) else { return };
        if volume.home.as_ref() != Some(node) {
            return;
        }
        let lives = |user: &&WorkloadId| {
            let workload = contents.workloads.get(*user);
            workload.is_some_and(|workload| workload.desired != Desired::Deleted)
        };
        let user = volume.users.iter().find(lives);
        let ordered = volume.phase == VolumePhase::Deleting;
        if user.is_some() || (volume.retain && !ordered) {
            self.violate(now, "V1", || {
                format!("{node} deleted {key} for {by}, but {user:?} uses it or it is to be kept")
            });
        }
    }

    /// Something began to run: nobody else has what only one node may have.
    pub(crate) fn one_node_has(&mut self, now: u64, node: usize, id: &WorkloadId, hosts: &[Host]) {
        let thing = hosts.get(node).and_then(|host| host.runtime.things.get(id));
        let Some(thing) = thing.filter(|thing| thing.runs()) else { return };
        let keys = singles(&thing.spec);
        if keys.is_empty() {
            return;
        }
        // Once the store has lost something, a node may have what nobody knows of. What was known as
        // an orphan, by its spec, when this was put here is no such thing.
        let lost = self.store_lost_at.is_some();
        let known = self.orphans_at.get(&thing.epoch).cloned().unwrap_or_default();
        // An agent of the contract starts all it has when its machine comes back, before anybody can tell
        // it that the machine was given up and its work moved.
        let back = |host: &Host| host.contract.is_some() && host.given_up;
        let here = hosts.get(node).is_some_and(back);
        let others = hosts.iter().enumerate().filter(|(number, _)| *number != node);
        for (number, host) in others.filter(|(_, host)| !here && !back(host)) {
            let shares = |(other, thing): (&WorkloadId, &crate::runtime::Thing)| {
                let spec = host.disk.ledger.intents.get(other).map(|intent| intent.spec.is_some());
                let orphan = known.contains(&(host.id.clone(), other.clone()));
                let counts = !lost || (orphan && spec == Some(true));
                (counts && !singles(&thing.spec).is_disjoint(&keys)).then(|| other.clone())
            };
            if let Some(other) = host.runtime.running().find_map(shares) {
                self.violate(now, "V3", || {
                    format!("{id} on n{node} and {other} on n{number} have {keys:?} at once")
                });
            }
        }
    }

    /// A kept volume is forgotten only when its node has proved that its data is gone.
    pub(super) fn volume_gone(
        &mut self,
        now: u64,
        (before, unit): (&Contents, &Unit),
        key: &VolumeKey,
    ) {
        self.stale_sums = true;
        let Some(volume) = before.volumes.get(key).filter(|volume| volume.retain) else { return };
        let Some(home) = &volume.home else { return };
        let known = before.nodes.contains_key(home);
        if !volume.used || !known || self.rebuilding(now) {
            return;
        }
        let left = unit.writes.iter().any(|w| matches!(w, Write::DeleteNode(id) if id == home));
        let order = before.graves.get(&(home.clone(), key.order_id()));
        let proved = order.is_some_and(|g| self.said_removed(home, &g.workload, g.epoch));
        if !left && !proved {
            self.violate(now, "V1", || format!("{key} on {home} is forgotten with its data there"));
        }
    }

    /// An attachment is forgotten only with the copy that had it.
    pub(super) fn attachment_gone(
        &mut self,
        now: u64,
        (before, unit): (&Contents, &Unit),
        (node, id): (&NodeId, &WorkloadId),
        key: &VolumeKey,
    ) {
        self.stale_sums = true;
        let mut after = before.clone();
        after.apply(unit);
        if may_hold(&after, node, id) && !self.rebuilding(now) {
            self.violate(now, "V2", || {
                format!("that {id} has {key} on {node} is forgotten before {node} gave it up")
            });
        }
    }

    /// What is recorded of volumes matches what is decided.
    pub(super) fn records_match(&mut self, now: u64, contents: &Contents) {
        if self.rebuilding(now) {
            return;
        }
        for (node, id, key) in contents.attachments.keys() {
            if !contents.volumes.contains_key(key) || !may_hold(contents, node, id) {
                self.violate(now, "V4", || format!("{id} has {key} on {node} for no reason"));
            }
        }
        for (id, workload) in &contents.workloads {
            for key in workload.spec.managed_volumes().iter().map(VolumeKey::of) {
                let volume = contents.volumes.get(&key);
                if volume.is_none_or(|volume| !volume.users.contains(id)) {
                    self.violate(now, "V4", || format!("{key} does not know that {id} names it"));
                }
            }
        }
    }

    /// Data that is on one node keeps a workload from starting without it on another.
    pub(super) fn put_where_its_data_is(
        &mut self,
        now: u64,
        (before, unit): (&Contents, &Unit),
        id: &WorkloadId,
        node: &NodeId,
    ) {
        let Some(spec) = workload_after(before, unit, id) else { return };
        if spec.placement.on_node_loss == OnNodeLoss::Move || self.rebuilding(now) {
            return;
        }
        for key in spec.managed_volumes().iter().map(VolumeKey::of) {
            let home = before.volumes.get(&key).and_then(|volume| volume.home.as_ref());
            let home = home.filter(|home| before.nodes.contains_key(*home));
            if let Some(home) = home.filter(|home| *home != node) {
                self.violate(now, "V4", || format!("{id} was put on {node}, {key} is on {home}"));
            }
        }
    }
}

/// Volumes of a spec that one node at a time may have.
pub(super) fn singles(spec: &Spec) -> BTreeSet<VolumeKey> {
    let all = spec.managed_volumes().iter();
    all.filter(|one| single_attach(one.driver, one.access)).map(VolumeKey::of).collect()
}

/// Whether a node may have a copy of a workload.
fn may_hold(contents: &Contents, node: &NodeId, id: &WorkloadId) -> bool {
    let kept = |assignment: &Assignment| {
        assignment.former.contains_key(node)
            || assignment.place.as_ref().is_some_and(|place| place.node == *node)
    };
    contents.graves.contains_key(&(node.clone(), id.clone()))
        || contents.assignments.get(id).is_some_and(|assignment| kept(assignment))
}

/// Nodes that alone can run a workload, as the records of its volumes tell.
pub(super) fn homes(contents: &Contents, id: &WorkloadId, spec: &Spec) -> BTreeSet<NodeId> {
    let mut homes = BTreeSet::new();
    for asked in spec.managed_volumes() {
        let key = VolumeKey::of(asked);
        let Some(volume) = contents.volumes.get(&key) else { continue };
        let shared = volume.users.iter().any(|user| user != id);
        let others = contents.attachments.values();
        let mut others = others.filter(|one| one.volume == key && one.workload != *id);
        if !asked.driver.is_local() {
            homes.extend(others.map(|one| one.node.clone()));
        } else if let Some(home) = &volume.home {
            homes.insert(home.clone());
        } else if let Some(other) = others.next().filter(|_| shared) {
            homes.insert(other.node.clone());
        }
    }
    homes
}
