//! Settling dirty workloads: ask the table, act, ask again.

use std::sync::Arc;

use persys_model::assignment::{Assignment, Reason, ReasonCode};
use persys_model::event::Happening;
use persys_model::failure::{Failure, shorten};
use persys_model::inventory::State;
use persys_model::node::Condition;
use persys_model::phase::{Phase, owner_of};
use persys_model::spec::volume::ManagedVolume;
use persys_model::spec::{Class, Spec};
use persys_model::task::{Task, TaskAction};
use persys_model::volume::single_attach;
use persys_model::zoo::Bug;

use super::World;
use super::slots::WorkloadIndex;
use super::tasks::is_word_of_agent;
use super::timers::Timer;
use super::update::{earlier_runs, leftover_runs};
use crate::decide::{Action, NodeState, Situation, Word, decide};
use crate::effects::Mark;
use crate::placement::NodeIndex;

/// More actions than any workload needs in one go; reaching it would mean the table runs in circles.
const MOST_ACTIONS: usize = 16;

/// What was tried for a workload in this go and did not work out.
#[derive(Debug, Clone, Copy, Default)]
struct Tried {
    update: bool,
    moving: bool,
}

impl World {
    /// Settles everything that was marked, each in a unit of its own.
    pub(super) fn settle_dirty(&mut self) {
        self.close_unit();
        while let Some(at) = self.dirty.pop_front() {
            self.settle(at);
            self.close_unit();
        }
    }

    /// Settles one workload in the open unit.
    pub(super) fn settle(&mut self, at: WorkloadIndex) {
        self.settle_phase(at);
        self.follow_health(at);
    }

    fn settle_phase(&mut self, at: WorkloadIndex) {
        let mut tried = Tried::default();
        for _ in 0..MOST_ACTIONS {
            let Some(slot) = self.workloads.get_mut(at.0) else { return };
            slot.dirty = false;
            let Some(action) = self.consider(at, tried) else { return };
            match action {
                Action::Rest => return self.conclude(at, tried),
                Action::Order => {
                    self.forget_after_health(at);
                    self.say_standstill(at);
                    self.order(at);
                    return self.conclude(at, tried);
                }
                Action::ReportOverdue => {
                    self.order(at);
                    self.report_overdue(at);
                    return self.conclude(at, tried);
                }
                Action::Redispatch => tried.moving |= !self.redispatch(at),
                Action::TimeOut => {
                    if !self.time_out(at) {
                        return self.conclude(at, tried);
                    }
                }
                Action::Place => {
                    if !self.place(at) {
                        return;
                    }
                }
                Action::AwaitFormers => return self.await_formers(at),
                Action::Reissue => tried.update |= !self.reissue(at),
                Action::Repause => self.decide_anew_here(at),
                Action::Refresh => self.refresh(at),
                Action::GoBack => self.go_back_late(at),
                Action::StartAgain => self.start_again(at),
                Action::EndLeftover => self.retire(at),
                Action::Believe(word) => {
                    self.believe(at, word);
                    // What did not work out before may be another matter in the new phase.
                    tried = Tried::default();
                }
                Action::MoveOff(code) => self.move_off(at, code),
                Action::TryMove => tried.moving |= !self.try_move(at),
                Action::Release => self.release_at_rest(at),
                Action::Stay(code) => return self.stay(at, code),
                Action::Finish => return self.finish_workload(at),
                Action::BuryAndFinish => {
                    self.bury(at);
                    return self.finish_workload(at);
                }
            }
        }
        debug_assert!(
            false,
            "a workload could not be settled: {:?} next for {:?}",
            self.consider(at, tried),
            self.workloads.get(at.0)
        );
    }

    /// There is nothing more to do for now.
    fn conclude(&mut self, at: WorkloadIndex, tried: Tried) {
        self.arm_attempt(at);
        if tried.update {
            self.say_update_waits(at);
        }
        if tried.moving {
            self.join_waiting(at);
        }
        self.leave_waiting_if_content(at);
    }

    /// What the table would have done first, had it been asked.
    pub(super) fn first_action(&self, at: WorkloadIndex) -> Option<Action> {
        self.consider(at, Tried::default())
    }

