//! What users ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_model::assignment::{Assignment, Reason, ReasonCode, Version};
use persys_model::event::Happening;
use persys_model::history::History;
use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::phase::Phase;
use persys_model::spec::Spec;
use persys_model::spec::canonical::content_revision;
use persys_model::token::Generation;
use persys_model::workload::{Desired, Workload};

use super::World;
use super::attempt::Attempt;
use super::slots::{WorkloadIndex, WorkloadSlot};
use super::update::is_failed;
use crate::effects::{ACCEPTED, Mark, RefusalCode, UNCHANGED};
use crate::input::{Ask, RequestId};

impl World {
    pub(super) fn ask(&mut self, request: RequestId, ask: Ask) {
        match ask {
            Ask::Apply { workload, spec, revision, desired } => match desired {
                Desired::Deleted => self.ask_delete(request, &workload, true),
                Desired::Running | Desired::Paused | Desired::Stopped => {
                    match self.workload_by_id.get(&workload).copied() {
                        Some(at) => {
                            self.change(request, at, (spec, revision.as_ref(), None), desired);
                        }
                        None => self.submit(request, workload, spec, revision, desired),
                    }
                }
            },
            Ask::Rollback(asked) => self.ask_rollback(request, asked),
            Ask::Planned(plan, ask) => self.ask_planned(request, &plan, *ask),
            Ask::Delete(workload) => self.ask_delete(request, &workload, true),
            Ask::DeleteWithVolumes(workload) => self.ask_delete(request, &workload, false),
            Ask::Retry(workload) => self.ask_retry(request, &workload),
            Ask::Restart(workload) => self.ask_restart(request, &workload),
            Ask::Resume(workload) => self.ask_resume(request, &workload),
            Ask::Keep(entry) => self.keep(request, &entry),
            Ask::Forget(key) => self.forget(request, &key),
            Ask::Redeem(claim) => self.redeem(request, &claim),
            // Written down before it gets here.
            Ask::Refused { .. } => {}
            Ask::Recover(_) if self.is_doubted() => {
                let why = "an operator said that the store is older than what an agent holds";
                self.enter_recovery(Arc::from(why));
                let why = "the control plane is in recovery now and hears its agents; run the same \
                           command again to see and carry out the plan";
                self.refuse(request, RefusalCode::Unavailable, why);
            }
            Ask::Recover(_) => {
                let why = "the control plane works normally: there is nothing to recover";
                self.refuse(request, RefusalCode::Conflict, why);
            }
            ask @ (Ask::Drain(..)
            | Ask::Undrain(_)
            | Ask::Taint(..)
            | Ask::Untaint(..)
            | Ask::SetLabel(..)
            | Ask::DeleteLabel(..)
            | Ask::ConfirmGone(_)
            | Ask::RemoveNode(_)
            | Ask::ReleaseBrake
            | Ask::Orphan(..)
            | Ask::CheckDrift(_)) => self.operate(request, ask),
            Ask::CreateVolume(asked, node) => self.create_volume(request, &asked, node),
            Ask::DeleteVolume(key) => self.delete_volume(request, &key),
        }
    }

    /// A workload nobody knows yet.
    fn submit(
        &mut self,
        request: RequestId,
        id: WorkloadId,
        spec: Option<Arc<Spec>>,
        revision: Option<RevisionId>,
        desired: Desired,
    ) {
        if let Some((code, why)) = self.unwelcome(&id, spec.as_ref(), revision.as_ref()) {
            return self.refuse(request, code, why);
        }
        let (Some(spec), Some(revision)) = (spec, revision) else { return };
        let wall = self.now.wall;
        let phase = if desired.is_up() { Phase::Pending } else { Phase::Stopped };
        let (code, version) = (ReasonCode::Submitted, revision.clone());
        let data_on = spec.adopt_on().or_else(|| self.take_stack_volumes(&id, &spec));
        let at = self.insert_workload(
            Workload {
                id: id.clone(),
                spec,
                revision,
                generation: Generation(1),
                desired,
                created_at: wall,
                history: History::of_one(self.revision_origin(None)),
            },
            Assignment {
                workload: id.clone(),
                phase,
                reason: Reason { code, message: Arc::from(""), failure: None, since: wall },
                place: None,
                former: BTreeMap::new(),
                data_on,
                update: None,
                health: None,
            },
        );
        self.happen(Happening::Workload {
            id,
            from: None,
            to: Some(phase),
            code,
            message: Arc::from(""),
            node: None,
            epoch: None,
            revision: Some(version),
            task: None,
        });
        self.settle(at);
        self.done(request, ACCEPTED);
    }

