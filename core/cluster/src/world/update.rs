//! Updates: what ran before a new revision, and what becomes of it if the new one does not come to run.
//!
//! ```text
//!   new revision ──► update { from, on } ──► the new one runs ──► no update
//!                          │ attempt failed, and the node says that `from` runs on
//!                          ▼
//!                    its node is told `from` again; Running, "updating" until the attempts are used up,
//!                    "update failed" from then on. The wish stays the new revision.
//! ```
//!
//! Invariants: while `from` may run on the node, its room and ports stay reserved there beside those of
//! the new revision; the revision shown as running is the one its node was told last.

use std::sync::Arc;

use persys_model::assignment::{Place, ReasonCode, Update, UpdateFailure, UpdateState, Version};
use persys_model::failure::Failure;
use persys_model::inventory::State;
use persys_model::phase::Phase;
use persys_model::retry::Retry;
use persys_model::spec::{HostPort, Spec};
use persys_model::workload::Desired;

use super::World;
use super::shadow::version_ordered;
use super::slots::{WorkloadIndex, WorkloadSlot};
use super::timers::Timer;
use crate::effects::Mark;
use crate::placement::NodeIndex;

impl World {
    /// Remembers what runs before a new revision takes its place. Called before the spec changes.
    pub(super) fn begin_update(&mut self, at: WorkloadIndex, desired: Desired) {
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let (workload, assignment) = (&slot.workload, &slot.assignment);
        let place = assignment.place.as_ref();
        let earlier = assignment.update.as_ref().filter(|update| update.on.is_some());
        let update = match earlier {
            _ if !desired.is_up() => None,
            // Without a place nothing runs on, and nothing of this revision failed yet.
            _ if place.is_none() => None,
            // The revision before this one never came to run.
            Some(earlier) => Some(Update { failed: None, ..earlier.clone() }),
            None => place.filter(|place| place.version.is_none() && runs(assignment.phase)).map(
                |place| Update {
                    from: Version {
                        revision: workload.revision.clone(),
                        spec: Arc::clone(&workload.spec),
                    },
                    number: workload.history.number(),
                    on: Some(place.node.clone()),
                    failed: None,
                },
            ),
        };
        if slot.assignment.update != update {
            Arc::make_mut(&mut slot.assignment).update = update;
            self.touch_decision(at);
        }
    }

    /// The wish changed: the update goes on, ends, or stays as it failed.
    pub(super) fn follow_update(&mut self, at: WorkloadIndex, new: bool, desired: Desired) {
        match (new, desired.is_up()) {
            (true, _) => self.end_update_if_back(at),
            (false, true) => self.keep_failed_update(at),
            (false, false) => self.end_update(at),
        }
    }

    /// The new revision is the one that runs: nothing is updated then.
    fn end_update_if_back(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let from = slot.assignment.update.as_ref().map(|update| &update.from.revision);
        if from == Some(&slot.workload.revision) {
            self.end_update(at);
        }
    }

    /// There is nothing to go back to any more: the present revision runs, or is to rest.
    pub(super) fn end_update(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        if slot.assignment.update.is_none() {
            return;
        }
        Arc::make_mut(&mut slot.assignment).update = None;
        self.touch_decision(at);
        let Some(slot) = self.workloads.get(at.0) else { return };
        let Some(place) = slot.assignment.place.as_ref() else { return };
        if place.version.is_none() && slot.assignment.phase.holds_compute() {
            let reserved = slot.workload.spec.resources.clone();
            let ports = ports_in(place, &slot.workload.spec.host_ports());
            self.reserve(at, |place| {
                place.reserved = reserved;
                place.ports = ports;
            });
        }
    }

    /// The present revision runs: the update to it is done.
    pub(super) fn update_arrived(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        if slot.assignment.place.as_ref().is_some_and(|place| place.version.is_none()) {
            self.end_update(at);
        }
    }

    /// The present revision is tried, on the node where the earlier one may still run: both are counted.
    /// Where `before` did not hold enough for the earlier one, there is no way back to it.
    pub(super) fn reserve_both(&mut self, at: WorkloadIndex, before: &Place) {
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let Some(place) = slot.assignment.place.as_ref() else { return };
        let Some(update) = slot.assignment.update.as_ref() else { return };
        if update.state() == UpdateState::UpdateFailed {
            let assignment = Arc::make_mut(&mut slot.assignment);
            assignment.update =
                assignment.update.take().map(|update| Update { failed: None, ..update });
            self.touch_decision(at);
            return self.reserve_both(at, before);
        }
        if update.on.as_ref() != Some(&place.node) {
            return;
        }
        let from = Arc::clone(&update.from.spec);
        if !holds(before, &from) {
            return self.forget_way_back(at);
        }
        let Some(place) = self.workloads.get(at.0).and_then(|slot| slot.assignment.place.as_ref())
        else {
            return;
        };
        let ports = ports_in(place, &from.host_ports());
        self.reserve(at, |place| {
            place.reserved = place.reserved.larger(&from.resources);
            let missing: Vec<_> =
                ports.into_iter().filter(|port| !place.ports.contains(port)).collect();
            place.ports.extend(missing);
        });
    }

