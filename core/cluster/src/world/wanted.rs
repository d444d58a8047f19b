//! The World's wish for one workload on one node, for those who speak with agents that know no
//! decisions.

use std::sync::Arc;

use persys_model::assignment::Version;
use persys_model::command::{Apply, Command, Order};
use persys_model::event::Happening;
use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::mode::Mode;
use persys_model::phase::Phase;
use persys_model::spec::Spec;
use persys_model::token::Epoch;
use persys_model::workload::Desired;

use super::World;
use super::slots::WorkloadIndex;
use crate::contract::{OrderContext, has_data};

/// The wish for one workload on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// Its place: the node is to have it.
    Here {
        /// The decision.
        epoch: Epoch,
        /// The version its node was told.
        revision: RevisionId,
        /// What runs.
        spec: Arc<Spec>,
        /// Running or at rest.
        run: bool,
        /// Where it is in its life.
        phase: Phase,
    },
    /// The node is to have it no more.
    Gone {
        /// The decision.
        epoch: Epoch,
        /// True if the node is still its place; otherwise it is a former copy or a grave.
        placed: bool,
    },
    /// It is known and has nothing to do with this node.
    Elsewhere(&'a Arc<Spec>),
    /// Nobody knows it.
    Unknown,
}

impl World {
    /// The wish for a workload on a node.
    pub fn wanted_on(&self, node: &NodeId, workload: &WorkloadId) -> Wanted<'_> {
        let slot = self.node_at(node).and_then(|at| self.nodes.get(at.0));
        let grave = slot.and_then(|slot| slot.graves.get(workload));
        if let Some(grave) = grave {
            return Wanted::Gone { epoch: grave.epoch, placed: false };
        }
        let known = self.workload_by_id.get(workload).and_then(|at| self.workloads.get(at.0));
        let Some(known) = known else { return Wanted::Unknown };
        if let Some(former) = known.assignment.former.get(node) {
            return Wanted::Gone { epoch: former.epoch, placed: false };
        }
        let (intent, assignment) = (&known.workload, &known.assignment);
        let place = assignment.place.as_ref().filter(|place| place.node == *node);
        let Some(place) = place else { return Wanted::Elsewhere(&intent.spec) };
        let epoch = place.epoch;
        if intent.desired == Desired::Deleted {
            return Wanted::Gone { epoch, placed: true };
        }
        let (revision, spec) = known.ordered(place);
        let (run, phase) = (known.is_to_run(), assignment.phase);
        Wanted::Here { epoch, revision, spec, run, phase }
    }

    /// All that a contract agent's order needs beside itself.
    pub fn context_of(&self, node: &NodeId, command: &Command) -> OrderContext {
        let removes = matches!(command.order, Order::Remove { .. });
        let superseded = removes
            && matches!(
                self.wanted_on(node, &command.workload),
                Wanted::Here { epoch, .. } if epoch > command.epoch
            );
        OrderContext { at_rest: self.at_rest(node, &command.workload), superseded }
    }

    /// The copy of a workload on a node, at rest, as it was last described: an order for agents that
    /// cannot remove a copy and keep its data.
    fn at_rest(&self, node: &NodeId, workload: &WorkloadId) -> Option<Apply> {
        let there = self.node_at(node).and_then(|at| self.nodes.get(at.0));
        let buried = there.and_then(|slot| slot.graves.get(workload));
        let Version { revision, spec } = if let Some(grave) = buried {
            grave.version.clone()?
        } else {
            let at = self.workload_by_id.get(workload)?;
            let workload = &self.workloads.get(at.0)?.workload;
            Version { revision: workload.revision.clone(), spec: Arc::clone(&workload.spec) }
        };
        Some(Apply { revision, run: false, pause: false, spec, secrets: Arc::default() })
    }

    /// The last decision by which a node proved to have removed a workload, in its present life.
    pub fn removed_on(&self, node: &NodeId, workload: &WorkloadId) -> Option<Epoch> {
        self.nodes.get(self.node_at(node)?.0)?.removed.get(workload).copied()
    }

    /// True if nothing may be written, started or stopped.
    pub fn is_frozen(&self) -> bool {
        self.mode != Mode::Normal
    }

    /// Time in milliseconds that a heartbeat keeps a node ready at present.
    pub fn lease_length_ms(&self) -> u64 {
        self.lease_ms()
    }

    /// The former copy of a workload with data stays on the node of a contract agent, stopped.
    pub(super) fn tell_of_kept_copy(&mut self, at: WorkloadIndex, node: &NodeId) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let there = self.node_at(node).and_then(|at| self.nodes.get(at.0));
        let contract = there.is_some_and(|slot| slot.node.facts.is_contract());
        if !contract || !has_data(&slot.workload.spec) {
            return;
        }
        let message = format!(
            "its former copy on {node} is stopped and not removed: the agent there would delete its data \
             with it"
        );
        let id = slot.workload.id.clone();
        let (node, message) = (Some(node.clone()), Arc::from(message));
        self.happen(Happening::WorkloadDelayed { id, node, message });
    }
}
