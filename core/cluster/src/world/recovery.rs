//! The way out when the store has lost what it knew.
//!
//! Agents hold intents with their decisions; the highest decision about a workload wins. Nothing is
//! stopped or removed by a recovery itself: copies that lost are dealt with afterwards, like any
//! earlier copy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_model::assignment::{Assignment, FormerCopy, Place, Reason, ReasonCode};
use persys_model::event::Happening;
use persys_model::failure::Failure;
use persys_model::history::{History, HistoryChange};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::inventory::{Held, State};
use persys_model::link::Registration;
use persys_model::mode::Mode;
use persys_model::node::{Condition, Node};
use persys_model::phase::Phase;
use persys_model::token::{Epoch, Generation, Session, Term};
use persys_model::workload::{Desired, Workload};

use super::World;
use super::recovery_plan::{RecoveryPlan, newest_copies};
use super::slots::WorkloadIndex;
use crate::effects::Mark;
use crate::input::{Recovery, RequestId};
use crate::placement::NodeIndex;
use crate::record::{Snapshot, Write};

impl World {
    /// Carries out a recovery and goes back to work.
    pub(super) fn recover(&mut self, request: RequestId, recovery: Recovery) {
        let (plan, old) = match recovery {
            Recovery::FromAgents => (Some(self.recovery_plan(&Recovery::FromAgents)), Vec::new()),
            Recovery::AcceptEmpty => {
                // Who may do what, and who no longer may, is not what was lost.
                let entries = self.entries.iter().cloned().collect();
                (None, self.replace_by(Snapshot { entries, ..Snapshot::default() }))
            }
            Recovery::FromSnapshot(snapshot) => (None, self.replace_by(*snapshot)),
        };
        self.mark(Mark::RebuiltFromAgents);
        self.begin_incarnation();
        self.mode = Mode::Normal;
        self.mode_since = self.now;
        self.mode_why = Arc::from("rebuilt");
        self.head.rebuilding = true;
        self.renew_leases();
        self.end_lives();
        self.erase(old);
        self.write_everything(plan.as_ref());
        let heard = std::mem::take(&mut self.heard);
        if let Some(plan) = plan {
            self.rebuild(&heard, &plan);
        }
        // Units are written in order: whoever reads the mode change reads all before it.
        self.head.rebuilding = false;
        let why = Arc::from("an operator chose how to go on");
        self.happen(Happening::ModeChanged { from: Mode::Recovery, to: Mode::Normal, why });
        self.close_unit();
        self.done(request, "the control plane works again");
    }

    /// No beat counted meanwhile: every node first gets a full lease.
    fn renew_leases(&mut self) {
        let expires_at = self.now.mono.plus(self.lease_ms());
        let nodes: Vec<_> = self.node_by_id.values().copied().collect();
        for at in nodes {
            if let Some(slot) = self.nodes.get_mut(at.0) {
                slot.expires_at = expires_at;
                slot.probe = None;
            }
        }
    }

    /// A node may go on with what it was told by decisions that are lost, as long as it is heard in the
    /// life it has. In the next one it says what it holds first, and does nothing before it is named.
    fn end_lives(&mut self) {
        let floor = self.first_session();
        let nodes: Vec<_> = self.node_by_id.values().copied().collect();
        for at in nodes {
            if let Some(slot) = self.nodes.get_mut(at.0) {
                let node = Arc::make_mut(&mut slot.node);
                node.session = node.session.max(floor);
            }
        }
    }

    /// Takes a snapshot for what is stored; gives what must leave the store for that.
    fn replace_by(&mut self, mut snapshot: Snapshot) -> Vec<Write> {
        let old = self.erasure();
        // A snapshot does not carry earlier revisions.
        for workload in &mut snapshot.workloads {
            if !workload.history.earlier().is_empty() {
                let workload = Arc::make_mut(workload);
                workload.history = workload.history.alone();
            }
        }
        self.refill(snapshot);
        old
    }

