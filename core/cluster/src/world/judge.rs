//! Why a workload has no room, node by node: for people who ask.

use std::cmp::Reverse;
use std::sync::Arc;

use persys_model::id::{NodeId, WorkloadId};
use persys_model::node::Condition;
use persys_model::spec::HostPort;

use super::World;
use super::demands::{demands, request};
use super::open::PAUSE_LABEL;
use super::slots::{NodeSlot, WorkloadIndex, WorkloadSlot};
use crate::placement::{Explanation, NodeIndex, Own, Reason, Suggestion};

/// Above this many nodes a waiting workload's reason is a word only; the full explanation is
/// worked out when somebody asks.
const EXPLAIN_AT_ONCE: usize = 256;

/// How the fleet judges one workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Counts, and what would help.
    pub explanation: Explanation,
    /// The same suggestions as sentences, with the names of nodes.
    pub suggestions: Vec<String>,
    /// Node by node, those that come closest first.
    pub verdicts: Vec<Verdict>,
}

/// How one node judges one workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The node.
    pub node: NodeId,
    /// Every rule that refuses, with numbers; none if it fits.
    pub faults: Vec<String>,
}

impl World {
    /// How all nodes judge a workload as it is asked for now, at most `most` of them by name. What
    /// it holds itself does not stand in its way.
    pub fn judge(&self, id: &WorkloadId, most: usize) -> Option<Judged> {
        let slot = self.workloads.get(self.workload_by_id.get(id)?.0)?;
        Some(self.judge_slot(slot, most))
    }

