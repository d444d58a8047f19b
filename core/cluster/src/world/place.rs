//! Giving a workload its place, changing it, and taking it away. Reservations move with it.

use std::sync::Arc;

use persys_model::assignment::{FormerCopy, Place, ReasonCode};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::phase::Phase;
use persys_model::resources::Resources;
use persys_model::workload::Desired;
use persys_model::zoo::Bug;

use super::World;
use super::attempt::Attempt;
use super::demands::{demands, request};
use super::shadow::remark;
use super::slots::{NodeSlot, WorkloadIndex};
use super::why_anew::why_anew;
use crate::effects::Mark;
use crate::placement::NodeIndex;
use crate::record::Write;

/// Why a new decision is made about what was over.
const RAN_EARLIER: &str = ", which ran it by an earlier decision";

impl World {
    pub(super) fn node_at(&self, id: &NodeId) -> Option<NodeIndex> {
        self.node_by_id.get(id).copied()
    }

    /// Finds a node for a workload that has none. Tells whether one was found.
    pub(super) fn place(&mut self, at: WorkloadIndex) -> bool {
        let waited = self.workloads.get(at.0).is_some_and(|slot| slot.waits.is_some());
        let Some(node) = self.pick(at) else {
            self.wait_for_room(at);
            return false;
        };
        if waited {
            self.mark(Mark::PendingPlaced);
        }
        self.assign(at, node, ReasonCode::Placed);
        true
    }

    /// The node a workload should go to now, if any fits.
    pub(super) fn pick(&mut self, at: WorkloadIndex) -> Option<NodeIndex> {
        let slot = self.workloads.get(at.0)?;
        let (spec, desired) = (Arc::clone(&slot.workload.spec), slot.workload.desired);
        let avoid: Vec<_> = slot
            .retry
            .iter()
            .flat_map(|retry| retry.avoid.iter())
            .filter_map(|node| self.node_at(node))
            .collect();
        let ports = self.ports_of(&spec);
        let drivers = spec.drivers();
        let demands = demands(&spec, desired);
        let request = request(&spec, &demands, &ports, &drivers, &avoid);
        let homes = self.homes(slot);
        let deleting = self.still_deleting(slot);
        if let Some(home) = homes.keys().next() {
            let home = self.node_at(home).filter(|_| homes.len() == 1);
            let home = home.filter(|node| !deleting.contains(node));
            return home.filter(|node| self.index.fits(*node, &request));
        }
        let picked = self.without(&deleting, |world| world.index.pick(&request));
        if picked.is_some_and(|node| !avoid.is_empty() && !avoid.contains(&node)) {
            self.mark(Mark::NodeAvoided);
        }
        picked
    }

    /// Decides that a workload runs on a node.
    fn assign(&mut self, at: WorkloadIndex, node: NodeIndex, code: ReasonCode) {
        let Some(node_id) = self.nodes.get(node.0).map(|slot| slot.node.facts.id.clone()) else {
            return;
        };
        let Some(slot) = self.workloads.get(at.0) else { return };
        let previous = slot.assignment.place.as_ref().map(|place| place.epoch);
        let may_exist = self.may_have_copy(at, node, &node_id);
        let Some(slot) = self.workloads.get(at.0) else { return };
        let former = slot.assignment.former.get(&node_id);
        let ends_first = former.is_some_and(|former| former.restart);
        // A new copy on the same node supersedes whatever was to be removed there.
        if slot.assignment.former.contains_key(&node_id) {
            self.drop_former(at, &node_id);
        }
        self.drop_grave(node, at);
        let epoch = self.draw_epoch(previous);
        let Some(slot) = self.workloads.get(at.0) else { return };
        let (shadow, ports) = self.shadow_and_ports(slot);
        let values = self.values_of(&slot.workload.spec);
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let place = Place {
            node: node_id.clone(),
            epoch,
            generation: slot.workload.generation,
            paused: slot.workload.desired == Desired::Paused,
            reserved: slot.workload.spec.resources.clone(),
            ports,
            version: None,
            values,
            shadow,
            restart: ends_first.then_some(slot.workload.generation),
        };
        if !self.settings.zoo.has(Bug::NoReservation) {
            self.index.take(node, &place.reserved, &place.ports);
        }
        Arc::make_mut(&mut slot.assignment).place = Some(place);
        slot.told = None;
        slot.seen = None;
        slot.amiss_since = None;
        slot.runs_older = false;
        slot.attempt = Attempt::new(may_exist, slot.workload.spec.stop_grace_ms(), self.now.mono);
        if let Some(node) = self.nodes.get_mut(node.0) {
            node.assigned.insert(at);
        }
        self.waiting.leave(at, &mut self.workloads);
        self.touch_decision(at);
        self.forget_failed_update(at);
        let message = format!("on {node_id}{}", remark(false, shadow));
        self.set_phase(at, Phase::Starting, code, &message, None);
        if ends_first {
            self.say_restart(at);
        }
    }

