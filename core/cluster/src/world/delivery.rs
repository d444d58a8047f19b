//! Delivery of orders: nodes that send heartbeats but cannot be called, and attempts that make no
//! progress.
//!
//! ```text
//!   order ──► answered ........................ the node is reachable
//!         └─► undelivered, sent again sooner ── twice in a row ──► the node takes no new work
//!                                                    │ any answer
//!                                                    ▼
//!                                              reachable again
//! ```
//! Invariant: work that must not run twice leaves a node only if no order for it can have arrived
//! there ([`Attempt::never_arrived`]), or its node proves that it has no copy (`proof`).

use std::sync::Arc;

use persys_model::assignment::ReasonCode;
use persys_model::event::{Happening, NodePart};
use persys_model::failure::{Failure, FailureReason};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::inventory::State;
use persys_model::node::Condition;
use persys_model::phase::Phase;
use persys_model::spec::WorkloadType;
use persys_model::time::Millis;
use persys_model::token::Epoch;
use persys_model::zoo::Bug;

use super::World;
use super::slots::{WorkloadIndex, WorkloadSlot};
use super::timers::Timer;
use crate::effects::{Mark, Outbound};
use crate::input::Undelivered;
use crate::placement::NodeIndex;

/// Failed deliveries in a row after which a node takes no new work.
const FAILURES_TOLERATED: u32 = 2;
/// Longest wait for an agent's list of its last actions, in milliseconds.
const ACTIONS_WAIT_MS: u64 = 15_000;

/// The beginning of what is said of a stop or a removal that is overdue.
const NOT_DONE: &str = "not done after";

/// Reachability of a node for orders, as this leader experienced it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reach {
    failures: u32,
    why: Option<Arc<str>>,
    /// Its agent obeys removals that the answer to a heartbeat carries.
    takes_removals: bool,
}

impl Reach {
    /// The cause, while the node counts as unreachable.
    pub(crate) fn trouble(&self) -> Option<&Arc<str>> {
        self.why.as_ref().filter(|_| self.failures >= FAILURES_TOLERATED)
    }

    /// Failed deliveries since the last answer.
    fn failures(&self) -> u32 {
        self.failures
    }

    fn failed(&mut self, why: Arc<str>) {
        self.failures = self.failures.saturating_add(1);
        self.why = Some(why);
    }

    fn answered(&mut self) {
        self.failures = 0;
        self.why = None;
    }

    /// True if its agent obeys removals in the answer to a heartbeat.
    pub(crate) fn takes_removals(&self) -> bool {
        self.takes_removals
    }

    /// Its heartbeat says whether it does.
    pub(crate) fn set_takes_removals(&mut self, takes: bool) {
        self.takes_removals = takes;
    }
}

impl World {
    /// An order did not reach its node, or nobody knows whether it did.
    pub(super) fn undelivered(&mut self, what: &Undelivered) {
        let Some(at) = self.node_at(&what.node) else { return };
        self.mark(Mark::Undelivered);
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        if slot.node.session != what.session {
            return;
        }
        let was_in_trouble = slot.reach.trouble().is_some();
        slot.reach.failed(Arc::clone(&what.why));
        let failures = slot.reach.failures();
        if let Some(sent) = slot.orders.get_mut(&what.workload)
            && sent.epoch == what.epoch
        {
            let wait = redelivery_ms(&self.settings, failures);
            sent.again_at = self.now.mono.plus(wait);
            sent.went_out = true;
            self.timers.set(sent.again_at, Timer::Resend(at));
        }
        let in_trouble = slot.reach.trouble().cloned();
        self.order_ended(&what.node, &what.workload, what.epoch, what.may_have_arrived);
        let Some(why) = in_trouble else { return };
        if !was_in_trouble {
            self.reach_changed(at, Some(&why));
        }
        self.say_undelivered(&what.workload, &what.node, &why);
    }

    /// Tells of a workload whose order waits, once for each cause.
    fn say_undelivered(&mut self, workload: &WorkloadId, node: &NodeId, why: &str) {
        let Some(at) = self.workload_by_id.get(workload).copied() else { return };
        let Some(slot) = self.workloads.get(at.0) else { return };
        let waits = match slot.assignment.phase {
            Phase::Starting | Phase::Stopping | Phase::Deleting => true,
            Phase::Pending
            | Phase::Running
            | Phase::Paused
            | Phase::Unresponsive
            | Phase::Restarting
            | Phase::Stopped
            | Phase::Completed
            | Phase::Backoff
            | Phase::Failed => false,
        };
        let here = slot.assignment.place.as_ref().is_some_and(|place| place.node == *node);
        if !waits || !here {
            return;
        }
        let message = format!(
            "orders to {node} cannot be delivered: {why}; they are sent again{}",
            self.says_unprovable(at)
        );
        let said = slot.assignment.reason.code == ReasonCode::DispatchFailed;
        self.set_reason(at, ReasonCode::DispatchFailed, &message);
        if !said {
            let (id, node) = (workload.clone(), Some(node.clone()));
            let message = Arc::from(message);
            self.happen(Happening::WorkloadDelayed { id, node, message });
        }
        self.close_unit();
    }