    /// Why a workload nobody knows yet is not taken, if so.
    pub(super) fn unwelcome(
        &self,
        id: &WorkloadId,
        spec: Option<&Arc<Spec>>,
        revision: Option<&RevisionId>,
    ) -> Option<(RefusalCode, String)> {
        let Some(spec) = spec else {
            let why = format!("there is no workload {id}, and no spec was given to make one");
            return Some((RefusalCode::NotFound, why));
        };
        if revision.is_none() {
            return Some((RefusalCode::Invalid, "a spec needs a revision".to_owned()));
        }
        if let Some(why) = self.case_conflict(id) {
            return Some((RefusalCode::Conflict, why));
        }
        if let Some(unfit) = self.unfit(id, spec) {
            return Some(unfit);
        }
        if let Some(node) = self.orphans.get(id).and_then(|nodes| nodes.first()) {
            let node = self.node_id(*node);
            let why = format!(
                "{node} already has a workload {id} that nobody here knows: adopt it, delete it, or \
                 choose another name"
            );
            return Some((RefusalCode::Conflict, why));
        }
        if let Some(why) = self.volume_conflict(id, spec) {
            return Some((RefusalCode::Conflict, why));
        }
        (self.waiting.len() >= self.settings.pending_limit).then(|| {
            let why = format!("{} workloads already wait for room", self.waiting.len());
            (RefusalCode::Exhausted, why)
        })
    }

    /// Why a known workload is not changed so, if so.
    pub(super) fn unchangeable(
        &self,
        at: WorkloadIndex,
        spec: Option<&Arc<Spec>>,
        revision: Option<&RevisionId>,
    ) -> Option<(RefusalCode, String)> {
        let current = &self.workloads.get(at.0)?.workload;
        if current.desired == Desired::Deleted {
            let why = format!("{} is being deleted; apply it again once it is gone", current.id);
            return Some((RefusalCode::Conflict, why));
        }
        let spec = spec?;
        if meant(current, spec, revision) == current.revision {
            return None;
        }
        let (here, there) = (current.spec.namespace(), spec.namespace());
        if here != there {
            let why = format!(
                "{} is in the namespace {here} and does not move to {there}: delete it and apply \
                 it there",
                current.id
            );
            return Some((RefusalCode::Conflict, why));
        }
        let conflict = || Some((RefusalCode::Conflict, self.volume_conflict(&current.id, spec)?));
        self.unfit(&current.id, spec).or_else(conflict)
    }

    /// Puts a new workload into memory and into the open unit.
    pub(super) fn insert_workload(
        &mut self,
        workload: Workload,
        assignment: Assignment,
    ) -> WorkloadIndex {
        let id = workload.id.clone();
        let at = WorkloadIndex(self.workloads.insert(WorkloadSlot {
            workload: Arc::new(workload),
            assignment: Arc::new(assignment),
            retry: None,
            seen: None,
            told: None,
            admitted: None,
            task: None,
            dirty: false,
            waits: None,
            retry_due: None,
            healthy_since: None,
            amiss_since: None,
            runs_older: false,
            attempt: Attempt::new(true, 0, self.now.mono),
        }));
        self.capital_ids.insert(&id);
        self.workload_by_id.insert(id, at);
        self.touch_intent(at);
        self.touch_decision(at);
        at
    }