    fn consider(&self, at: WorkloadIndex, tried: Tried) -> Option<Action> {
        let slot = self.workloads.get(at.0)?;
        let assignment = &slot.assignment;
        let spec = &slot.workload.spec;
        let place = assignment.place.as_ref();
        let node = place.and_then(|place| self.node_at(&place.node));
        let seen = slot
            .seen
            .as_ref()
            .filter(|report| place.is_some_and(|place| report.epoch == place.epoch));
        Some(decide(&Situation {
            desired: slot.workload.desired,
            generation: slot.workload.generation,
            phase: assignment.phase,
            place,
            node: node.map_or(NodeState::Lost, |node| self.node_state(node)),
            seen: seen.map(|report| &report.state),
            stays: spec.stays_with_node() && assignment.data_on.is_some(),
            exclusive: self.at_most_once(spec),
            formers_stopped: self.formers_stopped(assignment, spec),
            fenced: node.is_none_or(|node| self.surely_stopped(node, spec)),
            volume_free: has_single(spec)
                && node.is_none_or(|at| self.nodes.get(at.0).is_none_or(|n| n.confirmed_gone)),
            runs_older: slot.runs_older,
            earlier_runs: earlier_runs(slot),
            leftover_runs: leftover_runs(slot),
            update_due: self.update_due(slot),
            shadow_differs: self.shadow_differs(slot),
            values_differ: !self.changed_secrets(slot).is_empty(),
            overdue: self.is_overdue(at),
            accepted: seen.is_some() || self.has_accepted(at),
            order_open: slot.attempt.is_open(),
            never_arrived: slot.attempt.never_arrived(),
            provable: node.is_some_and(|node| self.proves_removals(node)),
            retry_due: slot.retry_due.is_none_or(|due| due <= self.now.mono),
            update_blocked: tried.update,
            move_blocked: tried.moving,
        }))
    }

    /// True if its node took in the present decision in its present life.
    pub(super) fn has_accepted(&self, at: WorkloadIndex) -> bool {
        let accepted = || {
            let slot = self.workloads.get(at.0)?;
            let place = slot.assignment.place.as_ref()?;
            let node = self.nodes.get(self.node_at(&place.node)?.0)?;
            Some(slot.told == Some((node.node.session, place.epoch)))
        };
        accepted().unwrap_or(false)
    }

    fn node_state(&self, at: NodeIndex) -> NodeState {
        let Some(slot) = self.nodes.get(at.0) else { return NodeState::Lost };
        match (slot.node.condition, &slot.node.drain) {
            (Condition::Ready, None) => NodeState::Ready,
            (Condition::Ready, Some(_)) => NodeState::Draining,
            (Condition::NotReady, _) => NodeState::NotReady,
            (Condition::Lost, _) => NodeState::Lost,
        }
    }

    /// Whether exclusive work on a lost node can no longer run: its fence has surely fallen, or
    /// somebody vouches that the machine is off.
    pub(super) fn fenced(&self, at: NodeIndex) -> bool {
        self.nodes.get(at.0).is_none_or(|slot| {
            let fallen = slot.node.facts.fence
                && self.now.mono >= slot.renewed_at.plus(self.settings.exclusive_failover_ms);
            slot.confirmed_gone || (slot.node.condition == Condition::Lost && fallen)
        })
    }

    fn formers_stopped(&self, assignment: &Assignment, spec: &Spec) -> bool {
        // Only what may run once asks: there is no need to look through all nodes for other work.
        !self.at_most_once(spec)
            || self.holders(assignment).into_iter().all(|node| self.surely_stopped(node, spec))
    }

    /// Whether two copies may not exist at once: its user says so, or it has a volume that only one
    /// node may have.
    pub(super) fn at_most_once(&self, spec: &Spec) -> bool {
        spec.placement.class == Class::Exclusive
            || (has_single(spec) && !self.settings.zoo.has(Bug::TwoNodesAttach))
    }

    /// Whether a copy of this on a silent node can no longer run. Watchdogs stop exclusive work only:
    /// for other work somebody has to vouch that the machine is off.
    fn surely_stopped(&self, at: NodeIndex, spec: &Spec) -> bool {
        match spec.placement.class {
            Class::Exclusive => self.fenced(at),
            Class::Default => self.nodes.get(at.0).is_none_or(|slot| slot.confirmed_gone),
        }
    }