    /// An order about a workload is no longer on its way.
    pub(super) fn order_ended(
        &mut self,
        node: &NodeId,
        workload: &WorkloadId,
        epoch: Epoch,
        may_exist: bool,
    ) {
        let Some(at) = self.workload_by_id.get(workload).copied() else { return };
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        if slot.assignment.place.as_ref().is_some_and(|place| place.node == *node) {
            slot.attempt.ended(epoch, may_exist);
            if self.is_overdue(at) {
                // What to do about it may have waited for this.
                self.mark_dirty(at);
            }
        }
    }

    /// A node answered an order or a probe.
    pub(super) fn reached(&mut self, at: NodeIndex) {
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        let was_in_trouble = slot.reach.trouble().is_some();
        slot.reach.answered();
        if was_in_trouble {
            self.mark(Mark::DeliveredAgain);
            self.reach_changed(at, None);
            self.resend_all(at);
        }
    }

    fn reach_changed(&mut self, at: NodeIndex, why: Option<&Arc<str>>) {
        let Some(slot) = self.nodes.get(at.0) else { return };
        let id = slot.node.facts.id.clone();
        let why = why.map(Arc::clone);
        self.happen(Happening::NodeTrouble { id, part: NodePart::Orders, why });
        self.close_unit();
        self.index.set_open(at, self.is_open(at));
        self.room_changed = true;
        self.watch_reach(at);
    }

    /// Probes a node to which orders cannot be delivered until it answers: nothing else is asked of an
    /// idle node. Probing stops while the node is silent and begins again when it returns.
    pub(super) fn watch_reach(&mut self, at: NodeIndex) {
        if self.nodes.get(at.0).is_some_and(|slot| slot.reach.trouble().is_some()) {
            self.timers.set(self.now.mono.plus(self.settings.resend_ms), Timer::Reach(at));
        }
    }

    /// Probes a ready node to which orders cannot be delivered.
    pub(super) fn probe_unreachable(&mut self, at: NodeIndex) {
        let now = self.now.mono;
        let Some(slot) = self.nodes.get(at.0) else { return };
        if slot.reach.trouble().is_none() || slot.node.condition != Condition::Ready {
            return;
        }
        let (id, session) = (slot.node.facts.id.clone(), slot.node.session);
        self.at_once(Outbound::Probe(id, session, now));
        self.timers.set(now.plus(self.settings.resend_ms), Timer::Reach(at));
    }

    /// The runtimes of a node that do not answer, as its last heartbeat tells.
    pub(super) fn take_runtimes_down(&mut self, at: NodeIndex, down: &RuntimesDown) {
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        if slot.down == *down {
            return;
        }
        let before = std::mem::replace(&mut slot.down, down.clone());
        let id = slot.node.facts.id.clone();
        for kind in WorkloadType::ALL {
            let (was, is) = (before.contains_key(&kind), down.get(&kind));
            if was != is.is_some() {
                self.mark(Mark::RuntimeDown);
                let (id, part, why) = (id.clone(), NodePart::Runtime(kind), is.map(Arc::clone));
                self.happen(Happening::NodeTrouble { id, part, why });
            }
        }
        self.close_unit();
        self.index_node(at);
    }

    /// Time without progress after which the present attempt is overdue: the timeout, and what a copy
    /// has to end by itself where one is stopped.
    fn patience_ms(&self, slot: &WorkloadSlot) -> Option<u64> {
        let timeout = match slot.assignment.phase {
            Phase::Starting => Some(match slot.workload.spec.workload_type() {
                WorkloadType::Container | WorkloadType::Compose => self.settings.apply_timeout_ms,
                WorkloadType::Vm => self.settings.vm_apply_timeout_ms,
            }),
            Phase::Stopping | Phase::Deleting => Some(self.settings.delete_timeout_ms),
            Phase::Pending
            | Phase::Running
            | Phase::Paused
            | Phase::Unresponsive
            | Phase::Restarting
            | Phase::Stopped
            | Phase::Completed
            | Phase::Backoff
            | Phase::Failed => None,
        };
        timeout.map(|timeout| timeout.saturating_add(slot.attempt.stop_ms))
    }