    /// What ran before an update does not run any more, or has no room any more.
    pub(super) fn forget_way_back(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        if slot.assignment.update.as_ref().is_none_or(|update| update.on.is_none()) {
            return;
        }
        if let Some(update) = Arc::make_mut(&mut slot.assignment).update.as_mut() {
            update.on = None;
        }
        self.touch_decision(at);
    }

    /// Changes what is held for a place, and counts it so.
    fn reserve(&mut self, at: WorkloadIndex, change: impl FnOnce(&mut Place)) {
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let Some(before) = slot.assignment.place.clone() else { return };
        let mut after = before.clone();
        change(&mut after);
        if after == before {
            return;
        }
        Arc::make_mut(&mut slot.assignment).place = Some(after.clone());
        self.touch_decision(at);
        if let Some(node) = self.node_at(&before.node) {
            self.count_anew(node, &before, &after);
        }
    }

    fn count_anew(&mut self, node: NodeIndex, before: &Place, after: &Place) {
        self.index.give(node, &before.reserved, &before.ports);
        self.index.take(node, &after.reserved, &after.ports);
        self.room_changed = true;
    }

    /// An attempt failed and left the earlier revision alone, which goes on. `next_ms` is the wait before
    /// the next attempt, if there is one.
    pub(super) fn update_attempt_failed(
        &mut self,
        at: WorkloadIndex,
        retry: Retry,
        failure: Failure,
        next_ms: Option<u64>,
    ) {
        let due = next_ms.map(|wait| self.now.mono.plus(wait));
        let tried = retry.attempts;
        // Of an update that is over the record itself tells.
        self.keep_retry(at, next_ms.is_some().then_some(retry));
        if let Some(slot) = self.workloads.get_mut(at.0) {
            slot.retry_due = due;
            slot.healthy_since = None;
        }
        if let Some(due) = due {
            self.timers.set(due, Timer::Workload(at));
        }
        self.mark(if next_ms.is_some() { Mark::RetryPlanned } else { Mark::GaveUp });
        self.go_back(at, failure, (tried, next_ms));
    }

    /// The node's word that the earlier revision runs on came after the failure was taken in.
    pub(super) fn go_back_late(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let failure = slot.assignment.reason.failure.clone().or_else(|| self.seen_failure(at));
        let Some(failure) = failure else { return };
        let tried = slot.retry.as_ref().map_or(0, |retry| retry.attempts);
        let wait = slot.retry_due.map(|due| due.since(self.now.mono));
        let next = wait.filter(|_| slot.assignment.phase == Phase::Backoff);
        if next.is_none() {
            // Of an update that is over the record itself tells.
            self.keep_retry(at, None);
        }
        self.go_back(at, failure, (tried, next));
    }

    /// Tells the node the earlier revision again, which runs there.
    fn go_back(&mut self, at: WorkloadIndex, failure: Failure, (tried, next): (u32, Option<u64>)) {
        self.mark(Mark::UpdateFailed);
        let Some(slot) = self.workloads.get(at.0) else { return };
        let Some((before, update)) = updated_place(slot) else { return };
        let (before, from, number) = (before.clone(), update.from.clone(), update.number);
        let message = self.says_update_failed(slot, &failure, (number, tried, next));
        let epoch = self.draw_epoch(Some(before.epoch));
        let (now, wall) = (self.now.mono, self.now.wall);
        let ports = ports_in(&before, &from.spec.host_ports());
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let paused = slot.workload.desired == Desired::Paused;
        let assignment = Arc::make_mut(&mut slot.assignment);
        if let Some(update) = assignment.update.as_mut() {
            let failure = failure.clone();
            update.failed = Some(UpdateFailure { failure, at: wall, is_final: next.is_none() });
        }
        let Some(place) = assignment.place.as_mut() else { return };
        place.epoch = epoch;
        place.paused = paused;
        place.restart = None;
        place.reserved = from.spec.resources.clone();
        place.ports = ports;
        place.version = Some(from.clone());
        let after = place.clone();
        slot.told = None;
        slot.seen = None;
        slot.amiss_since = None;
        slot.runs_older = false;
        slot.attempt.begin_anew(from.spec.stop_grace_ms(), now);
        self.touch_decision(at);
        if let Some(node) = self.node_at(&before.node) {
            self.count_anew(node, &before, &after);
        }
        self.set_phase(at, Phase::Running, ReasonCode::UpdateFailed, &message, Some(failure));
    }

    fn says_update_failed(
        &self,
        slot: &WorkloadSlot,
        failure: &Failure,
        (runs, tried, next): (u32, u32, Option<u64>),
    ) -> String {
        let (what, evidence) = failure.parts();
        let failed = slot.workload.history.number();
        let most = self.settings.retry_attempts;
        let message = match next {
            Some(wait) => format!(
                "revision {failed} failed: {what}; attempt {tried} of {most}, next in {} s; revision \
                 {runs} runs on",
                wait.div_ceil(1000)
            ),
            None => format!("revision {failed} failed: {what}; revision {runs} runs on"),
        };
        match evidence {
            Some(evidence) => format!("{message}\n{evidence}"),
            None => message,
        }
    }

