//! Comparing what is recorded with all that a node holds.
//!
//! Four differences are known. Three are repaired on the spot: the node is told the present
//! decision, or its word is taken. The fourth, something nobody knows, is recorded and counted but
//! never touched without an operator's word.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_model::assignment::FormerCopy;
use persys_model::drift::{Drift, DriftKind};
use persys_model::event::Happening;
use persys_model::id::WorkloadId;
use persys_model::inventory::{Held, Inventory, State};
use persys_model::phase::Phase;
use persys_model::resources::Resources;
use persys_model::token::Epoch;
use persys_model::volume::VolumeKey;
use persys_model::workload::Desired;
use persys_model::zoo::Bug;

use super::World;
use super::slots::{Orphan, WorkloadIndex};
use super::timers::Timer;
use crate::effects::Mark;
use crate::placement::NodeIndex;
use crate::record::Write;

impl World {
    /// Asks every node for all it holds, and comes back.
    pub(super) fn sweep(&mut self) {
        for at in self.node_by_id.values() {
            if let Some(slot) = self.nodes.get_mut(at.0) {
                slot.want_inventory = true;
            }
        }
        let next = self.settings.drift_ms_of(self.node_by_id.len());
        self.timers.set(self.now.mono.plus(next), Timer::DriftSweep);
    }

    /// A node that tells what it holds only when it is asked begins a life. Until it has told, its copies
    /// are as they were last seen.
    pub(super) fn await_inventory(&mut self, at: NodeIndex) {
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        slot.known = false;
        slot.want_inventory = true;
        for index in slot.assigned.clone() {
            self.mark_dirty(index);
        }
    }

    /// Takes in all that a node holds. In a `new_life` the agent starts nothing that is not
    /// confirmed, so every decision is told again.
    pub(super) fn take_inventory(&mut self, at: NodeIndex, inventory: Inventory, new_life: bool) {
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        slot.known = true;
        slot.want_inventory = false;
        let session = slot.node.session;
        let assigned = slot.assigned.clone();
        let mut strangers = BTreeMap::new();
        let mut named = BTreeSet::new();
        for held in inventory.held {
            let id = held.report.workload.clone();
            let Some(index) = self.workload_by_id.get(&id).copied() else {
                strangers.insert(id, held);
                continue;
            };
            named.insert(index);
            if self.is_assigned_to(index, at) {
                self.look_for_older(index, &held);
                if !new_life {
                    self.compare(at, index, &held);
                }
                self.take_report(at, session, held.report);
                if new_life && let Some(slot) = self.workloads.get_mut(index.0) {
                    slot.told = None;
                }
            } else {
                self.copy_out_of_place(at, index, held.report.epoch);
            }
        }
        for tombstone in inventory.tombstones {
            self.removed(at, &tombstone.workload, tombstone.epoch);
        }
        for index in assigned {
            if !named.contains(&index) && self.is_assigned_to(index, at) {
                self.not_held(at, index, new_life);
            }
            self.mark_dirty(index);
        }
        self.take_strangers(at, strangers);
        // A leader that has just read the store does not know what was ordered before it led.
        self.order_removals(at);
    }

    fn is_assigned_to(&self, index: WorkloadIndex, at: NodeIndex) -> bool {
        self.nodes.get(at.0).is_some_and(|slot| slot.assigned.contains(&index))
    }

    /// A workload the node should have, and has.
    fn compare(&mut self, at: NodeIndex, index: WorkloadIndex, held: &Held) {
        let Some(slot) = self.workloads.get(index.0) else { return };
        let Some(place) = &slot.assignment.place else { return };
        let (ours, theirs) = (place.epoch, held.report.epoch);
        let id = slot.workload.id.clone();
        self.settle_drift(at, &id, DriftKind::MissingOnAgent);
        if theirs > ours {
            self.note_drift(at, &id, DriftKind::RevisionMismatch, theirs);
            return self.decide_anew_above(&id, ours, theirs);
        }
        if theirs < ours {
            return self.holds_older(at, index, &id, theirs);
        }
        self.settle_drift(at, &id, DriftKind::RevisionMismatch);
        let Some(slot) = self.workloads.get_mut(index.0) else { return };
        slot.amiss_since = None;
        // What an agent merely remembers it will not act on: that is no state it is in.
        let agreed = held.report.confirmed.then_some(&held.report.state);
        let (phase, desired) = (slot.assignment.phase, slot.workload.desired);
        match agreed.and_then(|state| agrees(phase, desired, state)) {
            Some(true) => self.settle_drift(at, &id, DriftKind::StateMismatch),
            Some(false) => {
                // Its word is taken in this very step. The record stays until a later word agrees.
                self.mark(Mark::StateDrift);
                self.note_drift(at, &id, DriftKind::StateMismatch, theirs);
            }
            None => {}
        }
    }