    /// A new version of a known workload, or a new desired state.
    pub(super) fn change(
        &mut self,
        request: RequestId,
        at: WorkloadIndex,
        (spec, given, rolled_back_to): (Option<Arc<Spec>>, Option<&RevisionId>, Option<u32>),
        desired: Desired,
    ) {
        if let Some((code, why)) = self.unchangeable(at, spec.as_ref(), given) {
            return self.refuse(request, code, why);
        }
        if desired == Desired::Paused
            && let Some(why) = self.unpausable(at)
        {
            return self.refuse(request, RefusalCode::Conflict, why);
        }
        let Some(current) = self.workloads.get(at.0).map(|slot| &slot.workload) else { return };
        let meant = spec.as_ref().map(|spec| meant(current, spec, given));
        let new_revision = meant.filter(|meant| *meant != current.revision);
        let new_version = new_revision.is_some();
        if !new_version && current.desired == desired && !self.is_found_paused(at) {
            self.mark(Mark::Idempotent);
            return self.done(request, UNCHANGED);
        }
        // The client is told which revision its content has, if not the one it named.
        let renamed = new_revision.as_ref().filter(|new| given.is_none_or(|given| given != *new));
        let renamed = renamed.map(|new| says_renamed(current, given, new));
        if new_version {
            let failed = self.present_failure(at);
            self.begin_update(at, desired);
            self.supersede(at, rolled_back_to, &failed);
        }
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let current = &slot.workload;
        if new_version
            && let Some(place) = &slot.assignment.place
            && place.version.is_none()
        {
            // Should the new version find no room, its node may have to be told the old one again.
            let (revision, spec) = (current.revision.clone(), Arc::clone(&current.spec));
            if let Some(place) = Arc::make_mut(&mut slot.assignment).place.as_mut() {
                place.version = Some(Version { revision, spec });
            }
            self.touch_decision(at);
        }
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let workload = Arc::make_mut(&mut slot.workload);
        workload.generation = workload.generation.next();
        workload.desired = desired;
        self.drop_restart(at);
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let workload = Arc::make_mut(&mut slot.workload);
        if let (Some(spec), Some(revision)) = (spec, new_revision) {
            workload.spec = spec;
            workload.revision = revision;
        }
        self.touch_intent(at);
        self.follow_update(at, new_version, desired);
        self.forget_failures(at);
        if let Some(number) = rolled_back_to {
            let message = format!("rolled back to revision {number}");
            self.set_reason(at, ReasonCode::RolledBack, &message);
        } else if new_version {
            let reason = renamed.as_deref().unwrap_or("a new revision was applied");
            self.set_reason(at, ReasonCode::Updated, reason);
        }
        self.begin_change(at, desired);
        self.settle(at);
        self.done(request, renamed.as_deref().unwrap_or(ACCEPTED));
    }

