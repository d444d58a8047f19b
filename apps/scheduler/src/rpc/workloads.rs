//! Workloads: asking for them, and looking at them.

use std::sync::Arc;

use persys_cluster::effects::{ACCEPTED, RefusalCode, UNCHANGED};
use persys_cluster::input::Ask;
use persys_cluster::plan::Plan;
use persys_cluster::world::World;
use persys_model::id::WorkloadId;
use persys_model::mode::Mode;
use persys_model::phase::Phase;
use persys_model::spec::check::CheckedApply;
use persys_model::workload::Desired;
use persys_proto::control::v1 as wire;
use persys_proto::convert::view::{summary, workload as shown};
use tonic::Status;

use super::Control;
use super::refusal::{in_band, known_status, node_id, workload_id};
use crate::handle::{Looked, Source};
use crate::permit::Sight;

impl Control {
    pub(super) async fn apply(
        &self,
        request: wire::ApplyWorkloadRequest,
    ) -> Result<wire::ApplyWorkloadResponse, Status> {
        if request.workload_id.is_empty() {
            return Err(Status::invalid_argument("workload_id: is empty"));
        }
        let plan = match request.plan.as_str() {
            "" => None,
            text => match Plan::parse(text) {
                Some(plan) => Some(Arc::new(plan)),
                None => return Err(Status::invalid_argument("plan: is not a plan of Check")),
            },
        };
        let checked = match self.checked(request).await {
            Ok(checked) => checked,
            Err((reason, why)) => return Ok(not_applied(reason, why)),
        };
        let workload = checked.workload.clone();
        let ask = match plan {
            Some(plan) => Ask::Planned(plan, Box::new(ask_for(checked))),
            None => ask_for(checked),
        };
        let reply = self.handle.ask(ask).await?;
        Ok(match in_band(reply)? {
            Ok(note) => self.applied(workload, &note).await,
            Err((code, why)) => not_applied(failure_of(code), why),
        })
    }

    /// The answer to a request that was taken, with a warning if no node could ever hold it. Without
    /// an answer of the core there is none: the request was taken all the same.
    async fn applied(&self, workload: WorkloadId, note: &str) -> wire::ApplyWorkloadResponse {
        let look = move |world: &World| {
            let view = world.workload(&workload)?;
            let waits = view.assignment.phase == Phase::Pending
                && view.workload.desired == Desired::Running;
            if waits { world.never_fits(&view.workload.spec) } else { None }
        };
        let warning = self.handle.read(look).await.ok().flatten();
        let unplaceable = warning.is_some();
        let warning = warning.unwrap_or_default();
        wire::ApplyWorkloadResponse { warning, unplaceable, ..applied(note) }
    }

    pub(super) async fn delete(
        &self,
        request: wire::DeleteWorkloadRequest,
    ) -> Result<wire::DeleteWorkloadResponse, Status> {
        let workload = workload_id(&request.workload_id)?;
        let ask = if request.volumes { Ask::DeleteWithVolumes } else { Ask::Delete };
        let reply = self.handle.ask(ask(workload)).await?;
        Ok(match in_band(reply)? {
            Ok(note) => wire::DeleteWorkloadResponse {
                success: true,
                message: if note == ACCEPTED { String::new() } else { note },
                ..Default::default()
            },
            Err((code, why)) => wire::DeleteWorkloadResponse {
                error_message: why,
                not_found: code == RefusalCode::NotFound,
                ..Default::default()
            },
        })
    }

    pub(super) async fn retry(
        &self,
        request: wire::RetryWorkloadRequest,
    ) -> Result<wire::RetryWorkloadResponse, Status> {
        let workload = workload_id(&request.workload_id)?;
        let reply = self.handle.ask(Ask::Retry(workload)).await?;
        Ok(wire::RetryWorkloadResponse { accepted: in_band(reply)?.is_ok() })
    }

    pub(super) async fn workloads(
        &self,
        request: wire::ListWorkloadsRequest,
    ) -> Result<Looked<wire::ListWorkloadsResponse>, Status> {
        let node = match request.node_id.as_str() {
            "" => None,
            text => Some(node_id(text)?),
        };
        let (status, attempts) = (request.status, self.settings.retry_attempts);
        known_status(&status, shown::status_words())?;
        let sight = Sight::current();
        let workloads = self
            .handle
            .look(move |world| {
                let mut found = Vec::new();
                let (recovery, reasons) = (in_recovery(world), world.reasons_now());
                for view in world.workloads().filter(|view| sight.sees(&view.workload.spec)) {
                    let at = view.assignment.place.as_ref().map(|place| &place.node);
                    let here = node.is_none() || at == node.as_ref();
                    let word = shown::status_word(&view);
                    if here && (status.is_empty() || word.eq_ignore_ascii_case(&status)) {
                        let why = reasons.get(&view.workload.id).map(|why| &**why);
                        found.push(shown::to_wire(&view, attempts, why));
                    }
                }
                (found, recovery)
            })
            .await?;
        Ok(workloads.map(|(mut workloads, recovery)| {
            let now = self.now();
            for workload in &mut workloads {
                self.usages.add_to(workload, now);
            }
            wire::ListWorkloadsResponse { workloads, note: recovery }
        }))
    }