    /// A node has taken the present decision in: it neither lacks the workload nor holds another.
    pub(super) fn settle_held(&mut self, at: NodeIndex, id: &WorkloadId) {
        if self.nodes.get(at.0).is_none_or(|slot| slot.drifts.is_empty()) {
            return;
        }
        for kind in [DriftKind::MissingOnAgent, DriftKind::RevisionMismatch] {
            self.settle_drift(at, id, kind);
        }
    }

    /// A workload runs as recorded: its node's word and the record agree again.
    pub(super) fn settle_state_drift(&mut self, index: WorkloadIndex) {
        let Some(slot) = self.workloads.get(index.0) else { return };
        let Some(place) = &slot.assignment.place else { return };
        let (id, node) = (slot.workload.id.clone(), place.node.clone());
        if let Some(at) = self.node_at(&node) {
            self.settle_drift_in_unit(at, &id, DriftKind::StateMismatch);
        }
    }

    /// The node had taken the decision in and lost it again: a drift, and it is told again at once.
    fn holds_older(&mut self, at: NodeIndex, index: WorkloadIndex, id: &WorkloadId, theirs: Epoch) {
        let now = self.now.mono;
        let Some(slot) = self.workloads.get_mut(index.0) else { return };
        if slot.told.take().is_none() && slot.amiss_since.is_none() {
            return;
        }
        slot.amiss_since.get_or_insert(now);
        self.mark(Mark::RevisionDrift);
        self.note_drift(at, id, DriftKind::RevisionMismatch, theirs);
    }

    /// What is over is not told again, so an earlier copy that runs where it is recorded would run on
    /// unseen: a node may have lost the decision that is recorded, or a recovery went back behind the one
    /// it has.
    fn look_for_older(&mut self, index: WorkloadIndex, held: &Held) {
        let Some(slot) = self.workloads.get_mut(index.0) else { return };
        let older = slot.assignment.place.as_ref().is_some_and(|p| held.report.epoch < p.epoch);
        let runs = match &held.report.state {
            State::Running
            | State::Paused
            | State::Unresponsive
            | State::Pending
            | State::Restarting(_) => true,
            // What is updated in place may run on in its last good version, as the record says too, if
            // both speak of the same attempt.
            State::Failed(_) => {
                let wanted = slot.assignment.place.as_ref().map(|place| slot.ordered(place).0);
                slot.workload.spec.kind.updates_in_place()
                    && wanted.is_none_or(|wanted| held.revision != wanted)
            }
            State::Stopped | State::Completed | State::Unknown => false,
        };
        slot.runs_older = older && runs;
    }

    /// A known workload on a node that is not its place: an earlier copy, which is to go.
    fn copy_out_of_place(&mut self, at: NodeIndex, index: WorkloadIndex, epoch: Epoch) {
        let node = self.node_id(at);
        let Some(slot) = self.workloads.get(index.0) else { return };
        let id = slot.workload.id.clone();
        if epoch > self.head.epoch {
            // Newer than anything this store ever decided: not ours to remove.
            self.mark(Mark::EpochFromTheFuture);
            return self.note_drift(at, &id, DriftKind::RevisionMismatch, epoch);
        }
        if self.nodes.get(at.0).is_some_and(|slot| slot.graves.contains_key(&id)) {
            // It belongs to a deleted workload of the same name; that order stands.
            return;
        }
        if !slot.assignment.former.contains_key(&node) {
            let going = self.draw_epoch(Some(epoch));
            let former =
                FormerCopy { epoch: going, reserved: Resources::default(), restart: false };
            if let Some(slot) = self.workloads.get_mut(index.0) {
                Arc::make_mut(&mut slot.assignment).former.insert(node, former);
            }
            if let Some(slot) = self.nodes.get_mut(at.0) {
                slot.formers.insert(index);
            }
            self.touch_decision(index);
            self.close_unit();
            self.mark_dirty(index);
        }
        self.order_former_removal(index, at);
    }