    /// The time at which the present attempt is overdue, if it can be.
    fn overdue_at(&self, at: WorkloadIndex) -> Option<Millis> {
        let slot = self.workloads.get(at.0)?;
        slot.assignment.place.as_ref()?;
        let patience = self.patience_ms(slot)?;
        Some(slot.attempt.progress_at.plus(patience))
    }

    pub(super) fn is_overdue(&self, at: WorkloadIndex) -> bool {
        self.overdue_at(at).is_some_and(|due| due <= self.now.mono)
    }

    /// Sets the timer for an attempt that can become overdue.
    pub(super) fn arm_attempt(&mut self, at: WorkloadIndex) {
        let now = self.now.mono;
        let Some(due) = self.overdue_at(at).filter(|due| *due > now) else { return };
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        // A timer that is set for later belongs to an earlier part that may take longer.
        if slot.attempt.armed.is_none_or(|armed| armed <= now || due < armed) {
            slot.attempt.armed = Some(due);
            self.timers.set(due, Timer::Workload(at));
        }
    }

    /// An accepted order makes no progress. The agent is asked for its last actions, then the attempt
    /// ends with them. True if it ended now.
    pub(super) fn time_out(&mut self, at: WorkloadIndex) -> bool {
        let now = self.now.mono;
        let Some(slot) = self.workloads.get_mut(at.0) else { return false };
        let waited = slot.attempt.asked.is_some_and(|asked| now >= asked.plus(ACTIONS_WAIT_MS));
        if slot.attempt.actions.is_none() && !waited {
            if slot.attempt.asked.is_none() {
                self.ask_actions(at);
            }
            return false;
        }
        self.mark(Mark::TimedOut);
        self.attempt_timed_out(at);
        true
    }

    fn ask_actions(&mut self, at: WorkloadIndex) {
        let now = self.now.mono;
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let Some(place) = &slot.assignment.place else { return };
        slot.attempt.asked = Some(now);
        let (node, workload, epoch) = (place.node.clone(), slot.workload.id.clone(), place.epoch);
        self.timers.set(now.plus(ACTIONS_WAIT_MS), Timer::Workload(at));
        self.at_once(Outbound::Actions { node, workload, epoch });
    }

    /// An agent told its last actions, or could not be asked.
    pub(super) fn take_actions(&mut self, workload: &WorkloadId, epoch: Epoch, text: &Arc<str>) {
        let Some(at) = self.workload_by_id.get(workload).copied() else { return };
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let current = slot.assignment.place.as_ref().is_some_and(|place| place.epoch == epoch);
        if current && slot.attempt.asked.is_some() {
            slot.attempt.actions = Some(Arc::clone(text));
            self.mark_dirty(at);
        }
    }

    /// Reports a stop or a removal that takes too long; it goes on.
    pub(super) fn report_overdue(&mut self, at: WorkloadIndex) {
        let now = self.now.mono;
        let Some(slot) = self.workloads.get(at.0) else { return };
        let seconds = self.patience_ms(slot).unwrap_or_default() / 1_000;
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let waited = slot.attempt.asked.is_some_and(|asked| now >= asked.plus(ACTIONS_WAIT_MS));
        if slot.attempt.asked.is_none() {
            return self.ask_actions(at);
        }
        let Some(actions) = slot.attempt.actions.take().or_else(|| waited.then(no_actions)) else {
            return;
        };
        let Some(place) = &slot.assignment.place else { return };
        let (node, id, code) =
            (place.node.clone(), slot.workload.id.clone(), slot.assignment.reason.code);
        slot.attempt.moved(now);
        let told = slot.assignment.reason.message.starts_with(NOT_DONE);
        self.arm_attempt(at);
        if told {
            return;
        }
        self.mark(Mark::TimedOut);
        let message = format!("{NOT_DONE} {seconds} s without progress; it goes on\n{actions}");
        self.set_reason(at, code, &message);
        let message = Arc::from(message);
        self.happen(Happening::WorkloadDelayed { id, node: Some(node), message });
    }

    /// The failure of an attempt that made no progress.
    pub(super) fn timeout_failure(&self, at: WorkloadIndex) -> Option<Failure> {
        let slot = self.workloads.get(at.0)?;
        let place = slot.assignment.place.as_ref()?;
        let seconds = self.patience_ms(slot)? / 1_000;
        let actions = slot.attempt.actions.clone().unwrap_or_else(no_actions);
        let message = format!("not started on {} within {seconds} s\n{actions}", place.node);
        Some(Failure::new(FailureReason::RuntimeError, &message))
    }