    /// Makes a new decision for the present intent: here if it fits, else elsewhere. Tells whether
    /// that was possible; if not, the old decision stands.
    pub(super) fn reissue(&mut self, at: WorkloadIndex) -> bool {
        let Some(slot) = self.workloads.get(at.0) else { return false };
        if !slot.workload.desired.is_up() {
            self.renew_place(at, None);
            return true;
        }
        let Some(place) = slot.assignment.place.clone() else { return false };
        let code = why_anew(slot);
        let (enters, runs) = (self.enters_shadow(slot), slot.assignment.phase.holds_compute());
        if enters && runs && place.generation == slot.workload.generation {
            // It asks for less than it has: whatever else changed meanwhile does not matter.
            if place.version.is_some() {
                // What an update left running goes on, without its ports.
                self.hide_place(at);
            } else {
                self.renew_place(at, Some(code));
            }
            return true;
        }
        let may_run = slot.may_run_unseen() || (enters && !runs);
        let exclusive = self.at_most_once(&slot.workload.spec);
        let avoided = slot.retry.as_ref().is_some_and(|retry| retry.avoid.contains(&place.node));
        let Some(node) = self.node_at(&place.node) else { return false };
        if code == ReasonCode::Placed || (enters && !runs) {
            // What failed is not what its node has, or is to have: this begins anew.
            self.forget_failures(at);
        }
        self.index.give(node, &place.reserved, &place.ports);
        let here = self.fits_here(at, node);
        // A node that had no room before is still better than none.
        let target = if here && !avoided {
            Some(node)
        } else {
            self.pick(at).or_else(|| here.then_some(node))
        };
        self.index.take(node, &place.reserved, &place.ports);
        match target {
            Some(target) if target == node => {
                self.renew_place(at, Some(code));
                true
            }
            Some(_) if exclusive => {
                self.move_off(at, code);
                true
            }
            Some(target) => {
                self.retire(at);
                self.assign(at, target, code);
                true
            }
            None if may_run => {
                // Nobody would be told to end it while the workload waits: it goes, and waits without.
                self.move_off(at, code);
                true
            }
            None => {
                if enters {
                    self.hide_place(at);
                }
                self.update_waits(at);
                false
            }
        }
    }

    /// Whether the present spec fits on the node it is on, whether or not that takes new work.
    fn fits_here(&mut self, at: WorkloadIndex, node: NodeIndex) -> bool {
        let Some(workload) = self.workloads.get(at.0).map(|slot| Arc::clone(&slot.workload)) else {
            return false;
        };
        let spec = &workload.spec;
        if !self.homes_allow(at, node) {
            return false;
        }
        let open = self.nodes.get(node.0).is_some_and(NodeSlot::is_open);
        let demands = demands(spec, workload.desired);
        let (ports, drivers) = (self.ports_of(spec), spec.drivers());
        let request = request(spec, &demands, &ports, &drivers, &[]);
        if !open {
            self.index.set_open(node, true);
        }
        let fits = self.index.fits(node, &request);
        if !open {
            self.index.set_open(node, false);
        }
        fits
    }