    /// Replaces all that is in memory by a snapshot.
    fn refill(&mut self, snapshot: Snapshot) {
        let heard = std::mem::take(&mut self.heard);
        let effects = std::mem::take(&mut self.effects);
        let audit = self.audit.take();
        let leads_until = self.leads_until;
        let known = self.high_water();
        let (event, chain) = (self.head.event, self.head.audit);
        let cluster = Arc::clone(&self.head.cluster);
        let (settings, counters) = (self.settings.clone(), snapshot.head.clone());
        *self = Self::empty(settings, self.lease_term, counters, None, cluster, self.now);
        // Nothing is settled yet: what is decided before the new incarnation begins is never stored as
        // it was decided, and an order about it would carry a life that has ended.
        self.fill(snapshot);
        self.effects = effects;
        self.audit = audit;
        self.leads_until = leads_until;
        self.known = Some(known);
        self.heard = heard;
        // What happened stays told: who follows events goes on where it was.
        self.head.event = self.head.event.max(event);
        // The audit log goes on where that of this store ends, and begins anew in an empty one: the
        // recovery is its next record.
        self.head.audit = chain;
    }

    /// All counters go on above anything anybody has seen.
    fn begin_incarnation(&mut self) {
        let known = self.high_water();
        let heard = self.heard.values();
        let seen = heard.clone().map(|registration| registration.term.incarnation()).max();
        let epochs = heard.flat_map(|registration| {
            let inventory = &registration.inventory;
            let held = inventory.held.iter().map(|held| held.report.epoch);
            held.chain(inventory.tombstones.iter().map(|tombstone| tombstone.epoch))
        });
        let newest = epochs.max().unwrap_or_default().max(self.head.epoch).next();
        let incarnation =
            self.head.incarnation.max(known.incarnation).max(seen.unwrap_or_default()) + 1;
        // Agents that have not been heard may hold any decision of an earlier incarnation.
        self.head.epoch = newest.max(Epoch(Term(1).in_incarnation(incarnation).0));
        self.head.incarnation = incarnation;
        self.head.seq = self.head.seq.max(known.seq);
        self.incarnation_since = self.head.seq.next();
        self.term = self.lease_term.in_incarnation(incarnation);
        self.opened_epoch = self.head.epoch;
    }

    /// The store may hold nothing, or something older: everything in memory is written, but for the
    /// workloads of which agents know better. A decision that is renewed is later than any that agents
    /// hold: if the recovery were interrupted behind it, the next one would believe the older record.
    fn write_everything(&mut self, plan: Option<&RecoveryPlan>) {
        let entries: Vec<_> = self.entries.iter().cloned().collect();
        for entry in entries {
            self.write(Write::PutEntry(entry));
            self.close_unit();
        }
        self.tell_entries();
        let nodes: Vec<_> = self.node_by_id.values().copied().collect();
        for at in nodes {
            if let Some(slot) = self.nodes.get_mut(at.0) {
                slot.lease = None;
            }
            self.touch_node(at);
            self.close_unit();
            self.renew_graves(at);
            self.write_drifts(at);
        }
        let outdone = |id: &WorkloadId| {
            plan.is_some_and(|p| p.restored.contains_key(id) || p.deleted.contains_key(id))
        };
        let workloads = self.workload_by_id.iter().filter(|(id, _)| !outdone(id));
        let workloads: Vec<_> = workloads.map(|(_, at)| *at).collect();
        for at in workloads {
            self.write_renewed(at);
            self.close_unit();
            self.mark_dirty(at);
        }
        self.write_volumes();
    }

    fn write_renewed(&mut self, at: WorkloadIndex) {
        self.renew_decisions(at);
        self.touch_intent(at);
        self.touch_decision(at);
        if self.workloads.get(at.0).is_some_and(|slot| slot.retry.is_some()) {
            self.touch_retry(at);
        }
    }

    fn write_drifts(&mut self, at: NodeIndex) {
        let Some(slot) = self.nodes.get(at.0) else { return };
        let drifts: Vec<_> = slot.drifts.values().cloned().collect();
        for drift in drifts {
            self.write(Write::PutDrift(drift));
            self.close_unit();
        }
    }

    /// An agent may have obeyed newer decisions than the recorded ones and forgotten them: only what
    /// is decided from now on is sent.
    fn renew_decisions(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let mut assignment = Arc::clone(&slot.assignment);
        let renewed = Arc::make_mut(&mut assignment);
        for former in renewed.former.values_mut() {
            former.epoch = self.draw_epoch(Some(former.epoch));
        }
        if let Some(place) = &mut renewed.place {
            place.epoch = self.draw_epoch(Some(place.epoch));
        }
        if let Some(slot) = self.workloads.get_mut(at.0) {
            slot.assignment = assignment;
        }
    }