    /// What a workload holds: it would be free for its next version.
    pub(super) fn own<'a>(&self, slot: &'a WorkloadSlot) -> Option<Own<'a>> {
        let place = slot.assignment.place.as_ref()?;
        let node = self.node_at(&place.node)?;
        Some(Own { node, reserved: &place.reserved, ports: &place.ports })
    }

    pub(super) fn judge_slot(&self, slot: &WorkloadSlot, most: usize) -> Judged {
        let spec = &slot.workload.spec;
        let demands = demands(spec, slot.workload.desired);
        let (ports, drivers) = (self.ports_of(spec), spec.drivers());
        let request = request(spec, &demands, &ports, &drivers, &[]);
        let explanation = self.index.explain(&request);
        let homes = self.homes(slot);
        let home = homes.keys().next();
        let mut judged: Vec<(NodeId, NodeIndex, Vec<Reason>)> = self
            .index
            .verdicts(&request, self.own(slot))
            .into_iter()
            .map(|verdict| (self.node_id(verdict.node), verdict.node, verdict.faults))
            .collect();
        // A node without its data is as far away as can be.
        judged.sort_by_cached_key(|(node, _, faults)| {
            (home.is_some_and(|home| home != node), faults.len(), node.clone())
        });
        judged.truncate(most);
        let verdicts = judged.into_iter().map(|(node, at, faults)| {
            let mut faults: Vec<_> =
                faults.iter().map(|fault| self.fault_of(at, fault, slot)).collect();
            if let Some(home) = home.filter(|home| **home != node) {
                faults.insert(0, format!("its data is on {home}"));
            }
            Verdict { node, faults }
        });
        let suggestions = explanation.suggestions.iter().map(|one| self.suggestion(one)).collect();
        Judged { suggestions, verdicts: verdicts.collect(), explanation }
    }

    /// The reason a workload has no room as things are now, in a sentence.
    pub fn why_waits(&self, id: &WorkloadId) -> Option<String> {
        self.workload_by_id.get(id).map(|at| self.why_no_node(*at))
    }

    /// The reason no node takes a workload, in a sentence.
    pub(super) fn why_no_node(&self, at: WorkloadIndex) -> String {
        let Some(slot) = self.workloads.get(at.0) else { return String::new() };
        if let Some(why) = self.says_home(slot) {
            return why;
        }
        if self.node_by_id.len() > EXPLAIN_AT_ONCE {
            return "no node fits".to_owned();
        }
        self.explain_wish(&slot.workload).to_string()
    }

    fn fault_of(&self, at: NodeIndex, fault: &Reason, asks: &WorkloadSlot) -> String {
        match fault {
            Reason::Closed => self.closed_because(at),
            Reason::Port(port) => match self.holder_of(at, *port, asks) {
                Some(holder) => format!("port {port} is taken by {holder}"),
                None => fault.of_one(),
            },
            Reason::WorkloadType(kind) => {
                let slot = self.nodes.get(at.0);
                let lacks = slot.and_then(|slot| {
                    slot.down.get(kind).or_else(|| slot.node.facts.missing.get(kind))
                });
                lacks.map_or_else(|| fault.of_one(), |why| format!("{}: {why}", fault.of_one()))
            }
            Reason::Constraint(_, asked) if &*asked.key == PAUSE_LABEL => {
                "runs an agent that cannot pause".to_owned()
            }
            Reason::Driver(_)
            | Reason::Constraint(..)
            | Reason::Taint(_)
            | Reason::Cpu(_)
            | Reason::Memory(_) => fault.of_one(),
            Reason::Disk(pool, _) => {
                let shrunk = self.nodes.get(at.0).and_then(|slot| slot.shrunk(pool.as_ref()));
                shrunk.map_or_else(|| fault.of_one(), |why| format!("{}: {why}", fault.of_one()))
            }
        }
    }

    fn out_of_reach<'a>(&'a self, slot: &'a NodeSlot) -> Option<&'a Arc<str>> {
        self.witness.isolated(&slot.node.facts.id).or(slot.reach.trouble())
    }

    fn closed_because(&self, at: NodeIndex) -> String {
        let Some(slot) = self.nodes.get(at.0) else { return Reason::Closed.of_one() };
        match (slot.node.condition, &slot.node.drain) {
            (Condition::Lost, _) => "is lost: it does not answer".to_owned(),
            (Condition::NotReady, _) => "is not ready: its heartbeats stay away".to_owned(),
            (Condition::Ready, Some(why)) if why.is_empty() => "is being drained".to_owned(),
            (Condition::Ready, Some(why)) => format!("is being drained: {why}"),
            (Condition::Ready, None) => match (self.out_of_reach(slot), &slot.busy) {
                (Some(why), _) => format!("orders cannot be delivered: {why}"),
                (None, Some(why)) => format!("takes nothing new: {why}"),
                (None, None) => Reason::Closed.of_one(),
            },
        }
    }

    /// Who has a port on a node, if it is a workload whose place is there.
    fn holder_of(&self, at: NodeIndex, port: HostPort, asks: &WorkloadSlot) -> Option<WorkloadId> {
        self.nodes.get(at.0)?.assigned.iter().find_map(|other| {
            let other = self.workloads.get(other.0)?;
            let place = other.assignment.place.as_ref()?;
            let holds = place.ports.contains(&port) && other.workload.id != asks.workload.id;
            holds.then(|| other.workload.id.clone())
        })
    }

    fn suggestion(&self, suggestion: &Suggestion) -> String {
        let node = match suggestion {
            Suggestion::LessCpu { node, .. }
            | Suggestion::LessMemory { node, .. }
            | Suggestion::LessCompute { node, .. }
            | Suggestion::LessDisk { node, .. } => Some(*node),
            Suggestion::WithoutConstraint { .. }
            | Suggestion::Tolerate { .. }
            | Suggestion::OtherPort { .. }
            | Suggestion::OpenNode { .. }
            | Suggestion::BiggerThanAnyNode { .. } => None,
        };
        match node {
            Some(node) => format!("{suggestion} on {}", self.node_id(node)),
            None => suggestion.to_string(),
        }
    }

    /// Workloads that hold most of a node, the largest first: what could make room.
    pub fn largest_on(&self, id: &NodeId, most: usize) -> Vec<WorkloadId> {
        let Some(slot) = self.node_at(id).and_then(|at| self.nodes.get(at.0)) else {
            return Vec::new();
        };
        let mut held: Vec<_> = slot
            .assigned
            .iter()
            .filter_map(|at| {
                let slot = self.workloads.get(at.0)?;
                let held = slot.assignment.place.as_ref()?.reserved.compute;
                Some((Reverse(held.memory_mib), slot.workload.id.clone()))
            })
            .collect();
        held.sort();
        held.into_iter().map(|(_, id)| id).take(most).collect()
    }
}
