//! Reading the cluster: what lists, details and explanations are made from.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_model::assignment::{Assignment, UpdateState};
use persys_model::entry::Entries;
use persys_model::fetched::Fetched;
use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::inventory::Report;
use persys_model::mode::Mode;
use persys_model::node::{Condition, Node};
use persys_model::resources::Compute;
use persys_model::retry::Retry;
use persys_model::spec::WorkloadType;
use persys_model::task::Task;
use persys_model::time::WallMillis;
use persys_model::token::Term;
use persys_model::workload::Workload;

use super::World;
use super::demands::{demands, request};
use super::slots::NodeSlot;
use crate::placement::{Explanation, NodeIndex, Reason};
use crate::record::Head;

/// Nodes that are quoted on why they cannot run something.
const MISSING_SAID: usize = 3;

/// A node as it is shown.
#[derive(Debug, Clone, Copy)]
pub struct NodeView<'a> {
    /// The record.
    pub node: &'a Node,
    /// What is not reserved.
    pub free: Compute,
    /// What is not reserved of all its pools together.
    pub free_disk_gib: u64,
    /// What the machine really uses.
    pub used: Compute,
    /// Measured use of the file systems behind its pools; 0 if its agent does not say.
    pub used_disk_gib: u64,
    /// Why its agent takes nothing new at present, if so.
    pub busy: Option<&'a str>,
    /// Why orders cannot be delivered to it, if so.
    pub unreachable: Option<&'a str>,
    /// Runtimes that do not answer, with the cause.
    pub down: &'a BTreeMap<WorkloadType, Arc<str>>,
    /// How many workloads have their place here.
    pub workloads: usize,
}

/// A workload as it is shown.
#[derive(Debug, Clone, Copy)]
pub struct WorkloadView<'a> {
    /// What the user wants.
    pub workload: &'a Workload,
    /// What became of it.
    pub assignment: &'a Assignment,
    /// Its failures, if it has any.
    pub retry: Option<&'a Retry>,
    /// The last word of its node.
    pub seen: Option<&'a Report>,
    /// Its node does not answer: what is said of it may no longer be so.
    pub uncertain: bool,
    /// When this scheduler learned that the node had taken in the present decision; `None` while it
    /// has not, and in a follower's copy.
    pub admitted: Option<WallMillis>,
    /// The node's last action for the present decision.
    pub task: Option<&'a Task>,
    /// True if it has no ports and no name: it is in shadow, or its present decision was made there.
    pub shadow: bool,
}

impl WorkloadView<'_> {
    /// The state of its update, as every page shows it beside the status; `None` while there is none.
    #[must_use]
    pub fn update_state(&self) -> Option<UpdateState> {
        update_state(self.workload, self.assignment)
    }

    /// The part of its image that is on its node, while it is pulled.
    #[must_use]
    pub fn pull(&self) -> Option<Fetched> {
        let place = self.assignment.place.as_ref()?;
        self.seen.filter(|seen| seen.epoch == place.epoch && !self.uncertain)?.fetched
    }

    /// The same in a sentence; empty while there is none.
    #[must_use]
    pub fn update_message(&self) -> String {
        let (workload, assignment) = (self.workload, self.assignment);
        let present = workload.history.number();
        let (Some(state), update) = (self.update_state(), assignment.update.as_ref()) else {
            return String::new();
        };
        let runs_on = assignment.place.as_ref().is_some_and(|place| place.version.is_some());
        let before = update.map_or(0, |update| update.number);
        let goes_on = if runs_on { format!("; revision {before} runs on") } else { String::new() };
        let failed = update.and_then(|update| update.failed.as_ref());
        match (state, failed) {
            (UpdateState::RolledBack, _) => {
                let to = workload.history.rolled_back_to().unwrap_or_default();
                format!("revision {present} is revision {to} again")
            }
            (_, Some(failed)) => {
                format!("revision {present} failed: {}{goes_on}", failed.failure.parts().0)
            }
            (_, None) => {
                format!("revision {present} takes the place of revision {before}{goes_on}")
            }
        }
    }

    /// The revision its node is told to run, and the number of it.
    #[must_use]
    pub fn running(&self) -> (&RevisionId, u32) {
        let (workload, assignment) = (self.workload, self.assignment);
        let history = &workload.history;
        let Some(version) = assignment.place.as_ref().and_then(|place| place.version.as_ref())
        else {
            return (&workload.revision, history.number());
        };
        let update = assignment.update.as_ref();
        let number = match update.filter(|update| update.from.revision == version.revision) {
            Some(update) => update.number,
            None => history.earlier().last().map_or(1, |one| one.number),
        };
        (&version.revision, number)
    }
}

impl World {
    /// The mode, and why.
    pub fn mode(&self) -> (Mode, &str) {
        (self.mode, &self.mode_why)
    }