    fn renew_graves(&mut self, at: NodeIndex) {
        let Some(slot) = self.nodes.get(at.0) else { return };
        let graves: Vec<_> = slot.graves.values().cloned().collect();
        for mut grave in graves {
            let epoch = self.draw_epoch(Some(grave.epoch));
            Arc::make_mut(&mut grave).epoch = epoch;
            if let Some(slot) = self.nodes.get_mut(at.0) {
                slot.graves.insert(grave.workload.clone(), Arc::clone(&grave));
            }
            self.write(Write::PutGrave(grave));
            self.close_unit();
        }
    }

    /// Records of what is not in memory any more leave the store.
    fn erase(&mut self, old: Vec<Write>) {
        for write in old {
            self.write(write);
            self.close_unit();
        }
    }

    /// What it takes to erase every record there is.
    fn erasure(&self) -> Vec<Write> {
        let mut writes: Vec<_> = self.entries.keys().cloned().map(Write::DeleteEntry).collect();
        for (id, at) in &self.workload_by_id {
            writes.push(Write::DeleteWorkload(id.clone()));
            writes.push(Write::DeleteAssignment(id.clone()));
            writes.push(Write::DeleteReconciliation(id.clone()));
            let Some(slot) = self.workloads.get(at.0) else { continue };
            if slot.retry.is_some() {
                writes.push(Write::DeleteRetry(id.clone()));
            }
            let HistoryChange { dropped, unused, .. } = slot.workload.history.all();
            writes.extend(dropped.into_iter().map(|one| Write::DeleteRevision(id.clone(), one)));
            writes.extend(unused.into_iter().map(|one| Write::DeleteBody(id.clone(), one)));
        }
        for (id, at) in &self.node_by_id {
            writes.push(Write::DeleteNode(id.clone()));
            writes.push(Write::DeleteLease(id.clone()));
            let Some(slot) = self.nodes.get(at.0) else { continue };
            let graves = slot.graves.keys();
            writes.extend(graves.map(|grave| Write::DeleteGrave(id.clone(), grave.clone())));
            let drifts = slot.drifts.keys();
            writes.extend(
                drifts.map(|(workload, kind)| {
                    Write::DeleteDrift(id.clone(), workload.clone(), *kind)
                }),
            );
        }
        writes.extend(self.volume_erasure());
        writes
    }

    fn rebuild(&mut self, heard: &BTreeMap<NodeId, Registration>, plan: &RecoveryPlan) {
        for registration in heard.values() {
            self.rebuild_node(registration);
        }
        for id in plan.deleted.keys() {
            self.rebuild_deleted(id);
            self.free_proven_gone(id, heard);
        }
        let newest = newest_copies(heard);
        for (id, node) in &plan.restored {
            if let Some((_, held)) = newest.get(id) {
                self.rebuild_workload(id, node, held);
            }
        }
        for (id, node) in &plan.superseded {
            let Some(at) = self.workload_by_id.get(id).copied() else { continue };
            let known = self
                .workloads
                .get(at.0)
                .is_some_and(|slot| slot.assignment.former.contains_key(node));
            if known {
                continue;
            }
            let epoch = self.draw_epoch(None);
            let former = FormerCopy {
                epoch,
                reserved: persys_model::resources::Resources::default(),
                restart: false,
            };
            if let Some(slot) = self.workloads.get_mut(at.0) {
                Arc::make_mut(&mut slot.assignment).former.insert(node.clone(), former);
            }
            if let Some(node) = self.node_at(node).and_then(|at| self.nodes.get_mut(at.0)) {
                node.formers.insert(at);
            }
            self.touch_decision(at);
            self.close_unit();
        }
        self.leave_volumes(plan);
    }

    fn rebuild_node(&mut self, registration: &Registration) {
        let id = &registration.facts.id;
        if self.node_by_id.contains_key(id) {
            return;
        }
        let node = Node {
            facts: registration.facts.clone(),
            session: Session(self.first_session().0),
            labels: persys_model::labels::Labels::new(),
            hidden_labels: BTreeSet::new(),
            taints: BTreeSet::new(),
            drain: None,
            condition: Condition::Ready,
            since: self.now.wall,
        };
        let at = self.fill_node(Arc::new(node), self.lease_ms());
        self.happen(Happening::NodeRegistered { id: id.clone() });
        self.touch_node(at);
        self.close_unit();
    }