    /// Notes that an attempt failed after which the earlier revision does not run. What fails while the
    /// new revision waits for room is the earlier one.
    pub(super) fn note_update_failure(&mut self, at: WorkloadIndex, why: &Failure, is_final: bool) {
        let wall = self.now.wall;
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let place = slot.assignment.place.as_ref();
        let tried = place.is_none_or(|place| place.generation == slot.workload.generation);
        if slot.assignment.update.is_none() || !tried {
            return;
        }
        if let Some(update) = Arc::make_mut(&mut slot.assignment).update.as_mut() {
            update.failed = Some(UpdateFailure { failure: why.clone(), at: wall, is_final });
        }
        self.touch_decision(at);
    }

    /// True if an update that failed is to be tried again now.
    pub(super) fn update_due(&self, slot: &WorkloadSlot) -> bool {
        let goes_back = slot.assignment.place.as_ref().is_some_and(|place| place.version.is_some());
        let failed = slot.assignment.update.as_ref().and_then(|update| update.failed.as_ref());
        let due = slot.retry_due.is_some_and(|due| due <= self.now.mono);
        goes_back && due && failed.is_some_and(|failed| !failed.is_final)
    }

    /// The wish changes otherwise than by a new revision: an update that failed for good is not tried
    /// again for that.
    fn keep_failed_update(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        if !is_failed(slot) {
            return;
        }
        let generation = slot.workload.generation;
        if let Some(place) = Arc::make_mut(&mut slot.assignment).place.as_mut() {
            place.generation = generation;
        }
        self.touch_decision(at);
    }

    /// Has an update that failed for good tried again.
    pub(super) fn forget_failed_update(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        if slot.assignment.update.as_ref().is_none_or(|update| update.failed.is_none()) {
            return;
        }
        if let Some(update) = Arc::make_mut(&mut slot.assignment).update.as_mut() {
            update.failed = None;
        }
        self.touch_decision(at);
    }
}

/// True if its update failed for good while the earlier revision runs on.
pub(super) fn is_failed(slot: &WorkloadSlot) -> bool {
    let update = slot.assignment.update.as_ref();
    let runs_on = slot.assignment.place.as_ref().is_some_and(|place| place.version.is_some());
    runs_on && update.is_some_and(|update| update.state() == UpdateState::UpdateFailed)
}

/// The place of a workload whose present revision is tried where the earlier one may run on.
fn updated_place(slot: &WorkloadSlot) -> Option<(&Place, &Update)> {
    let place = slot.assignment.place.as_ref().filter(|place| place.version.is_none())?;
    let update = slot.assignment.update.as_ref()?;
    (update.on.as_ref() == Some(&place.node)).then_some((place, update))
}

/// True in the phases in which a revision runs that an update could go back to.
fn runs(phase: Phase) -> bool {
    match phase {
        Phase::Running | Phase::Paused | Phase::Unresponsive | Phase::Restarting => true,
        Phase::Pending
        | Phase::Starting
        | Phase::Stopping
        | Phase::Stopped
        | Phase::Completed
        | Phase::Backoff
        | Phase::Failed
        | Phase::Deleting => false,
    }
}

/// Ports of a spec that a place takes: none in shadow.
fn ports_in(place: &Place, ports: &[HostPort]) -> Vec<HostPort> {
    if place.shadow { Vec::new() } else { ports.to_vec() }
}

/// True if a place holds all that a spec needs.
fn holds(place: &Place, spec: &Spec) -> bool {
    let ports = ports_in(place, &spec.host_ports());
    place.reserved.larger(&spec.resources) == place.reserved
        && ports.iter().all(|port| place.ports.contains(port))
}

/// True if the present attempt failed and its node says that the earlier revision runs on, for
/// which all that it needs is still reserved.
pub(super) fn earlier_runs(slot: &WorkloadSlot) -> bool {
    let Some((place, update)) = updated_place(slot) else { return false };
    let Some(seen) = slot.seen.as_ref().filter(|seen| seen.epoch == place.epoch) else {
        return false;
    };
    let (revision, _) = version_ordered(&update.from, place.shadow);
    matches!(seen.state, State::Failed(_))
        && seen.runs.as_ref() == Some(&revision)
        && holds(place, &update.from.spec)
}

/// True if its node says that another revision runs on to which there is no way back, and which nobody
/// would end: only what is updated in place runs on in its last good version.
pub(super) fn leftover_runs(slot: &WorkloadSlot) -> bool {
    let Some(place) = &slot.assignment.place else { return false };
    let seen = slot.seen.as_ref().filter(|seen| seen.epoch == place.epoch);
    let runs =
        seen.is_some_and(|seen| matches!(seen.state, State::Failed(_)) && seen.runs.is_some());
    runs && !slot.workload.spec.kind.updates_in_place() && !earlier_runs(slot)
}
