//! The reason for a new decision about a workload that is to run.

use persys_model::assignment::ReasonCode;
use persys_model::phase::Phase;

use super::slots::WorkloadSlot;

/// The reason, from its phase and what was said of it last.
pub(super) fn why_anew(slot: &WorkloadSlot) -> ReasonCode {
    match slot.assignment.phase {
        // Nobody asked: its node does not have what is recorded, and is to have it.
        Phase::Completed | Phase::Failed if slot.runs_older => ReasonCode::Placed,
        Phase::Backoff => ReasonCode::RetryDue,
        // The user's last word, and not a change of the spec.
        Phase::Starting
        | Phase::Running
        | Phase::Paused
        | Phase::Unresponsive
        | Phase::Restarting
            if slot.assignment.reason.code == ReasonCode::PauseRequested =>
        {
            ReasonCode::PauseRequested
        }
        Phase::Paused if slot.assignment.reason.code == ReasonCode::StartRequested => {
            ReasonCode::StartRequested
        }
        _ if slot.assignment.reason.code == ReasonCode::RolledBack => ReasonCode::RolledBack,
        Phase::Running if update_failed(slot) => ReasonCode::RetryDue,
        Phase::Running
        | Phase::Starting
        | Phase::Paused
        | Phase::Unresponsive
        | Phase::Restarting => ReasonCode::Updated,
        Phase::Pending | Phase::Stopping | Phase::Stopped => ReasonCode::StartRequested,
        Phase::Completed | Phase::Failed => ReasonCode::RetryRequested,
        Phase::Deleting => ReasonCode::DeleteRequested,
    }
}

/// True if an attempt of its update failed.
fn update_failed(slot: &WorkloadSlot) -> bool {
    slot.assignment.update.as_ref().is_some_and(|update| update.failed.is_some())
}