    /// Nodes that may still hold an earlier copy: of this workload, of one that had its name and was
    /// deleted while its node was away, or an orphan of that name.
    fn holders(&self, assignment: &Assignment) -> Vec<NodeIndex> {
        let place = assignment.place.as_ref().and_then(|place| self.node_at(&place.node));
        let former = assignment.former.keys().filter_map(|node| self.node_at(node));
        let buried = self.buried.get(&assignment.workload).into_iter().flatten();
        let orphaned = self.orphans.get(&assignment.workload).into_iter().flatten();
        let others = buried.chain(orphaned).copied().filter(|at| Some(*at) != place);
        former.chain(others).collect()
    }

    /// Takes in what the node said.
    fn believe(&mut self, at: WorkloadIndex, word: Word) {
        match word {
            Word::Runs => self.believe_running(at),
            Word::Pauses => self.believe_paused(at),
            Word::Unresponsive => self.believe_unresponsive(at),
            Word::StartsAgain => {
                let failure = self.seen_failure(at);
                let message = failure.as_ref().map_or_else(String::new, |f| f.message.to_string());
                self.set_phase(at, Phase::Restarting, ReasonCode::Restarting, &message, failure);
                if let Some(slot) = self.workloads.get_mut(at.0) {
                    slot.healthy_since = None;
                }
            }
            Word::Rests => {
                self.set_phase(at, Phase::Stopped, ReasonCode::Stopped, "", None);
                self.rest(at);
                self.second_step_of_restart(at);
            }
            Word::Completed => {
                self.update_arrived(at);
                self.set_phase(at, Phase::Completed, ReasonCode::Completed, "", None);
                self.rest(at);
            }
            Word::Failed => self.attempt_failed(at),
        }
    }

    fn believe_running(&mut self, at: WorkloadIndex) {
        if self.is_to_be_paused(at) {
            let author = self.pause_author(at);
            self.set_phase(at, Phase::Running, ReasonCode::PauseRequested, &author, None);
        } else {
            self.set_phase(at, Phase::Running, ReasonCode::Running, "", None);
        }
        self.settle_state_drift(at);
        self.update_arrived(at);
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        slot.amiss_since = None;
        if slot.workload.spec.stays_with_node() {
            let node = slot.assignment.place.as_ref().map(|place| place.node.clone());
            Arc::make_mut(&mut slot.assignment).data_on = node;
        } else if slot.assignment.data_on.is_some() && slot.workload.spec.adopt_on().is_some() {
            // Taken over: from now on it may run anywhere.
            Arc::make_mut(&mut slot.assignment).data_on = None;
        }
        if slot.retry.is_some() {
            slot.healthy_since = Some(self.now.mono);
            let at_time = self.now.mono.plus(self.settings.retry_refill_ms);
            self.timers.set(at_time, Timer::Workload(at));
        }
    }

    pub(super) fn seen_failure(&self, at: WorkloadIndex) -> Option<Failure> {
        match &self.workloads.get(at.0)?.seen.as_ref()?.state {
            State::Failed(failure) | State::Restarting(failure) => Some(failure.clone()),
            State::Pending
            | State::Running
            | State::Paused
            | State::Unresponsive
            | State::Stopped
            | State::Completed
            | State::Unknown => None,
        }
    }

    /// A workload at rest gives its CPU and memory back and keeps its disk.
    pub(super) fn rest(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let assignment = Arc::make_mut(&mut slot.assignment);
        let Some(place) = assignment.place.as_mut() else { return };
        let before = place.reserved.clone();
        place.reserved = before.at_rest();
        let (node, after) = (place.node.clone(), place.reserved.clone());
        self.touch_decision(at);
        self.forget_way_back(at);
        if let Some(node) = self.node_at(&node) {
            self.index.give(node, &before, &[]);
            self.index.take(node, &after, &[]);
            self.room_changed = true;
        }
    }

    fn await_formers(&mut self, at: WorkloadIndex) {
        // It does not want room yet, and must not stand in the way of its like that do.
        self.waiting.leave(at, &mut self.workloads);
        self.mark(Mark::WaitedForFence);
        let message = "its earlier copy is not yet provably stopped";
        self.set_reason(at, ReasonCode::WaitsForFence, message);
        // It does not wait for room, and must not keep its like from looking for some.
        self.waiting.leave(at, &mut self.workloads);
        let Some(slot) = self.workloads.get(at.0) else { return };
        for node in self.holders(&slot.assignment) {
            self.watch_fence(at, Some(node));
        }
    }

