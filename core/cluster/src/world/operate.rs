//! What operators ask for: nodes, the brake, orphans.

use std::sync::Arc;

use persys_model::assignment::{Assignment, Grave, Place, Reason, ReasonCode};
use persys_model::drift::DriftKind;
use persys_model::event::{Happening, NodeChange};
use persys_model::history::History;
use persys_model::id::{NodeId, WorkloadId};
use persys_model::inventory::Held;
use persys_model::node::{Condition, Node};
use persys_model::phase::Phase;
use persys_model::token::Generation;
use persys_model::workload::{Desired, Workload};

use super::World;
use super::recovery::desired_of;
use crate::effects::{Mark, RefusalCode};
use crate::input::{Ask, OrphanVerdict, Probe, RequestId};
use crate::placement::NodeIndex;
use crate::record::Write;

impl World {
    pub(super) fn operate(&mut self, request: RequestId, ask: Ask) {
        match ask {
            Ask::Drain(node, why) => self.change_node(request, &node, NodeChange::Draining, |n| {
                n.drain = Some(why);
            }),
            Ask::Undrain(node) => {
                self.change_node(request, &node, NodeChange::Undrained, |n| n.drain = None);
            }
            Ask::Taint(node, taint) => {
                self.change_node(request, &node, NodeChange::Tainted, |n| {
                    n.taints.retain(|t| (&t.key, t.effect) != (&taint.key, taint.effect));
                    n.taints.insert(taint);
                });
            }
            Ask::Untaint(node, key, effect) => {
                self.change_node(request, &node, NodeChange::Untainted, |n| {
                    n.taints.retain(|t| t.key != key || effect.is_some_and(|e| e != t.effect));
                });
            }
            Ask::SetLabel(node, key, value) => {
                self.change_node(request, &node, NodeChange::LabelSet, |n| {
                    n.hidden_labels.remove(&key);
                    n.labels.insert(key, value);
                });
            }
            Ask::DeleteLabel(node, key) => {
                self.change_node(request, &node, NodeChange::LabelDeleted, |n| {
                    n.labels.remove(&key);
                    if n.facts.labels.contains_key(&key) {
                        n.hidden_labels.insert(key);
                    }
                });
            }
            Ask::ConfirmGone(node) => self.confirm_gone(request, &node),
            Ask::RemoveNode(node) => self.remove_node(request, &node),
            Ask::ReleaseBrake => self.release_brake(request),
            Ask::Orphan(node, workload, verdict) => {
                self.judge_orphan(request, &node, &workload, verdict);
            }
            Ask::CheckDrift(node) => self.check_drift(request, node.as_ref()),
            Ask::Apply { .. }
            | Ask::Rollback(_)
            | Ask::Planned(..)
            | Ask::Delete(_)
            | Ask::DeleteWithVolumes(_)
            | Ask::Retry(_)
            | Ask::Restart(_)
            | Ask::Resume(_)
            | Ask::Keep(_)
            | Ask::Forget(_)
            | Ask::Redeem(_)
            | Ask::CreateVolume(..)
            | Ask::DeleteVolume(_)
            | Ask::Refused { .. }
            | Ask::Recover(_) => {}
        }
    }

    fn known_node(&mut self, request: RequestId, node: &NodeId) -> Option<NodeIndex> {
        let at = self.node_at(node);
        if at.is_none() {
            self.refuse(request, RefusalCode::NotFound, format!("there is no node {node}"));
        }
        at
    }

    fn change_node(
        &mut self,
        request: RequestId,
        id: &NodeId,
        what: NodeChange,
        change: impl FnOnce(&mut Node),
    ) {
        let Some(at) = self.known_node(request, id) else { return };
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        let before = Arc::clone(&slot.node);
        change(Arc::make_mut(&mut slot.node));
        if *before == *slot.node {
            self.mark(Mark::Idempotent);
            return self.done(request, "nothing to change");
        }
        let assigned = slot.assigned.clone();
        self.index_node(at);
        self.touch_node(at);
        self.happen(Happening::NodeChanged { id: id.clone(), what });
        self.close_unit();
        for workload in assigned {
            self.mark_dirty(workload);
        }
        self.done(request, "accepted");
    }