    /// The leadership as agents see it.
    pub fn term(&self) -> Term {
        self.term
    }

    /// The counters after the last unit.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Whether so many nodes are silent that nothing is moved.
    pub fn brake(&self) -> bool {
        self.brake
    }

    /// Records that are neither workloads nor nodes.
    pub fn entries(&self) -> &Arc<Entries> {
        &self.entries
    }

    /// Nodes whose inventory was heard in recovery.
    pub fn heard(&self) -> impl Iterator<Item = &NodeId> {
        self.heard.keys()
    }

    /// All nodes by name.
    pub fn nodes(&self) -> impl Iterator<Item = NodeView<'_>> {
        self.node_by_id.keys().filter_map(|id| self.node(id))
    }

    /// One node.
    pub fn node(&self, id: &NodeId) -> Option<NodeView<'_>> {
        let at = self.node_at(id)?;
        let slot = self.nodes.get(at.0)?;
        Some(NodeView {
            node: &slot.node,
            free: self.index.free(at),
            free_disk_gib: self.free_disk(at, &slot.node),
            used: slot.usage.used,
            used_disk_gib: slot.usage.used_disk_gib,
            busy: slot.busy.as_deref(),
            unreachable: self.witness.isolated(id).or(slot.reach.trouble()).map(|why| &**why),
            down: &slot.down,
            workloads: slot.assigned.len(),
        })
    }

    /// Pools of a node that have less for workloads than their size, a sentence each.
    pub fn shrunk_pools(&self, id: &NodeId) -> Vec<String> {
        let slot = self.node_at(id).and_then(|at| self.nodes.get(at.0));
        let pools = slot.iter().flat_map(|slot| &slot.node.facts.pools);
        let firsts = pools.filter(|pool| pool.shares.is_none());
        firsts.filter_map(|pool| slot?.shrunk(Some(&pool.name))).collect()
    }

    /// Unreserved disk of all pools of a node together, each file system counted once.
    pub(super) fn free_disk(&self, at: NodeIndex, node: &Node) -> u64 {
        let pools = node.facts.pools.iter().filter(|pool| pool.shares.is_none());
        let free = pools.filter_map(|pool| self.index.free_disk(at, Some(&pool.name)));
        free.fold(0, u64::saturating_add)
    }

    /// All workloads by name.
    pub fn workloads(&self) -> impl Iterator<Item = WorkloadView<'_>> {
        self.workload_by_id.keys().filter_map(|id| self.workload(id))
    }

    /// One workload.
    pub fn workload(&self, id: &WorkloadId) -> Option<WorkloadView<'_>> {
        let at = self.workload_by_id.get(id)?;
        let slot = self.workloads.get(at.0)?;
        let place = slot.assignment.place.as_ref();
        let uncertain = place
            .and_then(|place| self.node(&place.node))
            .is_some_and(|node| node.node.condition != Condition::Ready);
        Some(WorkloadView {
            workload: &slot.workload,
            assignment: &slot.assignment,
            retry: slot.retry.as_deref(),
            seen: slot.seen.as_ref(),
            uncertain,
            admitted: slot
                .admitted
                .filter(|(epoch, _)| place.is_some_and(|place| place.epoch == *epoch))
                .map(|(_, at)| at),
            task: slot.task().map(Arc::as_ref),
            shadow: self.is_hidden(slot),
        })
    }

    /// Why no node takes a workload as it is asked for now, filter by filter.
    pub fn explain(&self, id: &WorkloadId) -> Option<Explanation> {
        let at = self.workload_by_id.get(id)?;
        Some(self.explain_wish(&self.workloads.get(at.0)?.workload))
    }

    /// Why no node takes this.
    pub(super) fn explain_wish(&self, workload: &Workload) -> Explanation {
        let spec = &workload.spec;
        let demands = demands(spec, workload.desired);
        let (ports, drivers) = (self.ports_of(spec), spec.drivers());
        let mut why = self.index.explain(&request(spec, &demands, &ports, &drivers, &[]));
        let kind = spec.workload_type();
        if why.refusals.iter().any(|refusal| refusal.reason == Reason::WorkloadType(kind)) {
            let said = |slot: &NodeSlot| {
                let why = slot.node.facts.missing.get(&kind)?;
                Some((slot.node.facts.id.clone(), Arc::clone(why)))
            };
            let nodes = self.node_by_id.values().filter_map(|at| self.nodes.get(at.0));
            why.missing = nodes.filter_map(said).take(MISSING_SAID).collect();
        }
        why
    }
}

/// The state of an update, from the records of its workload.
pub(super) fn update_state(workload: &Workload, assignment: &Assignment) -> Option<UpdateState> {
    let up = workload.desired.is_up();
    match &assignment.update {
        Some(update) if up => Some(update.state()),
        Some(_) | None => workload.history.rolled_back_to().map(|_| UpdateState::RolledBack),
    }
}
