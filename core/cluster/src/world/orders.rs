//! Orders to agents: sent once they are durable, sent again until they are obeyed.
//!
//! A node has at most one open order per workload: to have it (it is the place) or to have it not
//! (a former copy, or a grave). What the agent answers closes it.

use std::sync::Arc;

use persys_model::assignment::{Grave, ReasonCode, Version};
use persys_model::command::{Answer, Apply, Command, Order, Refusal};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::node::Condition;
use persys_model::phase::Phase;
use persys_model::token::{Epoch, Session};
use persys_model::workload::Desired;
use persys_model::zoo::Bug;

use super::World;
use super::attempt::Attempt;
use super::slots::{Sent, WorkloadIndex};
use super::timers::Timer;
use crate::effects::{Mark, Outbound};
use crate::placement::NodeIndex;
use crate::record::Write;

/// Removals remembered per node, to tell late words from news.
const MOST_REMEMBERED: usize = 1024;

impl World {
    /// Sees to it that the node of a workload has been told the present decision.
    pub(super) fn order(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let Some(place) = &slot.assignment.place else { return };
        let Some(node_at) = self.node_at(&place.node) else { return };
        let Some(node) = self.nodes.get(node_at.0) else { return };
        if slot.told == Some((node.node.session, place.epoch)) {
            return;
        }
        // A node that was told before this leadership says so itself, with all it holds.
        if !node.known && place.epoch <= self.opened_epoch {
            return;
        }
        let order = match (slot.workload.desired, slot.assignment.phase) {
            (Desired::Deleted, _) => {
                Order::Remove { purge: self.takes_data_along(&slot.workload.id, &place.node) }
            }
            // What ended stays as it is: telling a node that forgot would start it again.
            (_, Phase::Failed | Phase::Completed | Phase::Backoff | Phase::Pending) => return,
            (_, _) => {
                let (revision, spec) = slot.ordered(place);
                Order::Apply(Apply {
                    revision,
                    run: slot.is_to_run(),
                    pause: place.paused,
                    spec,
                    secrets: Arc::default(),
                })
            }
        };
        let (workload, epoch) = (slot.workload.id.clone(), place.epoch);
        if self.send(node_at, workload, epoch, order, false)
            && let Some(slot) = self.workloads.get_mut(at.0)
        {
            slot.attempt.sent(epoch);
        }
    }

    /// Tells a node which copies it is to have no more.
    pub(super) fn order_removals(&mut self, at: NodeIndex) {
        let Some(node) = self.nodes.get(at.0) else { return };
        let graves: Vec<_> =
            node.graves.values().map(|grave| (grave.workload.clone(), grave.epoch)).collect();
        let formers: Vec<_> = node.formers.iter().copied().collect();
        for (workload, epoch) in graves {
            let purge = self.takes_data_along(&workload, &self.node_id(at));
            self.send(at, workload, epoch, Order::Remove { purge }, false);
        }
        for workload in formers {
            self.order_former_removal(workload, at);
        }
    }

    /// Tells a node that its earlier copy of a workload is to go. Its data stays.
    pub(super) fn order_former_removal(&mut self, workload: WorkloadIndex, at: NodeIndex) {
        let Some(slot) = self.workloads.get(workload.0) else { return };
        let Some(node) = self.nodes.get(at.0) else { return };
        if let Some(former) = slot.assignment.former.get(&node.node.facts.id) {
            let (id, epoch) = (slot.workload.id.clone(), former.epoch);
            let purge = self.settings.zoo.has(Bug::FormerPurged);
            self.send(at, id, epoch, Order::Remove { purge }, false);
        }
    }

