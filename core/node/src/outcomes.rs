//! From the ends of verbs to facts.

use std::collections::BTreeSet;

use persys_model::command::Answer;
use persys_model::failure::Failure;
use persys_model::id::WorkloadId;
use persys_model::time::Now;

use crate::agent::{Agent, Grave, WaitsOn};
use crate::decide::Leave;
use crate::effects::Effects;
use crate::input::{Existing, Outcome, VerbId};
use crate::ledger::{Buried, Goal, Intent, LedgerChange};
use crate::slot::{Doing, Flight, Heard, is_exclusive};
use crate::standstill::KILLED;
use crate::view::View;

impl Agent {
    /// Takes in how a verb went.
    pub(crate) fn done(
        &mut self,
        verb: VerbId,
        workload: &WorkloadId,
        outcome: Outcome,
        now: Now,
        effects: &mut Effects,
    ) {
        let Some(slot) = self.slots.get_mut(workload) else { return };
        let Some(flight) = slot.flight.take_if(|flight| flight.id == verb) else { return };
        slot.trust_from = self.watch.want();
        self.touched.insert(workload.clone());
        match outcome {
            Outcome::Done => self.succeeded(workload, flight, now, effects),
            Outcome::Started(health) => {
                self.succeeded(workload, flight, now, effects);
                if let Some(slot) = self.slots.get_mut(workload) {
                    slot.health.see_image(health);
                }
            }
            Outcome::Failed(failure) => {
                // Fetching touches nothing; after any other verb, what is there has to be looked at.
                if flight.doing != Doing::Prepare {
                    slot.view = View::Unknown;
                }
                self.failed(workload, &flight, failure, now, effects);
            }
            Outcome::Kept(failure, seen) => {
                slot.view = View::from(*seen);
                self.failed(workload, &flight, failure, now, effects);
            }
            Outcome::Unknown => {
                slot.unsure_start |= matches!(flight.doing, Doing::Start(_)) && !slot.ran;
                slot.view = View::Unknown;
            }
        }
    }

    fn succeeded(
        &mut self,
        workload: &WorkloadId,
        flight: Flight,
        now: Now,
        effects: &mut Effects,
    ) {
        let Some(slot) = self.slots.get_mut(workload) else { return };
        slot.out_of_trouble();
        let intent = self.journal.ledger().intents.get(workload);
        let spec = intent.and_then(|intent| intent.spec.as_deref());
        let reset_ms = self.settings.row_reset_ms(spec);
        if flight.doing == Doing::Clear {
            self.collected.cleared = self.collected.cleared.saturating_add(1);
        }
        let was_alive = slot.view.is_alive();
        match flight.doing {
            Doing::Start(revision) | Doing::Resume(revision) => {
                let unmarked = slot.view.made_before(flight.epoch, &revision);
                let view = View::There { epoch: flight.epoch, revision, state: Existing::Running };
                slot.see(view, now.mono, reset_ms);
                slot.ran = true;
                slot.again = None;
                let intent = intent.filter(|intent| intent.epoch == flight.epoch);
                let Some(intent) = intent.cloned() else { return };
                // What was alive goes on with what it read before, at least in part.
                let untold = if was_alive { intent.untold.clone() } else { BTreeSet::new() };
                let after =
                    Intent { started: intent.started || unmarked, untold, ..intent.clone() };
                if after != intent {
                    self.put(workload, after, effects);
                }
            }
            Doing::Refresh => {
                let told = intent.filter(|intent| intent.epoch == flight.epoch).cloned();
                if let Some(told) = told {
                    self.put(workload, Intent { untold: BTreeSet::new(), ..told }, effects);
                }
            }
            Doing::Prepare => slot.prepared = true,
            Doing::Pause => {
                slot.see(slot.view.with(Existing::PAUSED), now.mono, reset_ms);
            }
            // Its end is a bad one of its own, which its restart policy judges.
            Doing::Unstick => {
                slot.see(slot.view.with(Existing::Exited { code: KILLED }), now.mono, reset_ms);
            }
            Doing::Stop => {
                slot.see(slot.view.with(Existing::Exited { code: 0 }), now.mono, reset_ms);
                slot.ran = false;
            }
            Doing::Replace | Doing::Clear => {
                slot.see(View::Absent, now.mono, reset_ms);
                slot.ran = false;
            }
            Doing::Remove => {
                slot.see(View::Absent, now.mono, reset_ms);
                slot.ran = false;
                if let Some(intent) = intent
                    && let Goal::Gone { purge } = intent.goal
                    && intent.epoch == flight.epoch
                {
                    let buried = Buried { epoch: flight.epoch, at: now.wall, purged: purge };
                    self.bury(workload, buried, effects);
                }
            }
        }
    }

    /// The workload is gone: that is written down, and whoever waits for it is told afterwards.
    fn bury(&mut self, workload: &WorkloadId, buried: Buried, effects: &mut Effects) {
        let Buried { epoch, purged, .. } = buried;
        let change = LedgerChange::Bury(workload.clone(), buried);
        let written = self.journal.write(change, &mut effects.ledger);
        if let Some(slot) = self.slots.get_mut(workload) {
            slot.written = written;
        }
        self.graves
            .insert(workload.clone(), Grave { epoch, purged, written, heard: Heard::Unsent });
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.workload == *workload) {
            if let WaitsOn::Burial(asked) = waiting.on
                && asked <= epoch
            {
                waiting.on = WaitsOn::Disk(written, Answer::Removed { epoch });
            }
        }
    }

    /// A failed start is the decision's failure; a failed stop or removal is tried again, since
    /// nobody else can do it.
    fn failed(
        &mut self,
        workload: &WorkloadId,
        flight: &Flight,
        failure: Failure,
        now: Now,
        effects: &mut Effects,
    ) {
        let Some(slot) = self.slots.get_mut(workload) else { return };
        let intent = self.journal.ledger().intents.get(workload);
        let current = intent.filter(|intent| intent.epoch == flight.epoch);
        slot.failures = slot.failures.saturating_add(1);
        let wait = self.settings.restart_wait_ms(slot.failures);
        match (&flight.doing, current) {
            (Doing::Start(_) | Doing::Prepare | Doing::Replace, None) => slot.out_of_trouble(),
            (Doing::Start(_) | Doing::Prepare | Doing::Replace, Some(intent)) => {
                slot.again = None;
                let leave = self.fence.leave(is_exclusive(intent), now.mono);
                if matches!(leave, Leave::Ending | Leave::Over) {
                    // It came too late for its lease; that says nothing about the decision.
                    slot.out_of_trouble();
                    return;
                }
                let last = slot.failures >= self.settings.start_attempts;
                // When it is over, what is left of an earlier decision has to go all the same.
                let over = intent.gave_up.is_some() || intent.completed;
                if !over && (last || !failure.retryable()) {
                    slot.trouble = None;
                    let kept = flight.doing == Doing::Prepare;
                    let intent = Intent { gave_up: Some(failure), kept, ..intent.clone() };
                    self.put(workload, intent, effects);
                } else {
                    slot.retry_at = Some(now.mono.plus(wait));
                    slot.trouble = Some(failure);
                }
            }
            (
                Doing::Resume(_)
                | Doing::Refresh
                | Doing::Pause
                | Doing::Unstick
                | Doing::Stop
                | Doing::Remove
                | Doing::Clear,
                _,
            ) => {
                slot.retry_at = Some(now.mono.plus(wait));
                slot.trouble = Some(failure);
            }
        }
    }
}
