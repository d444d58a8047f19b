//! Heartbeats. One that says nothing new touches one node and writes nothing.

use std::sync::Arc;

use persys_model::event::Happening;
use persys_model::inventory::Report;
use persys_model::link::{Beat, BeatAnswer};
use persys_model::mode::Mode;
use persys_model::node::Condition;
use persys_model::task::WorkloadTask;
use persys_model::token::Session;
use persys_model::zoo::Bug;

use super::World;
use crate::effects::{Mark, Outbound};
use crate::input::RequestId;
use crate::placement::NodeIndex;

impl World {
    pub(super) fn beat(&mut self, request: RequestId, beat: Beat) {
        let session = beat.session;
        let lease_ms = self.lease_ms();
        let Some(at) = self.node_at(&beat.node) else { return self.send_away(request) };
        let Some(slot) = self.nodes.get_mut(at.0) else { return self.send_away(request) };
        if slot.node.session != session {
            self.mark(Mark::BeatOfOldSession);
            return self.send_away(request);
        }
        if !self.is_word_good(&beat) {
            return self.send_away(request);
        }
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        let seq = beat.seq;
        if seq <= slot.seq {
            // A later message was already taken in; this one tells of the past.
            self.mark(Mark::BeatOvertaken);
            return self.hear(request, at, session, seq, false);
        }
        slot.seq = seq;
        slot.expires_at = self.now.mono.plus(lease_ms);
        let renews = self.now.mono < self.leads_until;
        if renews {
            slot.renewed_at = self.now.mono;
        }
        // The store of an earlier release, or one that was filled from a copy, has no leases.
        let without_lease = slot.lease.is_none();
        slot.usage = beat.usage;
        let limits_changed = slot.limits != beat.limits;
        slot.limits = beat.limits;
        let (was_busy, is_busy) = (slot.busy.is_some(), beat.busy.is_some());
        slot.busy = beat.busy;
        slot.reach.set_takes_removals(beat.takes_removals);
        if slot.node.condition != Condition::Ready {
            self.ready_again(at);
        }
        if without_lease {
            self.touch_lease(at);
        }
        if limits_changed {
            self.index_node(at);
        }
        if was_busy != is_busy {
            self.index.set_open(at, self.is_open(at));
            self.room_changed |= was_busy;
        }
        self.take_runtimes_down(at, &beat.down);
        if let Some(inventory) = beat.inventory {
            self.take_inventory(at, inventory, false);
        }
        for WorkloadTask { workload, epoch, task } in beat.tasks {
            self.note_task(&beat.node, session, &workload, epoch, Some(task));
        }
        for report in beat.reports {
            self.take_report(at, session, report);
        }
        for tombstone in beat.removed {
            self.removed(at, &tombstone.workload, tombstone.epoch);
        }
        self.hear(request, at, session, seq, renews);
    }

    /// False if the numbers in a heartbeat are above those of the store: its agent registers again, and
    /// its registration tells more.
    fn is_word_good(&mut self, beat: &Beat) -> bool {
        if let Some(inventory) = &beat.inventory {
            return self.is_consistent(&beat.node, None, inventory);
        }
        let reported = beat.reports.iter().map(|report| report.epoch);
        !self.is_beyond(reported.chain(beat.removed.iter().map(|removed| removed.epoch)))
    }

    fn hear(
        &mut self,
        request: RequestId,
        at: NodeIndex,
        session: Session,
        seq: u64,
        renewed: bool,
    ) {
        let want_inventory = self.nodes.get(at.0).is_some_and(|slot| slot.want_inventory);
        self.at_once(Outbound::Beat(
            request,
            BeatAnswer::Heard {
                term: self.term,
                session,
                seq,
                renewed,
                hold: false,
                drain: false,
                want_inventory,
                beat_ms: self.beat_ms(),
                removals: self.removals_by_answer(at),
                mark: self.store_mark(),
            },
        ));
    }

    fn send_away(&mut self, request: RequestId) {
        let term = self.term;
        self.at_once(Outbound::Beat(request, BeatAnswer::RegisterAgain { term }));
    }

    /// A silent node speaks again in the same life.
    fn ready_again(&mut self, at: NodeIndex) {
        let wall = self.now.wall;
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        let from = slot.node.condition;
        let node = Arc::make_mut(&mut slot.node);
        node.condition = Condition::Ready;
        node.since = wall;
        slot.probe = None;
        let id = node.facts.id.clone();
        let (assigned, why) = (slot.assigned.clone(), Arc::from("beats again"));
        self.happen(Happening::NodeCondition { id, from, to: Condition::Ready, why });
        self.touch_node(at);
        self.close_unit();
        self.index.set_open(at, self.is_open(at));
        self.room_changed = true;
        self.silent.remove(&at);
        self.restart_patience(at);
        self.watch_reach(at);
        self.look_at_brake();
        self.order_removals(at);
        for workload in assigned {
            self.mark_dirty(workload);
        }
    }

    /// One workload, as its node says it is. A node speaks only of what is assigned to it, under
    /// the present decision.
    pub(super) fn take_report(&mut self, at: NodeIndex, session: Session, report: Report) {
        let Some(index) = self.workload_by_id.get(&report.workload).copied() else { return };
        let Some(node) = self.nodes.get(at.0).map(|slot| slot.node.facts.id.clone()) else {
            return;
        };
        let any_node = self.settings.zoo.has(Bug::ReportForOthers);
        let Some(slot) = self.workloads.get_mut(index.0) else { return };
        let Some(place) = &slot.assignment.place else { return };
        if !any_node && (place.node != node || place.epoch != report.epoch) {
            return;
        }
        let epoch = place.epoch;
        let workload = report.workload.clone();
        let word = Report { epoch, ..report };
        let changed = slot.seen.as_ref().is_none_or(|seen| seen.state != word.state);
        slot.attempt.heard(word.progress, changed, self.now.mono);
        let confirmed = word.confirmed;
        // What an agent merely remembers it does not act on: tell it again. It may have been told in
        // this very session and have doubted it since, by a late word about the session before.
        let doubts = !confirmed && slot.told.take_if(|told| *told == (session, epoch)).is_some();
        if doubts || slot.seen.as_ref() != Some(&word) {
            slot.seen = Some(word);
            self.mark_dirty(index);
        }
        if confirmed {
            self.taken_in(at, session, &workload, epoch);
        }
    }

    /// Degraded: keep still. Recovery: tell us all you hold, and keep still.
    pub(super) fn beat_frozen(&mut self, request: RequestId, beat: &Beat) {
        let known = self
            .node_at(&beat.node)
            .and_then(|at| self.nodes.get(at.0))
            .is_some_and(|slot| slot.node.session == beat.session);
        if self.mode == Mode::Recovery || !known {
            return self.send_away(request);
        }
        let renewed = self.now.mono < self.leads_until;
        let at = self.node_at(&beat.node);
        if let Some(slot) = at.and_then(|at| self.nodes.get_mut(at.0))
            && renewed
        {
            slot.renewed_at = self.now.mono;
        }
        // What it says is not kept: once the store is read again everything is asked for.
        let answer = BeatAnswer::Heard {
            term: self.term,
            session: beat.session,
            seq: beat.seq,
            renewed,
            hold: true,
            drain: false,
            want_inventory: false,
            beat_ms: 0,
            removals: Vec::new(),
            mark: None,
        };
        self.at_once(Outbound::Beat(request, answer));
    }
}