    /// An operator vouches that a silent node is off.
    fn confirm_gone(&mut self, request: RequestId, id: &NodeId) {
        let Some(at) = self.known_node(request, id) else { return };
        if let Err(why) = self.may_confirm_gone(at, id) {
            return self.refuse(request, RefusalCode::Conflict, why);
        }
        if self.nodes.get(at.0).is_some_and(|slot| slot.node.condition != Condition::Lost) {
            self.declare_lost(at, "an operator confirmed that it is gone");
        }
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        slot.confirmed_gone = true;
        self.room_changed = true;
        let Some(slot) = self.nodes.get(at.0) else { return };
        let concerned: Vec<_> = slot.assigned.iter().chain(&slot.formers).copied().collect();
        let what = NodeChange::ConfirmedGone;
        self.happen(Happening::NodeChanged { id: id.clone(), what });
        self.close_unit();
        // Those that wait for its fence wait in no queue of the node: look at all that moved off.
        for workload in concerned {
            self.mark_dirty(workload);
        }
        self.done(request, "accepted");
    }

    /// A node may be confirmed as gone when it is lost, or silent and no agent answers there.
    fn may_confirm_gone(&self, at: NodeIndex, id: &NodeId) -> Result<(), String> {
        let Some(slot) = self.nodes.get(at.0) else { return Ok(()) };
        let found = slot.probe.and_then(|probing| probing.found).map(|(_, found)| found);
        match (slot.node.condition, found) {
            (Condition::Lost, _) | (Condition::NotReady, Some(Probe::Refused | Probe::Silent)) => {
                Ok(())
            }
            (Condition::NotReady, None) => {
                Err(format!("node {id} was not probed yet; try again in a few seconds"))
            }
            (Condition::Ready, _) | (Condition::NotReady, Some(Probe::Answered)) => Err(format!(
                "node {id} is {}, not lost: its agent answers, and what runs there goes on; \
                 empty it with persys node drain {id}, or stop its agent first",
                slot.node.status_word()
            )),
        }
    }

    /// Forgets a node: what is there is given up with it.
    fn remove_node(&mut self, request: RequestId, id: &NodeId) {
        let Some(at) = self.known_node(request, id) else { return };
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        let empty = slot.assigned.is_empty() && slot.node.drain.is_some();
        if slot.node.condition == Condition::Ready && !empty {
            let why = format!("node {id} is alive and in use; drain it first");
            return self.refuse(request, RefusalCode::Conflict, why);
        }
        slot.confirmed_gone = true;
        let (assigned, formers) = (slot.assigned.clone(), slot.formers.clone());
        let graves: Vec<_> = slot.graves.keys().cloned().collect();
        let drifts: Vec<_> = slot.drifts.keys().cloned().collect();
        for (workload, kind) in drifts {
            if kind == DriftKind::OrphanOnAgent {
                self.not_an_orphan(at, &workload);
            }
            self.write(Write::DeleteDrift(id.clone(), workload, kind));
        }
        for workload in graves {
            self.unbury(at, &workload);
            self.mark_named_dirty(&workload);
            self.write(Write::DeleteGrave(id.clone(), workload));
        }
        self.write(Write::DeleteNode(id.clone()));
        self.write(Write::DeleteLease(id.clone()));
        self.happen(Happening::NodeChanged { id: id.clone(), what: NodeChange::Removed });
        self.node_by_id.remove(id);
        self.silent.remove(&at);
        self.index.remove_node(at);
        self.nodes.remove(at.0);
        self.volumes_lose_node(id);
        self.close_unit();
        for workload in assigned.into_iter().chain(formers) {
            self.leave_removed_node(workload, id);
            self.close_unit();
        }
        self.look_at_brake();
        self.done(request, "accepted");
    }