    /// A workload the node should have, and does not name.
    fn not_held(&mut self, at: NodeIndex, index: WorkloadIndex, new_life: bool) {
        let now = self.now.mono;
        let Some(slot) = self.workloads.get_mut(index.0) else { return };
        let id = slot.workload.id.clone();
        let epoch = slot.assignment.place.as_ref().map(|place| place.epoch).unwrap_or_default();
        if slot.workload.desired == Desired::Deleted && self.settings.zoo.has(Bug::DeleteByAbsence)
        {
            self.drop_place(index);
            return self.mark_dirty(index);
        }
        let expected = match slot.assignment.phase {
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
        let had_it = slot.told.take().is_some();
        slot.seen = None;
        slot.runs_older = false;
        if !expected || (!had_it && slot.amiss_since.is_none() && !new_life) {
            return;
        }
        // The decision is told again at once. It is a drift if the node had it, or does not take it
        // for long; a node that died before it took an order in never had it.
        let since = *slot.amiss_since.get_or_insert(now);
        let had_run = match slot.assignment.phase {
            Phase::Running
            | Phase::Paused
            | Phase::Unresponsive
            | Phase::Restarting
            | Phase::Stopping => true,
            Phase::Pending
            | Phase::Starting
            | Phase::Stopped
            | Phase::Completed
            | Phase::Backoff
            | Phase::Failed
            | Phase::Deleting => false,
        };
        self.mark(Mark::MissingFound);
        if had_it || had_run || now.since(since) >= self.settings.missing_grace_ms {
            self.note_drift(at, &id, DriftKind::MissingOnAgent, epoch);
        }
    }

    /// Workloads nobody knows: recorded, counted, left alone.
    fn take_strangers(&mut self, at: NodeIndex, strangers: BTreeMap<WorkloadId, Held>) {
        let Some(slot) = self.nodes.get(at.0) else { return };
        let before: Vec<_> = slot.orphans.keys().cloned().collect();
        let recorded: Vec<_> = slot
            .drifts
            .keys()
            .filter(|(_, kind)| *kind == DriftKind::OrphanOnAgent)
            .map(|(id, _)| id.clone())
            .collect();
        for id in before.into_iter().chain(recorded) {
            if !strangers.contains_key(&id) {
                self.forget_orphan(at, &id);
            }
        }
        for (id, held) in strangers {
            // An order to delete a volume: nothing runs under its name.
            if VolumeKey::ordered_by(&id).is_some() {
                continue;
            }
            let going = self.nodes.get(at.0).is_some_and(|slot| {
                let gone = slot.removed.get(&id).is_some_and(|epoch| *epoch >= held.report.epoch);
                gone || slot.graves.contains_key(&id)
            });
            if going {
                continue;
            }
            self.mark(Mark::OrphanFound);
            // Whatever is decided about it later must be newer than what it runs under.
            self.head.epoch = self.head.epoch.max(held.report.epoch);
            self.note_drift(at, &id, DriftKind::OrphanOnAgent, held.report.epoch);
            self.count_orphan(at, id, held);
        }
    }

    fn count_orphan(&mut self, at: NodeIndex, id: WorkloadId, held: Held) {
        let taken = held.spec.as_ref().map(|spec| spec.resources.clone()).unwrap_or_default();
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        self.orphans.entry(id.clone()).or_default().insert(at);
        let before = slot.orphans.insert(id, Orphan { held, taken: taken.clone() });
        match before {
            Some(before) => self.give_for_orphan(at, &before.taken),
            // Work may have waited to hear which volumes it has.
            None => self.room_changed = true,
        }
        self.take_for_orphan(at, &taken);
    }

    /// An orphan is gone, or is one no more.
    pub(super) fn forget_orphan(&mut self, at: NodeIndex, id: &WorkloadId) -> Option<Held> {
        self.settle_drift(at, id, DriftKind::OrphanOnAgent);
        self.not_an_orphan(at, id);
        let orphan = self.nodes.get_mut(at.0)?.orphans.remove(id)?;
        self.give_for_orphan(at, &orphan.taken);
        Some(orphan.held)
    }

    /// A node no longer has an unknown workload of this name. Work may have waited for that: of its name,
    /// or with a volume of it.
    pub(super) fn not_an_orphan(&mut self, at: NodeIndex, id: &WorkloadId) {
        let Some(nodes) = self.orphans.get_mut(id) else { return };
        nodes.remove(&at);
        if nodes.is_empty() {
            self.orphans.remove(id);
        }
        self.room_changed = true;
        if let Some(index) = self.workload_by_id.get(id).copied() {
            self.mark_dirty(index);
        }
    }

    /// Records a difference, once.
    fn note_drift(&mut self, at: NodeIndex, id: &WorkloadId, kind: DriftKind, epoch: Epoch) {
        self.note_drift_in_unit(at, id, kind, epoch);
        self.close_unit();
    }

    pub(super) fn note_drift_in_unit(
        &mut self,
        at: NodeIndex,
        id: &WorkloadId,
        kind: DriftKind,
        epoch: Epoch,
    ) {
        let since = self.now.wall;
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        if slot.drifts.contains_key(&(id.clone(), kind)) {
            return;
        }
        let node = slot.node.facts.id.clone();
        let drift = Arc::new(Drift {
            node: node.clone(),
            workload: id.clone(),
            kind,
            epoch,
            since,
            ignored: false,
        });
        slot.drifts.insert((id.clone(), kind), Arc::clone(&drift));
        self.write(Write::PutDrift(drift));
        self.happen(Happening::Drift { node, id: id.clone(), kind, resolved: false });
    }

    /// A difference is no more.
    fn settle_drift(&mut self, at: NodeIndex, id: &WorkloadId, kind: DriftKind) {
        self.settle_drift_in_unit(at, id, kind);
        self.close_unit();
    }

    /// Drops every recorded difference about a workload that leaves this node.
    pub(super) fn forget_drifts_of(&mut self, at: NodeIndex, id: &WorkloadId) {
        for kind in
            [DriftKind::RevisionMismatch, DriftKind::MissingOnAgent, DriftKind::StateMismatch]
        {
            self.settle_drift_in_unit(at, id, kind);
        }
    }

    fn settle_drift_in_unit(&mut self, at: NodeIndex, id: &WorkloadId, kind: DriftKind) {
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        if slot.drifts.remove(&(id.clone(), kind)).is_some() {
            let node = slot.node.facts.id.clone();
            self.write(Write::DeleteDrift(node.clone(), id.clone(), kind));
            self.happen(Happening::Drift { node, id: id.clone(), kind, resolved: true });
        }
    }

    pub(super) fn node_id(&self, at: NodeIndex) -> persys_model::id::NodeId {
        self.nodes.get(at.0).map_or_else(
            || persys_model::id::NodeId::fixed("unknown"),
            |slot| slot.node.facts.id.clone(),
        )
    }
}

/// True if a node's word about the present decision says the same as the record, false if the
/// record says something else; `None` while an order is under way or the node does not know.
fn agrees(phase: Phase, desired: Desired, state: &State) -> Option<bool> {
    match (phase, state) {
        (_, State::Unknown) => None,
        // It is about to be paused, or to be paused again.
        (Phase::Running | Phase::Paused, State::Running) if desired == Desired::Paused => None,
        (Phase::Running, State::Paused) if desired == Desired::Paused => None,
        (Phase::Paused, State::Paused) => Some(desired == Desired::Paused),
        (Phase::Running, State::Running) => Some(true),
        (Phase::Stopped | Phase::Completed, State::Paused | State::Unresponsive)
        | (Phase::Unresponsive, State::Unresponsive)
        | (
            Phase::Running | Phase::Paused | Phase::Unresponsive,
            State::Paused
            | State::Unresponsive
            | State::Running
            | State::Pending
            | State::Restarting(_)
            | State::Stopped
            | State::Completed
            | State::Failed(_),
        ) => Some(false),
        (Phase::Stopped | Phase::Completed, State::Running | State::Restarting(_)) => Some(false),
        (Phase::Restarting, State::Restarting(_) | State::Pending)
        | (Phase::Stopped, State::Stopped | State::Completed | State::Failed(_) | State::Pending)
        | (Phase::Completed, State::Completed | State::Stopped | State::Pending)
        | (Phase::Backoff | Phase::Failed, State::Failed(_)) => Some(true),
        (
            Phase::Pending
            | Phase::Starting
            | Phase::Restarting
            | Phase::Stopping
            | Phase::Completed
            | Phase::Backoff
            | Phase::Failed
            | Phase::Deleting,
            _,
        ) => None,
    }
}