    /// A new decision on the same node. Given a code, it is to run and reserves what it needs;
    /// without one it is to rest or go and keeps what it has.
    fn renew_place(&mut self, at: WorkloadIndex, run: Option<ReasonCode>) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let Some(before) = slot.assignment.place.clone() else { return };
        let (shadow, ports) = self.shadow_and_ports(slot);
        let values = self.values_of(&slot.workload.spec);
        let epoch = self.draw_epoch(Some(before.epoch));
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let (generation, spec) = (slot.workload.generation, Arc::clone(&slot.workload.spec));
        let paused = slot.workload.desired == Desired::Paused;
        let Some(place) = Arc::make_mut(&mut slot.assignment).place.as_mut() else { return };
        place.epoch = epoch;
        place.generation = generation;
        place.paused = paused;
        place.values = values;
        place.restart = None;
        if run.is_some() {
            place.reserved = spec.resources.clone();
            place.ports = ports;
            place.shadow = shadow;
        }
        // What rests keeps its disk. A newer version that wants another amount has no room yet: its node
        // counts by what it is told, and must not count more than is reserved here.
        if run.is_some() || spec.resources.at_rest() == place.reserved.at_rest() {
            place.version = None;
        }
        let after = place.clone();
        slot.told = None;
        slot.seen = None;
        slot.amiss_since = None;
        slot.runs_older = false;
        slot.attempt.begin_anew(spec.stop_grace_ms(), self.now.mono);
        self.touch_decision(at);
        if let Some(node) = self.node_at(&after.node) {
            self.index.give(node, &before.reserved, &before.ports);
            self.index.take(node, &after.reserved, &after.ports);
            self.room_changed = true;
        }
        if let Some(code) = run {
            self.reserve_both(at, &before);
            self.waiting.leave(at, &mut self.workloads);
            let message = if code == ReasonCode::PauseRequested {
                self.pause_author(at)
            } else {
                let earlier = if code == ReasonCode::Placed { RAN_EARLIER } else { "" };
                let shadow = remark(before.shadow, after.shadow);
                format!("on {}{earlier}{shadow}", after.node)
            };
            self.set_phase(at, Phase::Starting, code, &message, None);
        }
    }

    /// Moves a workload off a draining node if another fits. Tells whether it did.
    pub(super) fn try_move(&mut self, at: WorkloadIndex) -> bool {
        let Some(target) = self.pick(at) else {
            self.mark(Mark::DrainBlocked);
            self.join_waiting(at);
            return false;
        };
        self.mark(Mark::MovedByDrain);
        self.retire(at);
        self.fall_back_to_pending(at, ReasonCode::NodeDrained);
        self.assign(at, target, ReasonCode::Placed);
        true
    }

    /// Gives up the place of a workload that should run; it looks for another one.
    pub(super) fn move_off(&mut self, at: WorkloadIndex, code: ReasonCode) {
        let exclusive =
            self.workloads.get(at.0).is_some_and(|slot| self.at_most_once(&slot.workload.spec));
        if code == ReasonCode::NodeLost {
            self.mark(if exclusive { Mark::MovedAfterFence } else { Mark::MovedFromLost });
        }
        self.retire(at);
        self.fall_back_to_pending(at, code);
    }

    /// Gives up the place of a workload at rest: its node is drained, or surely off while others may
    /// have its volume.
    pub(super) fn release_at_rest(&mut self, at: WorkloadIndex) {
        let place = self.workloads.get(at.0).and_then(|slot| slot.assignment.place.as_ref());
        let node = place.and_then(|place| self.nodes.get(self.node_at(&place.node)?.0));
        if node.is_some_and(|slot| slot.node.drain.is_some()) {
            self.mark(Mark::MovedByDrain);
        }
        self.retire(at);
    }

    pub(super) fn fall_back_to_pending(&mut self, at: WorkloadIndex, code: ReasonCode) {
        let from = self.workloads.get(at.0).map(|slot| slot.assignment.phase);
        if from != Some(Phase::Pending) {
            self.set_phase(at, Phase::Pending, code, "", None);
        }
    }

    /// Turns the place into a former copy, which its node is told to remove.
    pub(super) fn retire(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let Some(place) = slot.assignment.place.clone() else { return };
        self.drop_place(at);
        let Some(node) = self.node_at(&place.node) else { return };
        let epoch = self.draw_epoch(Some(place.epoch));
        let restart = place.restart.is_some();
        let former = FormerCopy { epoch, reserved: place.reserved, restart };
        self.index.take(node, &former.reserved, &[]);
        if let Some(slot) = self.workloads.get_mut(at.0) {
            Arc::make_mut(&mut slot.assignment).former.insert(place.node, former);
        }
        if let Some(slot) = self.nodes.get_mut(node.0) {
            slot.formers.insert(at);
        }
        self.touch_decision(at);
        self.order_former_removal(at, node);
    }

    /// Takes the place away and gives back what it held.
    pub(super) fn drop_place(&mut self, at: WorkloadIndex) {
        let leaks = self.capacity_leaks();
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        slot.seen = None;
        slot.told = None;
        slot.runs_older = false;
        let assignment = Arc::make_mut(&mut slot.assignment);
        let Some(place) = assignment.place.take() else { return };
        if let Some(update) = assignment.update.as_mut() {
            update.on = None;
        }
        let workload = slot.workload.id.clone();
        self.touch_decision(at);
        if let Some(node) = self.node_at(&place.node) {
            if !leaks {
                self.index.give(node, &place.reserved, &place.ports);
            }
            self.room_changed = true;
            if let Some(slot) = self.nodes.get_mut(node.0) {
                slot.assigned.remove(&at);
                slot.orders.remove(&workload);
            }
            self.forget_drifts_of(node, &workload);
        }
    }

    /// A former copy is known to be gone, or superseded.
    pub(super) fn drop_former(&mut self, at: WorkloadIndex, node_id: &NodeId) {
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let Some(former) = Arc::make_mut(&mut slot.assignment).former.remove(node_id) else {
            return;
        };
        let workload = slot.workload.id.clone();
        self.touch_decision(at);
        if let Some(node) = self.node_at(node_id) {
            self.index.give(node, &former.reserved, &[]);
            self.room_changed = true;
            if let Some(slot) = self.nodes.get_mut(node.0) {
                slot.formers.remove(&at);
                slot.orders.remove(&workload);
            }
        }
    }

    pub(super) fn drop_grave(&mut self, node: NodeIndex, at: WorkloadIndex) {
        let id = self.workloads.get(at.0).map(|slot| slot.workload.id.clone());
        if let Some(id) = id {
            self.call_off_removal(node, id);
        }
    }

    /// A node no longer has to remove what goes by this name.
    pub(super) fn call_off_removal(&mut self, node: NodeIndex, id: WorkloadId) {
        let Some(slot) = self.nodes.get_mut(node.0) else { return };
        if let Some(grave) = slot.graves.remove(&id) {
            slot.orders.remove(&id);
            self.unbury(node, &id);
            self.touch_volumes_of(&id);
            self.index.give(node, &grave.reserved, &[]);
            self.room_changed = true;
            self.write(Write::DeleteGrave(grave.node.clone(), id));
        }
    }

    /// Nothing fits: wait in the waiting room. The reason says how things stood when it began to
    /// wait; how they stand now is worked out whenever somebody asks.
    fn wait_for_room(&mut self, at: WorkloadIndex) {
        self.mark(Mark::NoNodeFits);
        let new_here = self.join_waiting(at);
        let Some(assignment) = self.workloads.get(at.0).map(|slot| &slot.assignment) else {
            return;
        };
        if assignment.phase != Phase::Pending {
            let message = self.why_no_node(at);
            self.set_phase(at, Phase::Pending, ReasonCode::NoNodeFits, &message, None);
        } else if new_here || assignment.reason.code != ReasonCode::NoNodeFits {
            let message = self.why_no_node(at);
            self.set_reason(at, ReasonCode::NoNodeFits, &message);
        }
    }

    /// The new revision fits nowhere: what runs goes on, what rests waits.
    fn update_waits(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let phase = slot.assignment.phase;
        if phase == Phase::Backoff && self.may_still_start(at) {
            if slot.retry_due.is_some_and(|due| due > self.now.mono) {
                self.join_waiting(at);
                return;
            }
            return self.resume_attempt(at);
        }
        if phase == Phase::Backoff {
            // What failed is not wanted any more, and nothing runs but the last good version of what is
            // updated in place: its room stays taken.
            if !slot.workload.spec.kind.updates_in_place() {
                self.rest(at);
            }
            return self.wait_for_room(at);
        }
        if !phase.holds_compute() {
            return self.wait_for_room(at);
        }
        self.mark(Mark::UpdateWaited);
        self.join_waiting(at);
    }

    /// Says of what runs that its new revision waits, whatever else was said in this go.
    pub(super) fn say_update_waits(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let said = slot.assignment.reason.code == ReasonCode::UpdateWaits;
        let runs = match slot.assignment.phase {
            Phase::Starting
            | Phase::Running
            | Phase::Paused
            | Phase::Unresponsive
            | Phase::Restarting
            | Phase::Stopping => true,
            Phase::Pending
            | Phase::Stopped
            | Phase::Completed
            | Phase::Backoff
            | Phase::Failed
            | Phase::Deleting => false,
        };
        if runs && !said {
            let differs = self.shadow_differs(slot);
            let goes_on =
                if differs { "it goes on in shadow" } else { "the earlier revision goes on" };
            let message = format!("{}; {goes_on}", self.why_no_node(at));
            self.set_reason(at, ReasonCode::UpdateWaits, &message);
        }
    }

    /// Writes that remove all records of a workload.
    pub(super) fn forget_writes(&mut self, at: WorkloadIndex, id: &WorkloadId) {
        self.write(Write::DeleteWorkload(id.clone()));
        self.write(Write::DeleteAssignment(id.clone()));
        self.write(Write::DeleteReconciliation(id.clone()));
        self.forget_history(at);
        if self.workloads.get(at.0).is_some_and(|slot| slot.retry.is_some()) {
            self.write(Write::DeleteRetry(id.clone()));
        }
    }

    /// Counts amounts that no record of the store holds: orphans.
    pub(super) fn take_for_orphan(&mut self, node: NodeIndex, what: &Resources) {
        self.index.take(node, what, &[]);
    }

    /// Gives back what an orphan was counted with.
    pub(super) fn give_for_orphan(&mut self, node: NodeIndex, what: &Resources) {
        self.index.give(node, what, &[]);
        self.room_changed = true;
    }
}