    /// True if a node may have a copy of a workload that is about to be placed there.
    pub(super) fn may_have_copy(
        &self,
        at: WorkloadIndex,
        node: NodeIndex,
        node_id: &NodeId,
    ) -> bool {
        let Some(slot) = self.workloads.get(at.0) else { return true };
        let id = &slot.workload.id;
        slot.assignment.former.contains_key(node_id)
            || self.nodes.get(node.0).is_none_or(|there| {
                there.graves.contains_key(id) || there.orphans.contains_key(id) || !there.known
            })
    }

    /// Places a workload elsewhere whose order could not be delivered in time, if another node fits.
    /// Tells whether it gave up its place.
    pub(super) fn redispatch(&mut self, at: WorkloadIndex) -> bool {
        let Some(slot) = self.workloads.get(at.0) else { return false };
        let here = slot.assignment.place.as_ref().and_then(|place| self.node_at(&place.node));
        let never_arrived = slot.attempt.never_arrived();
        let once = self.at_most_once(&slot.workload.spec);
        let unproven = once && self.settings.zoo.has(Bug::ProofNotAwaited);
        if self.pick(at).is_none_or(|target| Some(target) == here) {
            self.join_waiting(at);
            return false;
        }
        if never_arrived || unproven {
            self.mark(if once { Mark::MovedNeverArrived } else { Mark::MovedUndelivered });
            self.drop_place(at);
        } else {
            self.mark(if once { Mark::ProofAwaited } else { Mark::MovedUndelivered });
            self.retire(at);
        }
        self.fall_back_to_pending(at, ReasonCode::DispatchFailed);
        true
    }

    /// True if the attempt that ended may come to run after all: its node has not given it up, or has an
    /// agent of the plain contract, which starts again by itself what it says has failed.
    pub(super) fn may_still_start(&self, at: WorkloadIndex) -> bool {
        let Some(slot) = self.workloads.get(at.0) else { return false };
        let Some(place) = slot.assignment.place.as_ref() else { return false };
        let node = self.node_at(&place.node).and_then(|node| self.nodes.get(node.0));
        let unheard = node.is_some_and(|node| !node.known);
        match slot.seen.as_ref().filter(|report| report.epoch == place.epoch) {
            Some(report) => match report.state {
                State::Failed(_) => node.is_some_and(|node| node.node.facts.is_contract()),
                State::Completed => false,
                State::Pending
                | State::Running
                | State::Restarting(_)
                | State::Paused
                | State::Unresponsive
                | State::Stopped
                | State::Unknown => true,
            },
            None => unheard || slot.attempt.is_open() || self.has_accepted(at),
        }
    }

    /// A retry is due and no new decision finds room: the one that ended goes on where it is, with its
    /// room, so that nothing starts there unseen.
    pub(super) fn resume_attempt(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let Some(place) = &slot.assignment.place else { return };
        let message = format!("on {}, by the decision before", place.node);
        let failed = slot.seen.take_if(|seen| matches!(seen.state, State::Failed(_))).is_some();
        if failed {
            // Its node is told once more, and what it says from now on is about that.
            slot.told = None;
        }
        slot.attempt.moved(self.now.mono);
        self.set_phase(at, Phase::Starting, ReasonCode::RetryDue, &message, None);
        self.join_waiting(at);
    }

    /// Nodes that came back are given the whole time again.
    pub(super) fn restart_patience(&mut self, at: NodeIndex) {
        let now = self.now.mono;
        let assigned = self.nodes.get(at.0).map(|slot| slot.assigned.clone()).unwrap_or_default();
        for workload in assigned {
            if let Some(slot) = self.workloads.get_mut(workload.0) {
                slot.attempt.moved(now);
            }
        }
    }
}

/// Runtimes of a node that do not answer, by the workload type they run, with the cause.
pub(crate) type RuntimesDown = std::collections::BTreeMap<WorkloadType, Arc<str>>;

fn no_actions() -> Arc<str> {
    Arc::from("its agent did not tell its last actions")
}

/// Wait before an order is delivered again after so many failures.
fn redelivery_ms(settings: &crate::settings::Settings, failures: u32) -> u64 {
    let doublings = failures.saturating_sub(1).min(10);
    settings.redeliver_ms.saturating_mul(1 << doublings).min(settings.resend_ms).max(1)
}
