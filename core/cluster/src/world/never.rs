//! Requests that no node of the cluster could ever run: not for want of room now, but because no machine is
//! large enough, or none offers what they ask for. Reservations, closed nodes, taints and ports pass; these
//! do not.

use persys_model::node::{Node, first_of};
use persys_model::resources::Disk;
use persys_model::spec::Spec;

use super::World;
use persys_model::workload::Desired;

use super::demands::demands;
use super::open::FENCE_LABEL;
use crate::contract::capability;

impl World {
    /// Why no node could ever run `spec`, even empty and open, in words for people. `None` if one could,
    /// and while there are no nodes at all.
    pub fn never_fits(&self, spec: &Spec) -> Option<String> {
        let nodes: Vec<&Node> = self.nodes_known().collect();
        let unfit = |node: &&Node| !lacks(node, spec).is_empty();
        if nodes.is_empty() || !nodes.iter().all(unfit) {
            return None;
        }
        let mut reasons = lacks_everywhere(&nodes, spec);
        if reasons.is_empty() {
            reasons.push("no single node has all that it asks for".to_owned());
        }
        let count = match nodes.len() {
            1 => "the one node of this cluster".to_owned(),
            many => format!("any of the {many} nodes of this cluster"),
        };
        Some(format!("it can never run on {count}: {}", reasons.join("; ")))
    }

    fn nodes_known(&self) -> impl Iterator<Item = &Node> {
        self.node_by_id.values().filter_map(|at| self.nodes.get(at.0)).map(|slot| &*slot.node)
    }
}

/// One thing a spec asks for and a node may lack.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Lack {
    Type,
    Driver(String),
    Constraint(String),
    Cpu,
    Memory,
    Disk(String),
}

fn lacks(node: &Node, spec: &Spec) -> Vec<Lack> {
    let facts = &node.facts;
    let mut lacks = Vec::new();
    if !facts.types.contains(&spec.workload_type()) {
        lacks.push(Lack::Type);
    }
    let drivers = spec.drivers().into_iter().filter(|driver| !facts.drivers.contains(driver));
    lacks.extend(drivers.map(|driver| Lack::Driver(driver.to_string())));
    let mut labels = node.effective_labels();
    if facts.fence {
        labels.insert(FENCE_LABEL.into(), "yes".into());
    }
    capability::label(facts, &mut labels);
    let demands = demands(spec, Desired::Running);
    let unmet = demands.iter().filter(|one| !one.admits(&labels));
    lacks.extend(unmet.map(|one| Lack::Constraint(one.to_string())));
    let (need, all) = (spec.resources.compute, facts.capacity);
    if need.cpu_millicores > all.cpu_millicores {
        lacks.push(Lack::Cpu);
    }
    if need.memory_mib > all.memory_mib {
        lacks.push(Lack::Memory);
    }
    lacks.extend(disk_lacks(node, &spec.resources.disk));
    lacks
}

/// Pools that are not there, or smaller than what is asked of them. A node without pools counts no disk.
fn disk_lacks(node: &Node, disk: &Disk) -> Vec<Lack> {
    let pools = &node.facts.pools;
    let short = |(pool, gib)| {
        let found = first_of(pools, pool);
        let counted = pool.is_some() || !pools.is_empty();
        let enough = found.is_some_and(|found| found.total_gib >= gib);
        let named = pool.map_or_else(|| "default".to_owned(), ToString::to_string);
        (counted && !enough).then_some(Lack::Disk(named))
    };
    disk.iter().filter_map(short).collect()
}

/// What every node lacks, with the most that any of them has.
fn lacks_everywhere(nodes: &[&Node], spec: &Spec) -> Vec<String> {
    let mut common = nodes.first().map(|node| lacks(node, spec)).unwrap_or_default();
    for node in nodes {
        let here = lacks(node, spec);
        common.retain(|lack| here.contains(lack));
    }
    let most = |of: fn(&Node) -> u64| nodes.iter().map(|node| of(node)).max().unwrap_or(0);
    let (need, kind) = (spec.resources.compute, spec.workload_type().word());
    let words = |lack: Lack| match lack {
        Lack::Type => format!("none offers workloads of type {kind}"),
        Lack::Driver(driver) => format!("none has the volume driver {driver}"),
        Lack::Constraint(constraint) => format!("none meets the constraint {constraint}"),
        Lack::Cpu => format!(
            "it asks for {}m cpu and the largest has {}m",
            need.cpu_millicores,
            most(|node| node.facts.capacity.cpu_millicores)
        ),
        Lack::Memory => format!(
            "it asks for {} MiB memory and the largest has {} MiB",
            need.memory_mib,
            most(|node| node.facts.capacity.memory_mib)
        ),
        Lack::Disk(pool) => {
            let asked = spec.resources.disk.iter().find(|(name, _)| {
                name.map_or_else(|| "default".to_owned(), ToString::to_string) == pool
            });
            let gib = asked.map_or(0, |(_, gib)| gib);
            format!("it asks for {gib} GiB in the {pool} pool and none has that much")
        }
    };
    common.into_iter().map(words).collect()
}