    fn stay(&mut self, at: WorkloadIndex, code: ReasonCode) {
        self.waiting.leave(at, &mut self.workloads);
        let Some(slot) = self.workloads.get(at.0) else { return };
        let Some(node) = slot.assignment.place.as_ref().map(|place| place.node.clone()) else {
            return;
        };
        if code == ReasonCode::DataOnNode {
            self.mark(Mark::StayedForData);
            self.set_reason(at, code, &format!("will not move: its data is on {node}"));
        } else {
            self.mark(Mark::WaitedForFence);
            let message = self.says_waits_for_copy(at, &node);
            self.set_reason(at, code, &message);
            self.watch_fence(at, self.node_at(&node));
        }
    }

    /// Looks again when the fence of a node must have fallen.
    fn watch_fence(&mut self, at: WorkloadIndex, node: Option<NodeIndex>) {
        let Some(slot) = node.and_then(|node| self.nodes.get(node.0)) else { return };
        let falls = slot.renewed_at.plus(self.settings.exclusive_failover_ms);
        if falls > self.now.mono {
            self.timers.set(falls, Timer::Workload(at));
        }
    }

    /// Changes the phase: one transition, one event, one unit.
    pub(super) fn set_phase(
        &mut self,
        at: WorkloadIndex,
        to: Phase,
        code: ReasonCode,
        message: &str,
        failure: Option<Failure>,
    ) {
        let wall = self.now.wall;
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let from = slot.assignment.phase;
        if from == to {
            return self.set_reason(at, code, message);
        }
        debug_assert!(owner_of(from, to).is_some(), "no edge {from:?} -> {to:?} ({code:?})");
        let message: Arc<str> = Arc::from(&*shorten(message, Failure::MESSAGE_LIMIT));
        let (revision, task) = (slot.revision().clone(), slot.task().cloned());
        let assignment = Arc::make_mut(&mut slot.assignment);
        assignment.phase = to;
        assignment.reason = Reason { code, message: Arc::clone(&message), failure, since: wall };
        let event = Happening::Workload {
            id: assignment.workload.clone(),
            from: Some(from),
            to: Some(to),
            code,
            message,
            node: assignment.place.as_ref().map(|place| place.node.clone()),
            epoch: assignment.place.as_ref().map(|place| place.epoch),
            revision: Some(revision),
            task: task.filter(|_| is_word_of_agent(to)),
        };
        self.touch_decision(at);
        self.happen(event);
    }

    /// Says anew why a workload is where it is; the date stays while the reason does.
    pub(super) fn set_reason(&mut self, at: WorkloadIndex, code: ReasonCode, message: &str) {
        let wall = self.now.wall;
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let reason = &slot.assignment.reason;
        if reason.code == code && *reason.message == *shorten(message, Failure::MESSAGE_LIMIT) {
            return;
        }
        let failure = reason.failure.clone();
        let message = Arc::from(&*shorten(message, Failure::MESSAGE_LIMIT));
        Arc::make_mut(&mut slot.assignment).reason = Reason { code, message, failure, since: wall };
        self.touch_decision(at);
    }

    /// Removes the records of a workload that is gone; orders for copies on absent nodes remain.
    fn finish_workload(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let assignment = Arc::clone(&slot.assignment);
        let (id, revision) = (slot.workload.id.clone(), slot.workload.revision.clone());
        let removal = |task: &&Arc<Task>| task.action == TaskAction::Delete;
        let task = slot.task.as_ref().map(|(_, task)| task).filter(removal).cloned();
        self.bury_formers(at);
        self.bury_left_data(&id);
        self.waiting.leave(at, &mut self.workloads);
        self.happen(Happening::Workload {
            id: id.clone(),
            from: Some(assignment.phase),
            to: None,
            code: ReasonCode::DeleteRequested,
            message: Arc::from(""),
            node: None,
            epoch: None,
            revision: Some(revision),
            task,
        });
        self.forget_writes(at, &id);
        self.touch_volumes_of(&id);
        self.workload_by_id.remove(&id);
        self.capital_ids.remove(&id);
        self.workloads.remove(at.0);
    }

    pub(super) fn capacity_leaks(&self) -> bool {
        self.settings.zoo.has(Bug::CapacityNotReleased)
    }
}

/// Whether it names a volume that one node at a time may have.
fn has_single(spec: &Spec) -> bool {
    let single = |volume: &ManagedVolume| single_attach(volume.driver, volume.access);
    spec.managed_volumes().iter().any(single)
}
