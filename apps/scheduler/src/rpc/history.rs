//! `persys.compute.v1.History`: the revisions of a workload, their differences, and the way back to one.
//!
//! The driver knows numbers and hashes; entries and bodies are read from the store by the task of the
//! request. A rollback is checked again by the driver, so what was read meanwhile does not matter.

use std::sync::Arc;

use persys_access::Who;
use persys_cluster::effects::ACCEPTED;
use persys_cluster::input::{Ask, Rollback};
use persys_cluster::world::World;
use persys_model::history::{Earlier, Revision};
use persys_model::id::{RevisionId, WorkloadId};
use persys_model::spec::Spec;
use persys_model::spec::canonical::content_revision;
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::history_server::History as Service;
use persys_proto::convert::{spec, time};
use persys_proto::json;
use persys_store::Revisions;
use tonic::{Request, Response, Status};

use super::Control;
use super::compute::mask;
use super::refusal::{done, unavailable, workload_id};
use super::workloads::no_such;
use crate::permit;

/// The full name of the message that is compared.
const SPEC: &str = "persys.control.v1.WorkloadSpec";

/// The history of a workload as the driver knows it.
struct Present {
    entry: Revision,
    spec: Arc<Spec>,
    earlier: Vec<Earlier>,
    /// Name and number of the revision its node is told to run.
    running: (RevisionId, u32),
    failed: String,
    /// Revisions a rollback without a number may go to, the first one before the others.
    targets: Vec<u32>,
}

fn present(world: &World, id: &WorkloadId) -> Option<Present> {
    let view = world.workload(id)?;
    let (workload, history) = (view.workload, &view.workload.history);
    let failed = view.assignment.update.as_ref().and_then(|update| update.failed.as_ref());
    let failed = failed.map(|failed| failed.failure.parts().0.to_owned()).unwrap_or_default();
    let content = content_revision(&workload.spec);
    let (running, number) = view.running();
    Some(Present {
        entry: history.present(id, (&workload.revision, &content), &failed),
        spec: Arc::clone(&workload.spec),
        earlier: history.earlier().to_vec(),
        running: (running.clone(), number),
        failed,
        targets: world.rollback_targets(id),
    })
}

impl Control {
    async fn present(&self, id: &WorkloadId, who: Who) -> Result<Present, Status> {
        permit::workload(&self.handle, id, who).await?;
        let wanted = id.clone();
        let found = self.handle.read(move |world| present(world, &wanted)).await?;
        found.ok_or_else(|| no_such(id))
    }

    async fn revisions(&self, id: &WorkloadId) -> Result<Revisions, Status> {
        self.store.revisions(id).await.map_err(|error| unavailable(error.to_string()))
    }

    async fn list(&self, id: &WorkloadId) -> Result<api::ListRevisionsResponse, Status> {
        let present = self.present(id, Who::Viewers).await?;
        let stored = self.revisions(id).await?;
        let (_, running) = present.running;
        let mut revisions = vec![api::RevisionView {
            present: true,
            running: running == present.entry.number,
            failed: present.failed,
            ..shown(&present.entry)
        }];
        for one in present.earlier.iter().rev() {
            let entry = stored.listed.iter().find(|entry| entry.number == one.number);
            let view = entry.map_or_else(
                || api::RevisionView {
                    number: one.number,
                    content: one.content.to_string(),
                    ..api::RevisionView::default()
                },
                shown,
            );
            revisions.push(api::RevisionView { running: running == one.number, ..view });
        }
        Ok(api::ListRevisionsResponse { revisions, unreadable: stored.unreadable })
    }

    async fn compare(
        &self,
        id: &WorkloadId,
        request: &api::DiffRequest,
    ) -> Result<api::DiffResponse, Status> {
        let who = if request.secrets { Who::Operators } else { Who::Viewers };
        let present = self.present(id, who).await?;
        let newest = present.entry.number;
        let to = if request.to == 0 { newest } else { request.to };
        let before = present.earlier.iter().map(|one| one.number).rfind(|number| *number < to);
        let from = match request.from {
            0 if to == newest && present.running.1 != newest => Some(present.running.1),
            0 => before,
            number => Some(number),
        };
        let Some(from) = from else {
            return Err(Status::failed_precondition(format!(
                "{id} has no revision before {to}: there is nothing to compare"
            )));
        };
        let stored = self.revisions(id).await?;
        let of = |number: u32| {
            if number == newest {
                return Ok(Arc::clone(&present.spec));
            }
            let found = stored.get(number).map(|(_, spec)| Arc::clone(spec));
            found.ok_or_else(|| no_revision(id, number))
        };
        let differences = differences(&*of(from)?, &*of(to)?, request.secrets);
        Ok(api::DiffResponse { from, to, differences })
    }