    /// Exclusive work of this name may have waited for what is no more.
    fn mark_named_dirty(&mut self, id: &WorkloadId) {
        if let Some(at) = self.workload_by_id.get(id).copied() {
            self.mark_dirty(at);
        }
    }

    /// A workload that was, or may have been, on a node that is no more.
    fn leave_removed_node(&mut self, at: super::WorkloadIndex, node: &NodeId) {
        self.drop_former(at, node);
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        if slot.assignment.data_on.as_ref() == Some(node) {
            Arc::make_mut(&mut slot.assignment).data_on = None;
            self.touch_decision(at);
        }
        let Some(slot) = self.workloads.get(at.0) else { return };
        if slot.assignment.place.as_ref().is_some_and(|place| place.node == *node) {
            let phase = slot.assignment.phase;
            self.drop_place(at);
            let runs =
                phase.holds_compute() && phase != Phase::Stopping && phase != Phase::Deleting;
            if runs {
                self.set_phase(
                    at,
                    Phase::Pending,
                    ReasonCode::NodeLost,
                    "its node was removed",
                    None,
                );
            }
        }
        self.mark_dirty(at);
    }

    fn release_brake(&mut self, request: RequestId) {
        if !self.brake {
            self.mark(Mark::Idempotent);
            return self.done(request, "the brake is not on");
        }
        self.brake_released = true;
        self.look_at_brake();
        self.done(request, "accepted");
    }

    /// Has nodes tell all they hold with their next beat.
    fn check_drift(&mut self, request: RequestId, node: Option<&NodeId>) {
        let asked = match node {
            Some(id) => match self.known_node(request, id) {
                Some(at) => vec![at],
                None => return,
            },
            None => self.node_by_id.values().copied().collect(),
        };
        let (mut ready, mut silent, mut unable) = (0_usize, 0_usize, Vec::new());
        for at in &asked {
            let Some(slot) = self.nodes.get_mut(at.0) else { continue };
            let facts = &slot.node.facts;
            if slot.node.condition != Condition::Ready {
                silent += 1;
            } else if facts.is_contract() && !facts.is_asked_for_inventory() {
                unable.push(facts.id.to_string());
                continue;
            } else {
                ready += 1;
            }
            slot.want_inventory = true;
        }
        let mut said = format!("{ready} of {} nodes are asked for all they hold", asked.len());
        if silent > 0 {
            said.push_str("; the others are silent");
        }
        if !unable.is_empty() {
            said = format!("{said}; cannot be asked over their stream: {}", unable.join(", "));
        }
        self.done(request, said);
    }

    fn judge_orphan(
        &mut self,
        request: RequestId,
        node: &NodeId,
        id: &WorkloadId,
        verdict: OrphanVerdict,
    ) {
        let Some(at) = self.known_node(request, node) else { return };
        let held = self.nodes.get(at.0).and_then(|slot| slot.orphans.get(id));
        let Some(held) = held.map(|orphan| orphan.held.clone()) else {
            let why = format!("node {node} has no unknown workload {id}");
            return self.refuse(request, RefusalCode::NotFound, why);
        };
        if self.workload_by_id.contains_key(id) {
            // Another copy of it was adopted since: a grave here would be dug beside its place.
            let why = format!(
                "{id} is a workload of this cluster by now; its copy on {node} is removed or taken over with \
                 the next list of that node"
            );
            return self.refuse(request, RefusalCode::Conflict, why);
        }
        let left_alone = self.orphan_in_shadow(id, held.spec.as_deref());
        match verdict {
            OrphanVerdict::Adopt | OrphanVerdict::Delete if left_alone.is_some() => {
                self.refuse(request, RefusalCode::Conflict, left_alone.unwrap_or_default());
            }
            OrphanVerdict::Adopt => {
                let elsewhere = |spec| self.had_elsewhere(id, spec, node);
                let taken = |spec| elsewhere(spec).map(|why| (RefusalCode::Conflict, why));
                let unfit = |spec| self.unfit(id, spec).or_else(|| taken(spec));
                match held.spec.as_deref().and_then(unfit) {
                    Some((code, why)) => self.refuse(request, code, why),
                    None => self.adopt(request, at, id, held),
                }
            }
            OrphanVerdict::Delete => {
                self.forget_orphan(at, id);
                let epoch = self.draw_epoch(Some(held.report.epoch));
                let (workload, node) = (id.clone(), node.clone());
                if let Some(spec) = &held.spec {
                    self.orphan_leaves(at, id, spec);
                }
                let reserved = held.spec.map(|spec| spec.resources.clone()).unwrap_or_default();
                self.dig(Grave { workload, node, epoch, reserved, version: None });
                self.close_unit();
                self.done(request, "accepted");
            }
            OrphanVerdict::Ignore => self.ignore_orphan(request, at, id),
        }
    }

