//! A workload as it is shown.

use persys_cluster::world::WorkloadView;
use persys_model::assignment::{Reason, ReasonCode};
use persys_model::failure::Failure;
use persys_model::id::NodeId;
use persys_model::inventory::State;
use persys_model::phase::Phase;
use persys_model::retry::Retry;

use crate::control::v1 as wire;
use crate::convert::leaf::small;
use crate::convert::time::timestamp;
use crate::convert::{report, task};

/// The workload on the wire. `attempts` is how many failures one incident may have; `why` is the reason no
/// node takes it as things are now, which is told in place of the one that was recorded.
#[must_use]
pub fn to_wire(view: &WorkloadView<'_>, attempts: u32, why: Option<&str>) -> wire::WorkloadView {
    let workload = view.workload;
    let assignment = view.assignment;
    let place = assignment.place.as_ref();
    let next_at = view.retry.and_then(|retry| retry.next_at).map(timestamp);
    let failure = assignment.reason.failure.as_ref();
    let health = assignment.health.as_deref();
    wire::WorkloadView {
        workload_id: workload.id.to_string(),
        r#type: workload.spec.workload_type().word().to_owned(),
        desired_state: workload.desired.word().to_owned(),
        status: status_word(view).to_owned(),
        assigned_node_id: place.map(|place| place.node.to_string()).unwrap_or_default(),
        revision_id: workload.revision.to_string(),
        retry_attempts: small(view.retry.map_or(0, |retry| retry.attempts)),
        retry_max_attempts: small(attempts),
        retry_next_at: next_at,
        failure_reason: failure.map(|f| f.reason.code().to_owned()).unwrap_or_default(),
        last_updated: Some(timestamp(assignment.reason.since)),
        reason: Some(match silent_runtime(view) {
            None => wire::ReasonDetail {
                message: current(&assignment.reason, why),
                ..reason(&assignment.reason, assignment.phase, view.retry)
            },
            Some(node) => wire::ReasonDetail {
                message: format!(
                    "the runtime on {node} does not answer; it was {} when last seen",
                    assignment.phase.word()
                ),
                ..reason(&assignment.reason, assignment.phase, view.retry)
            },
        }),
        usage: None,
        created_at: Some(timestamp(workload.created_at)),
        why: why.unwrap_or_default().to_owned(),
        uncertain: view.uncertain,
        epoch: place.map_or(0, |place| place.epoch.0),
        restarts: view.seen.map_or(0, |report| report.restarts),
        running_revision_id: place
            .and_then(|place| place.version.as_ref())
            .map(|version| version.revision.to_string())
            .unwrap_or_default(),
        admitted_on_node: view.admitted.is_some(),
        admitted_at: view.admitted.map(timestamp),
        shadow: view.shadow,
        update_state: view.update_state().map(|state| state.word().to_owned()).unwrap_or_default(),
        update_message: view.update_message(),
        revision_number: workload.history.number(),
        running_revision_number: match view.running() {
            (_, number) if number != workload.history.number() => number,
            _ => 0,
        },
        health: health.map(|one| one.health.state.word().to_owned()).unwrap_or_default(),
        health_message: health.map(|one| one.health.detail.to_string()).unwrap_or_default(),
        health_since: health.map(|one| timestamp(one.since)),
        pull: view.pull().map(report::pull),
        task: view.task.map(|one| task::of_view(&workload.id, place.map(|place| place.epoch), one)),
    }
}

/// The state of a workload in a word of the contract: its phase, or `Unknown` where its node says
/// that the runtime does not answer.
#[must_use]
pub fn status_word(view: &WorkloadView<'_>) -> &'static str {
    match silent_runtime(view) {
        Some(_) => "Unknown",
        None => view.assignment.phase.word(),
    }
}

/// Words of the contract for states of workloads that this scheduler does not give; existing clients may
/// ask for them.
const OF_EARLIER: [&str; 2] = ["Updating", "Deleted"];

/// Every word [`status_word`] may give, and those that existing clients know beside them.
pub fn status_words() -> impl Iterator<Item = &'static str> + Clone {
    Phase::ALL.into_iter().map(Phase::word).chain(["Unknown"]).chain(OF_EARLIER)
}

/// The node of a workload that should run, if the runtime there does not answer.
fn silent_runtime<'a>(view: &WorkloadView<'a>) -> Option<&'a NodeId> {
    let place = view.assignment.place.as_ref()?;
    let seen = view.seen.filter(|seen| seen.epoch == place.epoch)?;
    let unknown = seen.state == State::Unknown && view.assignment.phase == Phase::Running;
    unknown.then_some(&place.node)
}

/// The message of a reason; of one that is about room, as things are now.
fn current(reason: &Reason, why: Option<&str>) -> String {
    match (why, reason.code) {
        (Some(why), ReasonCode::NoNodeFits) if !why.is_empty() => why.to_owned(),
        (Some(why), ReasonCode::UpdateWaits) if !why.is_empty() => {
            format!("{why}; the earlier revision goes on")
        }
        (_, _) => message(reason),
    }
}

/// The message is that of the failure where the reason has none of its own.
fn message(reason: &Reason) -> String {
    match &reason.failure {
        Some(failure) if reason.message.is_empty() => failure.message.to_string(),
        Some(_) | None => reason.message.to_string(),
    }
}

/// Why a workload is in its phase.
#[must_use]
pub fn reason(reason: &Reason, phase: Phase, retry: Option<&Retry>) -> wire::ReasonDetail {
    let failure = reason.failure.as_ref();
    let message = message(reason);
    wire::ReasonDetail {
        code: reason.code.word().to_owned(),
        message,
        last_transition: Some(timestamp(reason.since)),
        next_retry_at: retry.and_then(|retry| retry.next_at).map(timestamp),
        retryable: failure.is_some_and(Failure::retryable)
            || matches!(
                phase,
                Phase::Pending | Phase::Restarting | Phase::Paused | Phase::Unresponsive
            ),
    }
}