    /// Moves the phase along as far as the user's word alone carries it.
    pub(super) fn begin_change(&mut self, at: WorkloadIndex, desired: Desired) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let placed = slot.assignment.place.is_some();
        match (desired, slot.assignment.phase) {
            (
                Desired::Stopped,
                Phase::Starting
                | Phase::Running
                | Phase::Paused
                | Phase::Unresponsive
                | Phase::Restarting,
            ) => {
                self.set_phase(at, Phase::Stopping, ReasonCode::StopRequested, "", None);
            }
            (
                Desired::Stopped,
                Phase::Pending | Phase::Backoff | Phase::Failed | Phase::Completed,
            ) => {
                self.waiting.leave(at, &mut self.workloads);
                self.set_phase(at, Phase::Stopped, ReasonCode::StopRequested, "", None);
                self.rest(at);
            }
            (
                Desired::Running | Desired::Paused,
                Phase::Stopped | Phase::Failed | Phase::Completed,
            ) if !placed => {
                self.set_phase(at, Phase::Pending, ReasonCode::StartRequested, "", None);
            }
            (Desired::Paused, _) => {
                let by = self.audit.as_ref().map_or("", |audit| &*audit.author.who).to_owned();
                let message = if by.is_empty() { by } else { format!("paused by {by}") };
                self.set_reason(at, ReasonCode::PauseRequested, &message);
            }
            (Desired::Running, Phase::Paused) => {
                self.set_reason(at, ReasonCode::StartRequested, "");
            }
            (Desired::Stopped | Desired::Running | Desired::Deleted, _) => {}
        }
    }

    fn ask_delete(&mut self, request: RequestId, id: &WorkloadId, keep_volumes: bool) {
        let Some(at) = self.workload_by_id.get(id).copied() else {
            let why = format!("there is no workload {id}");
            return self.refuse(request, RefusalCode::NotFound, why);
        };
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        if slot.workload.desired == Desired::Deleted {
            self.mark(Mark::Idempotent);
            return self.done(request, "already being deleted");
        }
        let workload = Arc::make_mut(&mut slot.workload);
        workload.generation = workload.generation.next();
        workload.desired = Desired::Deleted;
        let left = self.left_running(at);
        self.touch_intent(at);
        self.spare_shared_data(id);
        let kept = self.keep_stack_volumes(at, keep_volumes);
        self.waiting.leave(at, &mut self.workloads);
        self.set_phase(at, Phase::Deleting, ReasonCode::DeleteRequested, "", None);
        self.settle(at);
        let notes: Vec<String> = left.into_iter().chain(kept).collect();
        let notes = notes.join("; ");
        self.done(request, if notes.is_empty() { ACCEPTED } else { &notes });
    }

    /// What a deletion leaves behind for now: copies on nodes that do not answer.
    fn left_running(&self, at: WorkloadIndex) -> Option<String> {
        let assignment = &self.workloads.get(at.0)?.assignment;
        let here = assignment.place.iter().map(|place| &place.node);
        let silent = |id: &&NodeId| self.node_at(id).is_some_and(|at| self.silent.contains(&at));
        let nodes: BTreeSet<&NodeId> =
            here.chain(assignment.former.keys()).filter(silent).collect();
        let first = nodes.first()?;
        let names = nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let (copy, verb, each) = match nodes.len() {
            1 => ("copy", "does", "it answers"),
            _ => ("copies", "do", "each answers"),
        };
        Some(format!(
            "{names} {verb} not answer: what runs there runs on. The {copy} will be removed as soon \
             as {each} again; if the machine is gone for good, say so with `persys node \
             confirm-gone {first}`"
        ))
    }

    /// What is paused runs again: by its user's word, or by an operator's after a fault paused it.
    fn ask_resume(&mut self, request: RequestId, id: &WorkloadId) {
        let Some(at) = self.workload_by_id.get(id).copied() else {
            let why = format!("there is no workload {id}");
            return self.refuse(request, RefusalCode::NotFound, why);
        };
        let Some(slot) = self.workloads.get(at.0) else { return };
        if slot.workload.desired == Desired::Stopped {
            let why = format!("{id} is stopped, not paused: start it with `persys start {id}`");
            return self.refuse(request, RefusalCode::Conflict, why);
        }
        self.change(request, at, (None, None, None), Desired::Running);
    }

    /// True if it is paused although nobody asked for that here: its agent may have given it up.
    fn is_found_paused(&self, at: WorkloadIndex) -> bool {
        self.workloads.get(at.0).is_some_and(|slot| {
            slot.assignment.phase == Phase::Paused && slot.workload.desired == Desired::Running
        })
    }

    fn ask_retry(&mut self, request: RequestId, id: &WorkloadId) {
        let Some(at) = self.workload_by_id.get(id).copied() else {
            let why = format!("there is no workload {id}");
            return self.refuse(request, RefusalCode::NotFound, why);
        };
        let Some(slot) = self.workloads.get(at.0) else { return };
        match (slot.workload.desired, slot.assignment.phase) {
            (Desired::Running | Desired::Paused, Phase::Failed | Phase::Backoff) => {
                self.try_again(at);
                self.done(request, ACCEPTED);
            }
            (Desired::Running | Desired::Paused, _) if is_failed(slot) => {
                self.try_again(at);
                self.done(request, ACCEPTED);
            }
            (Desired::Running | Desired::Paused | Desired::Stopped | Desired::Deleted, _) => {
                self.mark(Mark::Idempotent);
                self.done(request, "nothing failed: there is nothing to try again");
            }
        }
    }
}

/// The note for a client whose name for a content was taken.
fn says_renamed(current: &Workload, given: Option<&RevisionId>, new: &RevisionId) -> String {
    format!(
        "revision {} of {} already names another content, so this content is revision {new}",
        given.unwrap_or(&current.revision),
        current.id,
    )
}

/// Digits of its content that tell a revision from another one of the same name.
const CONTENT_DIGITS: usize = 8;

/// The revision that `spec` has as the next version of `current`.
///
/// Clients in the field send the same revision with every content. Under a name that `current` has
/// already, other content gets a revision of its own; the same content again is the same revision.
pub(super) fn meant(
    current: &Workload,
    spec: &Arc<Spec>,
    given: Option<&RevisionId>,
) -> RevisionId {
    let given = given.unwrap_or(&current.revision);
    let is_of = |content: &Arc<Spec>, digits| given.for_content(&content_revision(content), digits);
    let whole = usize::MAX;
    let same_name = *given == current.revision
        || (current.revision.as_str().contains('+')
            && [CONTENT_DIGITS, whole]
                .iter()
                .any(|n| is_of(&current.spec, *n) == current.revision));
    match (same_name, *spec == current.spec) {
        (true, true) => current.revision.clone(),
        (false, _) => given.clone(),
        (true, false) => {
            let short = is_of(spec, CONTENT_DIGITS);
            if short == current.revision { is_of(spec, whole) } else { short }
        }
    }
}
