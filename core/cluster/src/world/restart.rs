//! Restarts: one wish, kept in the record until it is carried out.
//!
//! ```text
//!   Running ── restart asked ──► Stopping, place.restart ── ended ──► Starting ──► Running
//!                                     │ node lost, drained, or a newer wish
//!                                     ▼
//!                               started elsewhere, or as the newer wish says
//! ```
//! A copy that is left behind on a lost node remembers the wish: should the workload come back there, it
//! is ended first.
//!
//! Invariants: the wish is Running throughout, so nobody who leads next takes the rest in between for
//! one that a user wants. What the workload holds on its node stays reserved. Every agent that can stop and
//! start can do this.

use std::sync::Arc;

use persys_model::assignment::ReasonCode;
use persys_model::id::WorkloadId;
use persys_model::phase::Phase;
use persys_model::workload::Desired;
use persys_model::zoo::Bug;

use super::World;
use super::slots::{WorkloadIndex, WorkloadSlot};
use crate::effects::{ACCEPTED, Mark, RefusalCode};
use crate::input::RequestId;

impl WorkloadSlot {
    /// True if its node is to have it running, or paused.
    pub(super) fn is_to_run(&self) -> bool {
        self.workload.desired.is_up() && !self.is_being_restarted()
    }

    fn is_being_restarted(&self) -> bool {
        let place = self.assignment.place.as_ref();
        self.workload.desired.is_up() && place.is_some_and(|place| place.restart.is_some())
    }

    /// Why it cannot be restarted, if so.
    fn unrestartable(&self) -> Option<String> {
        let id = &self.workload.id;
        match (self.workload.desired, self.assignment.phase) {
            (Desired::Stopped, _) => {
                Some(format!("{id} is stopped; `persys start {id}` starts it"))
            }
            (Desired::Paused, _) => {
                Some(format!("{id} is paused; `persys resume {id}` lets it run again"))
            }
            (Desired::Deleted, _) => Some(format!("{id} is being deleted")),
            (Desired::Running, Phase::Pending) => {
                Some(format!("{id} does not run yet; `persys why {id}` tells what it waits for"))
            }
            (Desired::Running, _) => None,
        }
    }
}

impl World {
    pub(super) fn ask_restart(&mut self, request: RequestId, id: &WorkloadId) {
        let Some(at) = self.workload_by_id.get(id).copied() else {
            let why = format!("there is no workload {id}");
            return self.refuse(request, RefusalCode::NotFound, why);
        };
        let Some(slot) = self.workloads.get(at.0) else { return };
        if let Some(why) = slot.unrestartable() {
            return self.refuse(request, RefusalCode::Conflict, why);
        }
        if slot.is_being_restarted() {
            self.mark(Mark::Idempotent);
            return self.done(request, "it is being restarted already");
        }
        if self.settings.zoo.has(Bug::RestartInTwoSteps) {
            self.restart_in_two_steps(request, at);
            return;
        }
        self.begin_restart(at);
        self.settle(at);
        self.done(request, ACCEPTED);
    }

    /// Writes the wish down. What has no processes is only started.
    fn begin_restart(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let before = slot.workload.generation;
        let workload = Arc::make_mut(&mut slot.workload);
        workload.generation = workload.generation.next();
        let wanted = workload.generation;
        let runs = match slot.assignment.phase {
            Phase::Starting
            | Phase::Running
            | Phase::Paused
            | Phase::Unresponsive
            | Phase::Restarting => true,
            Phase::Pending
            | Phase::Stopping
            | Phase::Stopped
            | Phase::Completed
            | Phase::Backoff
            | Phase::Failed
            | Phase::Deleting => false,
        };
        self.touch_intent(at);
        self.forget_failures(at);
        if !runs {
            return self.begin_change(at, Desired::Running);
        }
        self.decide_anew_here(at);
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        if let Some(place) = Arc::make_mut(&mut slot.assignment).place.as_mut() {
            // A newer version that waits for room goes on waiting for it.
            let now = place.generation;
            place.restart = Some(if now == before { wanted } else { now });
        }
        self.say_restart(at);
    }

    pub(super) fn say_restart(&mut self, at: WorkloadIndex) {
        self.set_phase(at, Phase::Stopping, ReasonCode::StopRequested, "it is restarted", None);
    }

    /// It came to rest: it is started again where it was.
    pub(super) fn start_again(&mut self, at: WorkloadIndex) {
        self.decide_anew_here(at);
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let Some(place) = Arc::make_mut(&mut slot.assignment).place.as_mut() else { return };
        if let Some(generation) = place.restart.take() {
            place.generation = generation;
        }
        let message = format!("on {}", place.node);
        self.set_phase(at, Phase::Starting, ReasonCode::StartRequested, &message, None);
    }

    /// A newer wish takes the place of a restart.
    pub(super) fn drop_restart(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let place = slot.assignment.place.as_ref();
        if place.is_none_or(|place| place.restart.is_none()) {
            return;
        }
        if let Some(place) = Arc::make_mut(&mut slot.assignment).place.as_mut() {
            place.restart = None;
        }
        self.touch_decision(at);
    }

    /// Known bug: the first of two steps. Only this leader knows of the second.
    fn restart_in_two_steps(&mut self, request: RequestId, at: WorkloadIndex) {
        let Some(id) = self.workloads.get(at.0).map(|slot| slot.workload.id.clone()) else {
            return;
        };
        self.second_steps.insert(id);
        self.change(request, at, (None, None, None), Desired::Stopped);
    }

    /// Known bug: the second step.
    pub(super) fn second_step_of_restart(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        if !self.second_steps.remove(&slot.workload.id) || slot.workload.desired != Desired::Stopped
        {
            return;
        }
        let workload = Arc::make_mut(&mut slot.workload);
        workload.generation = workload.generation.next();
        workload.desired = Desired::Running;
        self.touch_intent(at);
    }
}
