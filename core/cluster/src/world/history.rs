//! The revisions of a workload as they are stored, and the way back to one.
//!
//! The store holds an entry and a body for each earlier revision; the World holds only their numbers and
//! hashes. Both change in the unit of the change itself, so the body of every revision that is named
//! exists.

use std::sync::Arc;

use persys_model::assignment::UpdateState;
use persys_model::history::{Body, HistoryChange, Origin};
use persys_model::id::{RevisionId, WorkloadId};
use persys_model::spec::Spec;
use persys_model::spec::canonical::content_revision;

use super::World;
use super::slots::{WorkloadIndex, WorkloadSlot};
use crate::effects::RefusalCode;
use crate::input::{RequestId, Rollback};
use crate::record::Write;

impl World {
    /// The origin of a revision that is asked for now.
    pub(super) fn revision_origin(&self, rolled_back_to: Option<u32>) -> Origin {
        let by = self.audit.as_ref().map(|audit| Arc::clone(&audit.author.who));
        Origin { at: self.now.wall, by: by.unwrap_or_else(|| Arc::from("")), rolled_back_to }
    }

    /// Stores the present revision of a workload as an earlier one. Called before its spec changes.
    pub(super) fn supersede(
        &mut self,
        at: WorkloadIndex,
        rolled_back_to: Option<u32>,
        failed: &str,
    ) {
        let origin = self.revision_origin(rolled_back_to);
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let workload = Arc::make_mut(&mut slot.workload);
        let (id, content) = (workload.id.clone(), content_revision(&workload.spec));
        let entry = workload.history.present(&id, (&workload.revision, &content), failed);
        let spec = Arc::clone(&workload.spec);
        let change = workload.history.supersede(content.clone(), !failed.is_empty(), origin);
        self.write(Write::PutRevision(Arc::new(entry)));
        if change.new_body {
            let body = Body { workload: id.clone(), content, spec };
            self.write(Write::PutBody(Arc::new(body)));
        }
        self.drop_revisions(&id, change);
    }

    /// The reason the present revision did not come to run; empty where it did.
    pub(super) fn present_failure(&self, at: WorkloadIndex) -> String {
        self.workloads.get(at.0).map(failure_of).unwrap_or_default()
    }

    fn drop_revisions(&mut self, id: &WorkloadId, change: HistoryChange) {
        for number in change.dropped {
            self.write(Write::DeleteRevision(id.clone(), number));
        }
        for content in change.unused {
            self.write(Write::DeleteBody(id.clone(), content));
        }
    }

    /// Removes all that is stored of the history of a workload that goes.
    pub(super) fn forget_history(&mut self, at: WorkloadIndex) {
        let Some(workload) = self.workloads.get(at.0).map(|slot| &slot.workload) else { return };
        let (id, all) = (workload.id.clone(), workload.history.all());
        self.drop_revisions(&id, all);
    }

    /// Numbers of the revisions that a rollback without a number may go to, the first one before the
    /// others: the one that runs while an update is not done, then the newest that came to run and has
    /// another content than the present one.
    pub fn rollback_targets(&self, id: &WorkloadId) -> Vec<u32> {
        let slot = self.workload_by_id.get(id).and_then(|at| self.workloads.get(at.0));
        let Some(slot) = slot else { return Vec::new() };
        let (history, present) = (&slot.workload.history, content_revision(&slot.workload.spec));
        let running = slot.assignment.update.as_ref().map(|update| update.number);
        let running = running.filter(|number| {
            history.content_of(*number).is_some_and(|content| *content != present)
        });
        let ran = history.ways_back(&present).filter(|number| Some(*number) != running);
        running.into_iter().chain(ran).collect()
    }

    /// Takes an earlier revision back: a new generation, and a new number, with the content of the old one.
    pub(super) fn ask_rollback(&mut self, request: RequestId, asked: Rollback) {
        let Rollback { workload: id, number, revision, spec } = asked;
        let Some(at) = self.workload_by_id.get(&id).copied() else {
            let why = format!("there is no workload {id}");
            return self.refuse(request, RefusalCode::NotFound, why);
        };
        let Some(slot) = self.workloads.get(at.0) else { return };
        if let Some(why) = no_way_back(slot, number, &spec) {
            return self.refuse(request, RefusalCode::Conflict, why);
        }
        let revision = unambiguous(slot, &revision, &spec);
        let desired = slot.workload.desired;
        self.change(request, at, (Some(spec), Some(&revision), Some(number)), desired);
    }
}

/// The reason a workload cannot go back to a revision, if there is one.
fn no_way_back(slot: &WorkloadSlot, number: u32, spec: &Arc<Spec>) -> Option<String> {
    let (id, history) = (&slot.workload.id, &slot.workload.history);
    if number == history.number() {
        return Some(format!("revision {number} is the present revision of {id}"));
    }
    let Some(content) = history.content_of(number) else {
        return Some(format!(
            "{id} has no revision {number}: see `persys history {id}` for those that are kept"
        ));
    };
    if *content != content_revision(spec) {
        return Some(format!("the history of {id} changed meanwhile: try again"));
    }
    (**spec == *slot.workload.spec)
        .then(|| format!("revision {number} has the same content as the present one"))
}

/// The name of the revision that is taken back. A client may have given the same name to another
/// content, which may be what runs: then the content is part of the name.
fn unambiguous(slot: &WorkloadSlot, revision: &RevisionId, spec: &Arc<Spec>) -> RevisionId {
    let running = slot.assignment.update.as_ref().map(|update| &update.from);
    let other = running.is_some_and(|from| from.revision == *revision && from.spec != *spec);
    if other { revision.for_content(&content_revision(spec), usize::MAX) } else { revision.clone() }
}

fn failure_of(slot: &WorkloadSlot) -> String {
    let assignment = &slot.assignment;
    let update = assignment.update.as_ref();
    if update.is_some_and(|update| update.state() == UpdateState::Updating) {
        return "replaced before it came to run".to_owned();
    }
    let failed = update.filter(|update| update.state() == UpdateState::UpdateFailed);
    let failure = match failed.and_then(|update| update.failed.as_ref()) {
        Some(failed) => Some(&failed.failure),
        None if assignment.phase == persys_model::phase::Phase::Failed => {
            assignment.reason.failure.as_ref()
        }
        None => None,
    };
    failure.map(|failure| failure.parts().0.to_owned()).unwrap_or_default()
}