    fn rebuild_deleted(&mut self, id: &WorkloadId) {
        let Some(at) = self.workload_by_id.get(id).copied() else { return };
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let workload = Arc::make_mut(&mut slot.workload);
        workload.desired = Desired::Deleted;
        workload.generation = workload.generation.next();
        let message = "an agent proves it was deleted";
        self.write_renewed(at);
        if self.workloads.get(at.0).is_some_and(|slot| slot.assignment.phase != Phase::Deleting) {
            self.set_phase(at, Phase::Deleting, ReasonCode::Recovered, message, None);
        }
        self.close_unit();
        self.mark_dirty(at);
    }

    fn rebuild_workload(&mut self, id: &WorkloadId, node: &NodeId, held: &Held) {
        let Some(spec) = held.spec.clone() else { return };
        let mut former = BTreeMap::new();
        if let Some(at) = self.workload_by_id.get(id).copied() {
            // An older record: what the agent holds is newer. The old record leaves first; its
            // earlier copies are earlier copies of the new one.
            if let Some(slot) = self.workloads.get(at.0) {
                former = slot.assignment.former.clone();
            }
            for elsewhere in former.keys() {
                self.drop_former(at, elsewhere);
            }
            former.remove(node);
            for copy in former.values_mut() {
                copy.epoch = self.draw_epoch(Some(copy.epoch));
            }
            self.drop_place(at);
            let from = self.workloads.get(at.0).map(|slot| slot.assignment.phase);
            self.waiting.leave(at, &mut self.workloads);
            self.happen(recovered(id, from, None, None));
            self.forget_writes(at, id);
            self.workload_by_id.remove(id);
            self.capital_ids.remove(id);
            self.workloads.remove(at.0);
            self.close_unit();
        }
        let phase = phase_of(held);
        let resources = spec.resources.clone();
        let may_run = phase == Phase::Failed && spec.kind.updates_in_place();
        let holds = phase.holds_compute() || may_run;
        let reserved = if holds { resources } else { resources.at_rest() };
        let place = Place {
            paused: held.run && held.pause,
            ..Place::found(node.clone(), held.report.epoch, reserved, spec.host_ports())
        };
        let data_on = spec.stays_with_node().then(|| node.clone());
        let wall = self.now.wall;
        let failure = failure_in(&held.report.state);
        let message = Arc::from(format!("from what {node} holds"));
        let reason = Reason { code: ReasonCode::Recovered, message, failure, since: wall };
        let workload = Workload {
            id: id.clone(),
            spec,
            revision: held.revision.clone(),
            generation: Generation(1),
            desired: desired_of(held),
            created_at: wall,
            history: History::default(),
        };
        let found = Assignment::found(id.clone(), phase, reason, place);
        let assignment = Assignment { former, data_on, ..found };
        let at = self.insert_workload(workload, assignment);
        self.account(at);
        if let Some(node) = self.node_at(node) {
            self.drop_grave(node, at);
        }
        self.call_off_deletions(at);
        self.happen(recovered(id, None, Some(phase), Some((node.clone(), held.report.epoch))));
        self.close_unit();
        self.mark_dirty(at);
    }
}

fn failure_in(state: &State) -> Option<Failure> {
    match state {
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

fn recovered(
    id: &WorkloadId,
    from: Option<Phase>,
    to: Option<Phase>,
    place: Option<(NodeId, Epoch)>,
) -> Happening {
    let (node, epoch) = place.unzip();
    let (code, message) = (ReasonCode::Recovered, Arc::from(""));
    let (revision, task) = (None, None);
    Happening::Workload { id: id.clone(), from, to, code, message, node, epoch, revision, task }
}

/// The wish that matches what an agent holds.
pub(super) fn desired_of(held: &Held) -> Desired {
    match (held.run, held.pause) {
        (false, _) => Desired::Stopped,
        (true, false) => Desired::Running,
        (true, true) => Desired::Paused,
    }
}

/// The phase that matches what an agent holds.
fn phase_of(held: &Held) -> Phase {
    match (&held.report.state, held.run) {
        (State::Running, true) => Phase::Running,
        (State::Paused, true) => Phase::Paused,
        (State::Unresponsive, true) => Phase::Unresponsive,
        (State::Restarting(_), true) => Phase::Restarting,
        (State::Pending | State::Stopped | State::Unknown, true) => Phase::Starting,
        (State::Completed, true) => Phase::Completed,
        (State::Failed(_), true) => Phase::Failed,
        (
            State::Running
            | State::Paused
            | State::Unresponsive
            | State::Restarting(_)
            | State::Pending
            | State::Unknown,
            false,
        ) => Phase::Stopping,
        (State::Stopped | State::Completed | State::Failed(_), false) => Phase::Stopped,
    }
}