    /// Sends an order unless it is on its way; tells whether it did.
    fn send(
        &mut self,
        at: NodeIndex,
        workload: WorkloadId,
        epoch: Epoch,
        order: Order,
        again: bool,
    ) -> bool {
        let now = self.now.mono;
        let Some(slot) = self.nodes.get_mut(at.0) else { return false };
        if slot.node.condition != Condition::Ready
            || self.witness.listens()
            || self.witness.isolated(&slot.node.facts.id).is_some()
        {
            return false;
        }
        if !again && slot.orders.get(&workload).is_some_and(|sent| sent.epoch == epoch) {
            return false;
        }
        if slot.orders.is_empty() {
            self.timers.set(now.plus(self.settings.resend_ms), Timer::Resend(at));
        }
        let again_at = now.plus(self.settings.resend_ms);
        slot.orders.insert(workload.clone(), Sent { epoch, again_at, went_out: false });
        let (node, session) = (slot.node.facts.id.clone(), slot.node.session);
        let command = Command { term: self.term, session, epoch, workload, order };
        self.later(Outbound::Command(node, command));
        true
    }

    /// Sends again at once whatever is open at a node.
    pub(super) fn resend_all(&mut self, at: NodeIndex) {
        let now = self.now.mono;
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        for sent in slot.orders.values_mut() {
            sent.again_at = now;
        }
        self.resend(at);
    }

    /// Sends again what was not obeyed in time and still holds.
    pub(super) fn resend(&mut self, at: NodeIndex) {
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        let now = self.now.mono;
        let late: Vec<_> = slot
            .orders
            .iter()
            .filter(|(_, sent)| now >= sent.again_at)
            .map(|(workload, sent)| (workload.clone(), *sent))
            .collect();
        for (workload, Sent { epoch, went_out, .. }) in late {
            if let Some(slot) = self.nodes.get_mut(at.0) {
                slot.orders.remove(&workload);
            }
            if self.order_again(at, &workload, epoch) {
                self.mark(Mark::Resent);
            }
            if let Some(slot) = self.nodes.get_mut(at.0)
                && let Some(sent) = slot.orders.get_mut(&workload)
                && sent.epoch == epoch
            {
                sent.went_out |= went_out;
            }
        }
        let open = self.nodes.get(at.0).map(|slot| slot.orders.values());
        if let Some(next) = open.and_then(|open| open.map(|sent| sent.again_at).min()) {
            self.timers.set(next.max(now.plus(1)), Timer::Resend(at));
        }
    }

    fn order_again(&mut self, at: NodeIndex, workload: &WorkloadId, epoch: Epoch) -> bool {
        let Some(slot) = self.nodes.get(at.0) else { return false };
        let id = slot.node.facts.id.clone();
        if slot.graves.get(workload).is_some_and(|grave| grave.epoch == epoch) {
            let purge = self.takes_data_along(workload, &id);
            self.send(at, workload.clone(), epoch, Order::Remove { purge }, true);
            return true;
        }
        let Some(index) = self.workload_by_id.get(workload).copied() else { return false };
        let Some(slot) = self.workloads.get(index.0) else { return false };
        if slot.assignment.former.get(&id).is_some_and(|former| former.epoch == epoch) {
            self.send(at, workload.clone(), epoch, Order::Remove { purge: false }, true);
            return true;
        }
        if slot.assignment.place.as_ref().is_some_and(|p| p.node == id && p.epoch == epoch) {
            self.order(index);
            return true;
        }
        false
    }

    /// An agent answered a command.
    pub(super) fn answered(
        &mut self,
        node: &NodeId,
        session: Session,
        workload: &WorkloadId,
        epoch: Epoch,
        answer: &Answer,
    ) {
        let Some(at) = self.node_at(node) else { return };
        if self.nodes.get(at.0).is_none_or(|slot| slot.node.session != session) {
            return;
        }
        self.reached(at);
        // An order that was refused arrived: a second delivery of it may be obeyed.
        self.order_ended(node, workload, epoch, true);
        match answer {
            Answer::Accepted => self.taken_in(at, session, workload, epoch),
            Answer::Removed { epoch } => self.removed(at, workload, *epoch),
            Answer::Refused(refusal) => self.refused(workload, epoch, *refusal),
        }
    }

