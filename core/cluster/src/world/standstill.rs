//! Workloads whose processes exist and do nothing: paused by their user, paused by somebody else, or
//! stuck. What nobody asked for is a drift until the node says that the workload runs again.

use std::sync::Arc;

use persys_model::assignment::ReasonCode;
use persys_model::drift::DriftKind;
use persys_model::phase::Phase;
use persys_model::workload::Desired;

use super::World;
use super::slots::WorkloadIndex;
use crate::effects::Mark;

impl World {
    /// The node says that it is paused.
    pub(super) fn believe_paused(&mut self, at: WorkloadIndex) {
        self.update_arrived(at);
        let Some(slot) = self.workloads.get(at.0) else { return };
        if slot.workload.desired == Desired::Paused {
            self.mark(Mark::PausedAsAsked);
            let message = self.pause_author(at);
            self.set_phase(at, Phase::Paused, ReasonCode::Paused, &message, None);
            return self.settle_state_drift(at);
        }
        self.mark(Mark::FoundPaused);
        let message = match self.trouble_of(at) {
            Some(why) => why,
            None => "somebody paused it on its node; it is resumed".to_owned(),
        };
        self.set_phase(at, Phase::Paused, ReasonCode::FoundPaused, &message, None);
        self.note_standstill(at);
    }

    /// The node says that it is stuck, or that its runtime does not answer for it.
    pub(super) fn believe_unresponsive(&mut self, at: WorkloadIndex) {
        self.mark(Mark::FoundUnresponsive);
        let message = self.trouble_of(at).unwrap_or_default();
        self.set_phase(at, Phase::Unresponsive, ReasonCode::NotResponding, &message, None);
        self.note_standstill(at);
    }

    /// Tells anew why it stands still: the node may have found out more, or have given up.
    pub(super) fn say_standstill(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let code = match slot.assignment.phase {
            Phase::Paused if slot.workload.desired != Desired::Paused => ReasonCode::FoundPaused,
            Phase::Unresponsive => ReasonCode::NotResponding,
            Phase::Paused
            | Phase::Pending
            | Phase::Starting
            | Phase::Running
            | Phase::Restarting
            | Phase::Stopping
            | Phase::Stopped
            | Phase::Completed
            | Phase::Backoff
            | Phase::Failed
            | Phase::Deleting => return,
        };
        if slot.assignment.reason.code == code
            && let Some(why) = self.trouble_of(at)
        {
            self.set_reason(at, code, &why);
        }
    }

    /// True if its user wants it paused.
    pub(super) fn is_to_be_paused(&self, at: WorkloadIndex) -> bool {
        self.workloads.get(at.0).is_some_and(|slot| slot.workload.desired == Desired::Paused)
    }

    /// "paused by NAME", as far as its reason still tells.
    pub(super) fn pause_author(&self, at: WorkloadIndex) -> String {
        let reason = self.workloads.get(at.0).map(|slot| &slot.assignment.reason);
        let told = reason.filter(|reason| {
            matches!(reason.code, ReasonCode::PauseRequested | ReasonCode::Paused)
        });
        told.map(|reason| reason.message.to_string()).unwrap_or_default()
    }

    fn note_standstill(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let Some(place) = &slot.assignment.place else { return };
        let (id, epoch, node) = (slot.workload.id.clone(), place.epoch, place.node.clone());
        if let Some(node) = self.node_at(&node) {
            self.note_drift_in_unit(node, &id, DriftKind::StateMismatch, epoch);
        }
    }

    fn trouble_of(&self, at: WorkloadIndex) -> Option<String> {
        let seen = self.workloads.get(at.0)?.seen.as_ref()?;
        seen.trouble.as_ref().map(|failure| failure.message.to_string())
    }

    /// A new decision for what its place runs, in which only the pause and values of secrets differ.
    pub(super) fn decide_anew_here(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let Some(place) = &slot.assignment.place else { return };
        let (before, values) = (place.epoch, self.values_of(&slot.ordered(place).1));
        let epoch = self.draw_epoch(Some(before));
        let now = self.now.mono;
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let paused = slot.workload.desired == Desired::Paused;
        if let Some(place) = Arc::make_mut(&mut slot.assignment).place.as_mut() {
            place.epoch = epoch;
            place.paused = paused;
            place.values = values;
        }
        slot.told = None;
        slot.seen = None;
        slot.amiss_since = None;
        slot.runs_older = false;
        slot.attempt.begin_anew(slot.workload.spec.stop_grace_ms(), now);
        self.touch_decision(at);
    }

    /// Why a workload cannot be paused, if so.
    pub(super) fn unpausable(&self, at: WorkloadIndex) -> Option<String> {
        let slot = self.workloads.get(at.0)?;
        let id = &slot.workload.id;
        match slot.assignment.phase {
            Phase::Stopped | Phase::Stopping => {
                return Some(format!(
                    "{id} is stopped: start it first, only what runs can be paused"
                ));
            }
            Phase::Completed | Phase::Failed => {
                return Some(format!("{id} has ended: only what runs can be paused"));
            }
            Phase::Pending
            | Phase::Starting
            | Phase::Running
            | Phase::Paused
            | Phase::Unresponsive
            | Phase::Restarting
            | Phase::Backoff
            | Phase::Deleting => {}
        }
        let node = &slot.assignment.place.as_ref()?.node;
        let facts = &self.nodes.get(self.node_at(node)?.0)?.node.facts;
        (!facts.pauses).then(|| {
            format!(
                "{id} cannot be paused: node {node} runs an agent that cannot pause; upgrade it"
            )
        })
    }
}
