//! What fits where, counted anew from the records.

use std::collections::{BTreeMap, BTreeSet};

use persys_model::id::{NodeId, PoolName, WorkloadId};
use persys_model::labels::TaintEffect;
use persys_model::node::{Node, first_of};
use persys_model::resources::{Compute, Disk, Resources};
use persys_model::spec::{Class, HostPort, Spec};

use persys_model::workload::Desired;

use crate::store::Contents;

/// What is held on one node, and of what it is made up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Taken {
    pub(crate) compute: Compute,
    /// By pool; the node's default pool under its own name.
    pub(crate) disk: BTreeMap<PoolName, u64>,
}

impl Taken {
    fn add(&mut self, node: &Node, resources: &Resources) {
        self.compute = self.compute.plus(resources.compute);
        for (pool, gib) in by_pool(node, &resources.disk) {
            *self.disk.entry(pool).or_default() += gib;
        }
    }

    /// What is too much on this node, if anything.
    pub(crate) fn excess(&self, node: &Node) -> Option<String> {
        if !node.facts.capacity.covers(self.compute) {
            return Some(format!("{:?} of {:?}", self.compute, node.facts.capacity));
        }
        for (pool, gib) in &self.disk {
            let total = node.facts.pools.iter().find(|p| p.name == *pool).map(|p| p.total_gib);
            if total.is_none_or(|total| total < *gib) {
                return Some(format!("{gib} GiB of {total:?} in {pool}"));
            }
        }
        None
    }

    /// Whether more is taken than in `before`.
    pub(crate) fn grew(&self, before: &Self) -> bool {
        !before.compute.covers(self.compute)
            || self
                .disk
                .iter()
                .any(|(pool, gib)| before.disk.get(pool).copied().unwrap_or(0) < *gib)
    }
}

/// Disk by the pools of this node; a node without pools counts none.
fn by_pool(node: &Node, disk: &Disk) -> Vec<(PoolName, u64)> {
    let Some(default) = node.facts.pools.first() else { return Vec::new() };
    let first = |pool| first_of(&node.facts.pools, pool).unwrap_or(default).name.clone();
    disk.iter().map(|(pool, gib)| (first(pool), gib)).collect()
}

/// What is held on every node: places, earlier copies, graves.
pub(crate) fn sums(contents: &Contents) -> BTreeMap<NodeId, Taken> {
    let mut sums: BTreeMap<NodeId, Taken> = BTreeMap::new();
    let mut add = |id: &NodeId, resources: &Resources| {
        if let Some(node) = contents.nodes.get(id) {
            sums.entry(id.clone()).or_default().add(node, resources);
        }
    };
    for assignment in contents.assignments.values() {
        if let Some(place) = &assignment.place {
            add(&place.node, &place.reserved);
        }
        for (node, former) in &assignment.former {
            add(node, &former.reserved);
        }
    }
    for grave in contents.graves.values() {
        add(&grave.node, &grave.reserved);
    }
    sums
}

/// Why nothing of this spec may be put on this node, whatever room there is.
pub(crate) fn unsuited(spec: &Spec, node: &Node) -> Option<&'static str> {
    if !node.is_open() {
        return Some("it takes no work");
    }
    if !node.facts.types.contains(&spec.workload_type()) {
        return Some("it cannot run this kind");
    }
    if !spec.drivers().iter().all(|driver| node.facts.drivers.contains(driver)) {
        return Some("it lacks a storage driver");
    }
    if spec.placement.class == Class::Exclusive && !node.facts.fence {
        return Some("its fence does not work");
    }
    let labels = node.effective_labels();
    if !spec.placement.constraints.iter().all(|constraint| constraint.admits(&labels)) {
        return Some("its labels do not fit");
    }
    let repelled = node.taints.iter().any(|taint| {
        taint.effect == TaintEffect::NoSchedule
            && !spec.placement.tolerations.iter().any(|toleration| toleration.covers(taint))
    });
    if repelled {
        return Some("its taints are not tolerated");
    }
    None
}

/// Ports taken on a node by others than `except`.
fn ports(contents: &Contents, node: &NodeId, except: &WorkloadId) -> BTreeSet<HostPort> {
    let mut taken = BTreeSet::new();
    for assignment in contents.assignments.values() {
        let here = assignment.place.as_ref().is_some_and(|place| place.node == *node)
            || assignment.former.contains_key(node);
        if here
            && assignment.workload != *except
            && let Some(workload) = contents.workloads.get(&assignment.workload)
            // A decision made in shadow holds no port.
            && assignment.place.as_ref().is_none_or(|place| !place.shadow)
        {
            taken.extend(workload.spec.host_ports());
        }
    }
    taken
}

/// A node that has room for this workload and suits it.
pub(crate) fn home_for(contents: &Contents, id: &WorkloadId, spec: &Spec) -> Option<NodeId> {
    let mut without = contents.clone();
    let data_on = without.assignments.remove(id).and_then(|assignment| assignment.data_on.clone());
    let sums = sums(&without);
    let homes = super::volumes::homes(contents, id, spec);
    let workload = contents.workloads.get(id);
    let pauses = workload.is_some_and(|workload| workload.desired == Desired::Paused);
    let hidden = super::shadow::in_shadow(contents, spec);
    let wanted = if hidden { Vec::new() } else { spec.host_ports() };
    contents
        .nodes
        .values()
        .filter(|node| {
            data_on.is_none() || !spec.stays_with_node() || data_on == Some(node.facts.id.clone())
        })
        .filter(|node| node.facts.pauses || !pauses)
        .filter(|node| homes.iter().all(|home| *home == node.facts.id))
        .find(|node| {
            let orphans = contents.drifts.keys().any(|(at, _, _)| *at == node.facts.id);
            let mut taken = sums.get(&node.facts.id).cloned().unwrap_or_default();
            taken.add(node, &spec.resources);
            let ports = ports(contents, &node.facts.id, id);
            !orphans
                && unsuited(spec, node).is_none()
                && taken.excess(node).is_none()
                && wanted.iter().all(|port| !ports.contains(port))
        })
        .map(|node| node.facts.id.clone())
}