    pub(super) async fn workload(
        &self,
        request: wire::GetWorkloadRequest,
    ) -> Result<Looked<wire::GetWorkloadResponse>, Status> {
        let id = workload_id(&request.workload_id)?;
        let (wanted, attempts) = (id.clone(), self.settings.retry_attempts);
        let sight = Sight::current();
        let found = self
            .handle
            .look(move |world| match seen(world, &sight, &wanted, attempts) {
                Seen::Nothing => None,
                Seen::Whole(workload) => Some(workload),
                Seen::Waits => {
                    let (view, why) = (world.workload(&wanted)?, world.why_waits(&wanted));
                    Some(Box::new(shown::to_wire(&view, attempts, why.as_deref())))
                }
            })
            .await?;
        let Looked { value: Some(mut workload), from } = found else { return Err(no_such(&id)) };
        self.usages.add_to(&mut workload, self.now());
        Ok(Looked { value: wire::GetWorkloadResponse { workload: Some(*workload) }, from })
    }

    pub(super) async fn summary(&self) -> Result<Looked<wire::GetClusterSummaryResponse>, Status> {
        let now = self.now();
        let count = move |world: &World| summary::to_wire(world.nodes(), world.workloads(), now);
        let mut found = self.handle.look(count).await?;
        found.value.copy_age_ms = match found.from {
            Source::Present => 0,
            Source::Memory(age) | Source::Copy(age) => age,
        };
        Ok(found)
    }
}

/// What somebody sees of a workload at a glance.
pub(super) enum Seen {
    /// There is none, or none for them.
    Nothing,
    /// Everything that is shown of it.
    Whole(Box<wire::WorkloadView>),
    /// It waits for a node; why is still to be said.
    Waits,
}

/// Looks at one workload.
pub(super) fn seen(world: &World, sight: &Sight, id: &WorkloadId, attempts: u32) -> Seen {
    match world.workload(id).filter(|view| sight.sees(&view.workload.spec)) {
        None => Seen::Nothing,
        Some(view) if view.assignment.phase == Phase::Pending => Seen::Waits,
        Some(view) => Seen::Whole(Box::new(shown::to_wire(&view, attempts, None))),
    }
}

pub(super) fn no_such(id: &WorkloadId) -> Status {
    Status::not_found(format!("there is no workload {id}"))
}

pub(super) fn ask_for(checked: CheckedApply) -> Ask {
    let CheckedApply { workload, desired, revision, spec } = checked;
    Ask::Apply { workload, spec: spec.map(Arc::new), revision, desired }
}

/// A list that is made in recovery says that it may lack everything; empty otherwise.
fn in_recovery(world: &World) -> String {
    match world.mode() {
        (Mode::Recovery, why) => format!(
            "the control plane is in recovery, so the list of workloads is not known ({why}); \
             nothing that runs is touched. See `persys recover --help`"
        ),
        (Mode::Normal | Mode::Degraded, _) => String::new(),
    }
}

/// An accepted change, with what is to be said of it. A client of the contract has one place to read
/// it: where the request of old ended in an error, it reads so there, beside its success.
fn applied(note: &str) -> wire::ApplyWorkloadResponse {
    let message = if note == ACCEPTED || note == UNCHANGED { "" } else { note };
    wire::ApplyWorkloadResponse {
        success: true,
        error_message: message.to_owned(),
        message: message.to_owned(),
        ..Default::default()
    }
}

fn not_applied(reason: wire::FailureReason, why: String) -> wire::ApplyWorkloadResponse {
    wire::ApplyWorkloadResponse {
        success: false,
        failure_reason: reason.into(),
        error_message: why,
        ..Default::default()
    }
}

fn failure_of(code: RefusalCode) -> wire::FailureReason {
    match code {
        RefusalCode::Exhausted => wire::FailureReason::InsufficientResources,
        RefusalCode::Invalid | RefusalCode::NotFound | RefusalCode::Conflict => {
            wire::FailureReason::InvalidSpec
        }
        RefusalCode::Unavailable | RefusalCode::Forbidden => wire::FailureReason::Unspecified,
    }
}

#[cfg(test)]
mod tests {
    use persys_cluster::record::{Head, Snapshot};
    use persys_cluster::settings::Settings;
    use persys_model::time::Now;
    use persys_model::token::Term;

    use super::*;

    fn world(snapshot: Snapshot) -> World {
        let settings = Settings::default();
        World::open(settings, Term(9), snapshot, None, Arc::from("new"), Now::at(1_000)).0
    }

    #[test]
    fn a_list_in_recovery_claims_nothing() {
        let fresh = world(Snapshot::default());
        assert_eq!(in_recovery(&fresh), "");
        let head = Some(Head { rebuilding: true, ..fresh.head().clone() });
        let note = in_recovery(&world(Snapshot { head, ..Snapshot::default() }));
        assert!(note.contains("in recovery") && note.contains("not known"), "{note}");
    }

    #[test]
    fn an_answer_says_more_only_where_there_is_more_to_say() {
        for ordinary in [ACCEPTED, UNCHANGED] {
            let answer = applied(ordinary);
            assert!(answer.success && answer.error_message.is_empty(), "{answer:?}");
        }
        let answer = applied("this content is revision rev-1+0a1b2c3d");
        assert!(answer.success && answer.failure_reason == 0);
        assert_eq!(answer.message, answer.error_message);
    }
}