    /// Takes over what a node runs without us: same version, new decision.
    fn adopt(&mut self, request: RequestId, at: NodeIndex, id: &WorkloadId, held: Held) {
        let wanted = desired_of(&held);
        let Some(spec) = held.spec else {
            let why =
                format!("the node knows {id} only by its labels; delete it and apply its spec");
            return self.refuse(request, RefusalCode::Conflict, why);
        };
        if let Some(why) = self.taken_name(id) {
            return self.refuse(request, RefusalCode::Conflict, why);
        }
        // Its own share is already counted against the node; whatever is free beyond that is more.
        if held.run && !self.index.capacity(at).covers(self.index.taken(at)) {
            let why = format!(
                "{} has no room for it: stop or move something there first",
                self.node_id(at)
            );
            return self.refuse(request, RefusalCode::Conflict, why);
        }
        self.mark(Mark::OrphanAdopted);
        self.forget_orphan(at, id);
        let epoch = self.draw_epoch(Some(held.report.epoch));
        let (desired, phase) =
            if held.run { (wanted, Phase::Starting) } else { (Desired::Stopped, Phase::Stopped) };
        let (resources, node) = (spec.resources.clone(), self.node_id(at));
        let reserved = if held.run { resources } else { resources.at_rest() };
        let place = Place {
            paused: wanted == Desired::Paused,
            ..Place::found(node.clone(), epoch, reserved, spec.host_ports())
        };
        let data_on = spec.stays_with_node().then(|| node.clone());
        let reason = Reason {
            code: ReasonCode::Adopted,
            message: Arc::from(format!("on {node}")),
            failure: None,
            since: self.now.wall,
        };
        let workload = Workload {
            id: id.clone(),
            spec,
            revision: held.revision,
            generation: Generation(1),
            desired,
            created_at: self.now.wall,
            history: History::of_one(self.revision_origin(None)),
        };
        let found = Assignment::found(id.clone(), phase, reason, place);
        let assignment = Assignment { data_on, ..found };
        let revision = Some(workload.revision.clone());
        let index = self.insert_workload(workload, assignment);
        self.account(index);
        self.call_off_deletions(index);
        self.happen(Happening::Workload {
            id: id.clone(),
            from: None,
            to: Some(phase),
            code: ReasonCode::Adopted,
            message: Arc::from(format!("on {node}")),
            node: Some(node),
            epoch: Some(epoch),
            revision,
            task: None,
        });
        self.close_unit();
        self.mark_dirty(index);
        self.done(request, "accepted");
    }

    fn ignore_orphan(&mut self, request: RequestId, at: NodeIndex, id: &WorkloadId) {
        if let Some(why) = self.in_the_way(id, at) {
            return self.refuse(request, RefusalCode::Conflict, why);
        }
        let key = (id.clone(), DriftKind::OrphanOnAgent);
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        if let Some(drift) = slot.drifts.get_mut(&key) {
            Arc::make_mut(drift).ignored = true;
            let drift = Arc::clone(drift);
            self.write(Write::PutDrift(drift));
            self.close_unit();
        }
        self.done(request, "accepted");
    }
}