    /// The node has the present decision on disk.
    pub(super) fn taken_in(
        &mut self,
        at: NodeIndex,
        session: Session,
        workload: &WorkloadId,
        epoch: Epoch,
    ) {
        if let Some(slot) = self.nodes.get_mut(at.0)
            && slot.orders.get(workload).is_some_and(|sent| sent.epoch == epoch)
        {
            slot.orders.remove(workload);
        }
        let Some(index) = self.workload_by_id.get(workload).copied() else { return };
        let Some(slot) = self.workloads.get_mut(index.0) else { return };
        if let Some(place) = &slot.assignment.place
            && place.epoch == epoch
        {
            let new = slot.told != Some((session, epoch));
            slot.told = Some((session, epoch));
            if slot.admitted.is_none_or(|(admitted, _)| admitted != epoch) {
                slot.admitted = Some((epoch, self.now.wall));
            }
            slot.amiss_since = None;
            if new {
                slot.attempt.moved(self.now.mono);
            }
            if slot.assignment.reason.code == ReasonCode::DispatchFailed {
                let message = format!("on {}", place.node);
                self.set_reason(index, ReasonCode::Placed, &message);
                self.close_unit();
            }
            self.settle_held(at, workload);
        }
    }

    fn refused(&mut self, workload: &WorkloadId, epoch: Epoch, refusal: Refusal) {
        match refusal {
            Refusal::OldTerm { .. } => self.mark(Mark::RefusedOldTerm),
            Refusal::OtherSession { .. } => self.mark(Mark::RefusedOtherSession),
            Refusal::Holding | Refusal::Draining => self.mark(Mark::RefusedHolding),
            Refusal::OldEpoch { held } => {
                self.mark(Mark::RefusedOldEpoch);
                self.decide_anew_above(workload, epoch, held);
            }
            Refusal::Buried { tombstone } => {
                self.mark(Mark::RefusedBuried);
                self.decide_anew_above(workload, epoch, tombstone);
            }
        }
    }

    /// An agent knows a decision at least as new as ours: ours would be refused for ever, so a
    /// newer one is made. Only a store that went back in time can lead here.
    pub(super) fn decide_anew_above(&mut self, workload: &WorkloadId, ours: Epoch, theirs: Epoch) {
        if theirs > self.head.epoch {
            self.mark(Mark::EpochFromTheFuture);
            self.head.epoch = theirs;
        }
        let Some(at) = self.workload_by_id.get(workload).copied() else { return };
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let Some(place) = slot.assignment.place.as_ref() else { return };
        if place.epoch != ours || place.epoch > theirs {
            return;
        }
        let previous = place.epoch;
        let epoch = self.draw_epoch(Some(previous));
        if let Some(slot) = self.workloads.get_mut(at.0) {
            slot.told = None;
            slot.seen = None;
            slot.attempt = Attempt::new(true, slot.workload.spec.stop_grace_ms(), self.now.mono);
            if let Some(place) = Arc::make_mut(&mut slot.assignment).place.as_mut() {
                place.epoch = epoch;
            }
        }
        self.touch_decision(at);
        self.mark_dirty(at);
        self.close_unit();
    }

    /// A node proved that it has removed every copy of a workload up to `epoch`.
    pub(super) fn removed(&mut self, at: NodeIndex, workload: &WorkloadId, epoch: Epoch) {
        let Some(node) = self.nodes.get_mut(at.0) else { return };
        let id = node.node.facts.id.clone();
        if node.removed.len() >= MOST_REMEMBERED {
            node.removed.pop_first();
        }
        node.removed.insert(workload.clone(), epoch);
        if node.orders.get(workload).is_some_and(|sent| sent.epoch <= epoch) {
            node.orders.remove(workload);
        }
        if node.graves.get(workload).is_some_and(|grave| grave.epoch <= epoch)
            && let Some(grave) = node.graves.remove(workload)
        {
            self.mark(Mark::GraveCleared);
            self.unbury(at, workload);
            self.index.give(at, &grave.reserved, &[]);
            self.room_changed = true;
            self.write(Write::DeleteGrave(id.clone(), workload.clone()));
            self.volumes_given_up(workload, &id);
            self.close_unit();
            // An exclusive workload of this name may have waited for it.
            if let Some(index) = self.workload_by_id.get(workload).copied() {
                self.mark_dirty(index);
            }
        }
        let Some(index) = self.workload_by_id.get(workload).copied() else { return };
        let Some(slot) = self.workloads.get(index.0) else { return };
        if slot.assignment.former.get(&id).is_some_and(|former| former.epoch <= epoch) {
            self.mark(Mark::FormerRemoved);
            self.tell_of_kept_copy(index, &id);
            self.data_left_behind(workload, &id);
            self.drop_former(index, &id);
            self.mark_dirty(index);
        }
        let Some(slot) = self.workloads.get(index.0) else { return };
        let placed_here = slot
            .assignment
            .place
            .as_ref()
            .is_some_and(|place| place.node == id && place.epoch <= epoch);
        if placed_here && slot.workload.desired == Desired::Deleted {
            self.drop_place(index);
            self.mark_dirty(index);
        } else if placed_here {
            // It buried what it should have: under this decision it would refuse it for ever.
            let ours = slot.assignment.place.as_ref().map(|place| place.epoch).unwrap_or_default();
            self.decide_anew_above(workload, ours, epoch);
        }
    }