    async fn go_back(&self, id: WorkloadId, number: u32) -> Result<api::RollbackResponse, Status> {
        let present = self.present(&id, Who::Operators).await?;
        let number = match number {
            0 => way_back(&id, &present, &self.revisions(&id).await?)?,
            number => number,
        };
        let (revision, spec) = if number == present.entry.number {
            (present.entry.revision, present.spec)
        } else {
            let stored = self.revisions(&id).await?;
            let (entry, spec) = stored.get(number).ok_or_else(|| no_revision(&id, number))?;
            (entry.revision.clone(), Arc::clone(spec))
        };
        let ask = Ask::Rollback(Rollback { workload: id.clone(), number, revision, spec });
        let note = done(self.handle.ask(ask).await?)?;
        let now = self
            .handle
            .read(move |world| world.workload(&id).map(|view| view.workload.history.number()));
        Ok(api::RollbackResponse {
            number: now.await.ok().flatten().unwrap_or_default(),
            rolled_back_to: number,
            note: if note == ACCEPTED { String::new() } else { note },
        })
    }
}

#[tonic::async_trait]
impl Service for Control {
    async fn list_revisions(
        &self,
        request: Request<api::ListRevisionsRequest>,
    ) -> Result<Response<api::ListRevisionsResponse>, Status> {
        let id = workload_id(&request.into_inner().workload_id)?;
        self.list(&id).await.map(Response::new)
    }

    async fn diff(
        &self,
        request: Request<api::DiffRequest>,
    ) -> Result<Response<api::DiffResponse>, Status> {
        let request = request.into_inner();
        let id = workload_id(&request.workload_id)?;
        self.compare(&id, &request).await.map(Response::new)
    }

    async fn rollback(
        &self,
        request: Request<api::RollbackRequest>,
    ) -> Result<Response<api::RollbackResponse>, Status> {
        let request = request.into_inner();
        let id = workload_id(&request.workload_id)?;
        self.go_back(id, request.number).await.map(Response::new)
    }
}

/// The revision a rollback without a number goes to. Records of the release before tell only in the
/// entry of a revision that it failed.
fn way_back(id: &WorkloadId, present: &Present, stored: &Revisions) -> Result<u32, Status> {
    let ran =
        |number: &&u32| stored.get(**number).is_some_and(|(entry, _)| entry.failed.is_empty());
    if let Some(number) = present.targets.iter().find(ran) {
        return Ok(*number);
    }
    let told = |one: &Earlier| {
        let entry = stored.listed.iter().find(|entry| entry.number == one.number);
        let why = match entry {
            _ if one.content == present.entry.content => "the same content".to_owned(),
            Some(entry) if !entry.failed.is_empty() => format!("failed: {}", entry.failed),
            Some(_) | None => "cannot be read".to_owned(),
        };
        format!("{} ({why})", one.number)
    };
    let all: Vec<String> = present.earlier.iter().rev().map(told).collect();
    Err(Status::failed_precondition(if all.is_empty() {
        format!("{id} has no earlier revision to go back to")
    } else {
        format!(
            "{id} has no earlier revision that came to run and differs from the present one, {}: {}; \
             name one to try it all the same: `persys rollback {id} REVISION`",
            present.entry.number,
            all.join(", ")
        )
    }))
}

fn no_revision(id: &WorkloadId, number: u32) -> Status {
    Status::not_found(format!(
        "{id} has no revision {number}: see `persys history {id}` for those that are kept"
    ))
}

fn shown(one: &Revision) -> api::RevisionView {
    api::RevisionView {
        number: one.number,
        revision_id: one.revision.to_string(),
        content: one.content.to_string(),
        since: one.since.map(time::timestamp),
        by: one.by.to_string(),
        failed: one.failed.to_string(),
        rolled_back_to: one.rolled_back_to.unwrap_or_default(),
        ..api::RevisionView::default()
    }
}

/// The fields that differ between two specs. Without `secrets` it is told that a value differs, not
/// which values there are.
pub(super) fn differences(before: &Spec, after: &Spec, secrets: bool) -> Vec<api::Difference> {
    let as_json = |one: &Spec, masked: bool| {
        let mut message = spec::to_wire(one);
        if masked {
            mask(&mut message);
        }
        json::write(SPEC, &message, json::Style::Plain)
    };
    let exact = json::diff(&as_json(before, false), &as_json(after, false));
    let masked = json::diff(&as_json(before, !secrets), &as_json(after, !secrets));
    let told = |one: json::Difference| {
        // What differs and is not told apart when masked is a secret.
        let open = masked.contains(&one);
        let hide = |text: String| if open || text.is_empty() { text } else { "***".to_owned() };
        api::Difference { path: one.path, before: hide(one.before), after: hide(one.after) }
    };
    exact.into_iter().map(told).collect()
}
