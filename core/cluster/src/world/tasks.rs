//! Actions of agents: the last one for each workload, for events and for people. No decision is made
//! from them.

use std::sync::Arc;

use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::phase::Phase;
use persys_model::task::Task;
use persys_model::token::{Epoch, Session};

use super::World;
use super::slots::WorkloadSlot;

impl World {
    /// Keeps an action that the node of a workload names, for the decision the node was given.
    pub(super) fn note_task(
        &mut self,
        node: &NodeId,
        session: Session,
        workload: &WorkloadId,
        epoch: Epoch,
        task: Option<Arc<Task>>,
    ) {
        let Some(task) = task else { return };
        let Some(at) = self.node_at(node) else { return };
        if self.nodes.get(at.0).is_none_or(|slot| slot.node.session != session) {
            return;
        }
        let Some(index) = self.workload_by_id.get(workload).copied() else { return };
        let Some(slot) = self.workloads.get_mut(index.0) else { return };
        let place = slot.assignment.place.as_ref();
        if place.is_some_and(|place| place.node == *node && place.epoch == epoch) {
            slot.task = Some((epoch, task));
        }
    }
}

impl WorkloadSlot {
    /// The last action for the present decision.
    pub(super) fn task(&self) -> Option<&Arc<Task>> {
        let place = self.assignment.place.as_ref()?;
        let (epoch, task) = self.task.as_ref()?;
        (*epoch == place.epoch).then_some(task)
    }

    /// The revision its place carries out, or the wanted one where it has no place.
    pub(super) fn revision(&self) -> &RevisionId {
        let version = self.assignment.place.as_ref().and_then(|place| place.version.as_ref());
        version.map_or(&self.workload.revision, |version| &version.revision)
    }
}

/// True if a workload comes into this phase by what its agent did.
pub(super) fn is_word_of_agent(phase: Phase) -> bool {
    match phase {
        Phase::Running
        | Phase::Paused
        | Phase::Unresponsive
        | Phase::Restarting
        | Phase::Stopped
        | Phase::Completed
        | Phase::Backoff
        | Phase::Failed => true,
        Phase::Pending | Phase::Starting | Phase::Stopping | Phase::Deleting => false,
    }
}