    /// The node of a workload is away: an order to remove it waits there.
    pub(super) fn bury(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let Some(place) = slot.assignment.place.clone() else { return };
        let workload = slot.workload.id.clone();
        let (revision, spec) = slot.ordered(&place);
        let version = self.version_at(&place.node, || Version { revision, spec });
        self.mark(Mark::BuriedAway);
        self.drop_place(at);
        let epoch = self.draw_epoch(Some(place.epoch));
        let grave = Grave { workload, node: place.node, epoch, reserved: place.reserved, version };
        self.dig(grave);
    }

    /// Earlier copies of a workload that is gone wait for their nodes.
    pub(super) fn bury_formers(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let workload = slot.workload.id.clone();
        let formers = slot.assignment.former.clone();
        let last = Version {
            revision: slot.workload.revision.clone(),
            spec: Arc::clone(&slot.workload.spec),
        };
        for (node, former) in formers {
            self.drop_former(at, &node);
            // The copy was to go without its data. That is another decision now, and so is its proof.
            let (epoch, reserved) = (self.draw_epoch(Some(former.epoch)), former.reserved);
            let version = self.version_at(&node, || last.clone());
            self.dig(Grave { workload: workload.clone(), node, epoch, reserved, version });
        }
    }

    /// The version a grave on this node has to keep: an agent of the plain contract cannot remove a copy
    /// and leave its data, so it is told to stop it.
    fn version_at(&self, node: &NodeId, version: impl FnOnce() -> Version) -> Option<Version> {
        let slot = self.nodes.get(self.node_at(node)?.0)?;
        slot.node.facts.is_contract().then(version)
    }

    /// A node no longer has a grave of this name.
    pub(super) fn unbury(&mut self, at: NodeIndex, workload: &WorkloadId) {
        if let Some(nodes) = self.buried.get_mut(workload) {
            nodes.remove(&at);
            if nodes.is_empty() {
                self.buried.remove(workload);
            }
        }
    }

    /// Leaves an order to remove a workload at a node.
    pub(super) fn dig(&mut self, mut grave: Grave) {
        let Some(at) = self.node_at(&grave.node) else { return };
        let earlier = self.nodes.get_mut(at.0).and_then(|slot| slot.graves.remove(&grave.workload));
        if let Some(earlier) = earlier {
            // A node has one copy at most: one order to remove it, with the larger reservation.
            self.index.give(at, &earlier.reserved, &[]);
            grave.epoch = grave.epoch.max(earlier.epoch);
            if grave.reserved < earlier.reserved {
                grave.reserved = earlier.reserved.clone();
            }
            grave.version = grave.version.or_else(|| earlier.version.clone());
        }
        self.index.take(at, &grave.reserved, &[]);
        let grave = Arc::new(grave);
        self.write(Write::PutGrave(Arc::clone(&grave)));
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        let (workload, epoch) = (grave.workload.clone(), grave.epoch);
        self.buried.entry(workload.clone()).or_default().insert(at);
        slot.graves.insert(workload.clone(), grave);
        self.touch_volumes_of(&workload);
        let purge = self.takes_data_along(&workload, &self.node_id(at));
        self.send(at, workload, epoch, Order::Remove { purge }, false);
    }
}
