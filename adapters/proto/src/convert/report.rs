//! The state of one workload as its agent saw it, both ways.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_cluster::contract::{self, Told};
use persys_model::failure::{Failure, FailureReason, FailureStage, clip};
use persys_model::fault::Faults;
use persys_model::fetched::Fetched;
use persys_model::id::{RevisionId, WorkloadId};
use persys_model::inventory::{Report, State};
use persys_model::time::WallMillis;
use persys_model::token::Epoch;
use persys_model::volume::order_id;

use super::at::{At, reading};
use super::leaf::{name, word};
use super::{failure, health, time};
use crate::agent::v1 as agent;
use crate::control::v1 as wire;

/// The report on the wire.
#[must_use]
pub fn to_wire(report: &Report) -> wire::WorkloadReport {
    let failure = failure_of(&report.state);
    wire::WorkloadReport {
        workload_id: report.workload.to_string(),
        epoch: report.epoch.0,
        state: wire_word(&report.state).to_owned(),
        failure_reason: reason_of(failure).into(),
        message: failure.map(|failure| failure.message.to_string()).unwrap_or_default(),
        retryable: goes_on(&report.state),
        restarts: report.restarts,
        details: BTreeMap::new(),
        confirmed: report.confirmed,
        trouble_reason: reason_of(report.trouble.as_ref()).into(),
        trouble: report.trouble.as_ref().map(|why| why.message.to_string()).unwrap_or_default(),
        progress: report.progress,
        pull: report.fetched.map(pull),
        program_ended: failure.is_some_and(|failure| failure.stage == FailureStage::Run),
        standstill: standstill_of(&report.state).to_owned(),
        running_revision_id: report.runs.as_ref().map(ToString::to_string).unwrap_or_default(),
        health: health::word(report.health.as_ref()),
        health_detail: report.health.as_ref().map(|one| one.detail.to_string()).unwrap_or_default(),
    }
}

/// The progress of a pull on the wire.
pub(crate) fn pull(fetched: Fetched) -> wire::ImagePull {
    let Fetched { parts, of_parts, bytes, of_bytes } = fetched;
    wire::ImagePull { parts, of_parts, bytes, of_bytes }
}

/// The progress a message means.
#[must_use]
pub fn fetched(pull: &wire::ImagePull) -> Fetched {
    let wire::ImagePull { parts, of_parts, bytes, of_bytes } = *pull;
    Fetched { parts, of_parts, bytes, of_bytes }
}

/// The report a message means, or everything that is wrong with it.
pub fn from_wire(report: &wire::WorkloadReport) -> Result<Report, Faults> {
    reading(|at| read(at, report))
}

pub(super) fn read(at: &At<'_>, report: &wire::WorkloadReport) -> Option<Report> {
    let workload = name(&at.field("workload_id"), &report.workload_id, order_id);
    let state = state(at, report);
    let trouble = failure::read(&at.field("trouble_reason"), report.trouble_reason);
    Some(Report {
        workload: workload?,
        epoch: Epoch(report.epoch),
        state: state?,
        restarts: report.restarts,
        confirmed: report.confirmed,
        progress: report.progress,
        fetched: report.pull.as_ref().map(fetched),
        trouble: trouble?.map(|reason| Failure::new(reason, &report.trouble)),
        // What is no revision says nothing of what runs.
        runs: RevisionId::new(&report.running_revision_id).ok(),
        health: health::read(&report.health, &report.health_detail),
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Pending,
    Running,
    Restarting,
    Stopped,
    Completed,
    Failed,
    Unknown,
}

const WORDS: &[(&str, Word)] = &[
    ("Pending", Word::Pending),
    ("Running", Word::Running),
    ("Restarting", Word::Restarting),
    ("Stopped", Word::Stopped),
    ("Completed", Word::Completed),
    ("Failed", Word::Failed),
    ("Unknown", Word::Unknown),
];

fn state(at: &At<'_>, report: &wire::WorkloadReport) -> Option<State> {
    let word = word(&at.field("state"), &report.state, WORDS);
    let reason_at = at.field("failure_reason");
    let reason = failure::read(&reason_at, report.failure_reason);
    let (word, reason) = (word?, reason?);
    let ended_at = if report.program_ended { FailureStage::Run } else { FailureStage::Start };
    let failure = || match reason {
        Some(reason) => Some(Failure::new(reason, &report.message).in_stage(ended_at)),
        None => reason_at.refuse("is missing: what failed has a reason"),
    };
    let state = match word {
        Word::Failed => return failure().map(State::Failed),
        Word::Restarting => return failure().map(State::Restarting),
        Word::Pending => State::Pending,
        Word::Running => State::Running,
        Word::Stopped => State::Stopped,
        Word::Completed => State::Completed,
        Word::Unknown => State::Unknown,
    };
    let state = match (state, report.standstill.as_str()) {
        (State::Running, PAUSED) => State::Paused,
        (State::Running, NOT_RESPONDING) => State::Unresponsive,
        (state, _) => state,
    };
    if reason.is_some() {
        return reason_at.refuse(format!("contradicts the state {}", word_of(&state)));
    }
    Some(state)
}

const PAUSED: &str = "paused";
const NOT_RESPONDING: &str = "not_responding";

/// The word for a state on the wire. Schedulers of earlier releases refuse words they do not know, so
/// what stands still runs to them.
fn wire_word(state: &State) -> &'static str {
    match state {
        State::Paused | State::Unresponsive => "Running",
        State::Pending
        | State::Running
        | State::Restarting(_)
        | State::Stopped
        | State::Completed
        | State::Failed(_)
        | State::Unknown => word_of(state),
    }
}

fn standstill_of(state: &State) -> &'static str {
    match state {
        State::Paused => PAUSED,
        State::Unresponsive => NOT_RESPONDING,
        State::Pending
        | State::Running
        | State::Restarting(_)
        | State::Stopped
        | State::Completed
        | State::Failed(_)
        | State::Unknown => "",
    }
}

/// The word for a state, as our own two ends say it.
#[must_use]
pub fn word_of(state: &State) -> &'static str {
    match state {
        State::Pending => "Pending",
        State::Running => "Running",
        State::Paused => "Paused",
        State::Unresponsive => "NotResponding",
        State::Restarting(_) => "Restarting",
        State::Stopped => "Stopped",
        State::Completed => "Completed",
        State::Failed(_) => "Failed",
        State::Unknown => "Unknown",
    }
}

fn failure_of(state: &State) -> Option<&Failure> {
    match state {
        State::Restarting(failure) | State::Failed(failure) => Some(failure),
        State::Pending
        | State::Running
        | State::Paused
        | State::Unresponsive
        | State::Stopped
        | State::Completed
        | State::Unknown => None,
    }
}

/// True if it is tried again without anybody asking: by its agent, or by the scheduler.
#[must_use]
pub fn goes_on(state: &State) -> bool {
    match state {
        State::Restarting(_) => true,
        State::Failed(failure) => failure.retryable(),
        State::Pending
        | State::Running
        | State::Paused
        | State::Unresponsive
        | State::Stopped
        | State::Completed
        | State::Unknown => false,
    }
}

fn reason_of(failure: Option<&Failure>) -> wire::FailureReason {
    let reason = failure.map(|failure| failure::to_wire(failure.reason));
    reason.unwrap_or(wire::FailureReason::Unspecified)
}

/// The state as clients and schedulers before us know it, in one of five words. What is started
/// again is pending to them, and what has completed is stopped.
#[must_use]
pub fn actual_state(state: &State) -> agent::ActualState {
    match state {
        State::Pending | State::Restarting(_) => agent::ActualState::Pending,
        State::Running | State::Paused => agent::ActualState::Running,
        State::Stopped | State::Completed => agent::ActualState::Stopped,
        State::Failed(_) => agent::ActualState::Failed,
        State::Unresponsive | State::Unknown => agent::ActualState::Unknown,
    }
}

/// The report as an old scheduler reads it in a heartbeat.
#[must_use]
pub fn to_status(report: &Report, since: WallMillis) -> wire::WorkloadStatus {
    let failure = failure_of(&report.state);
    let state = match actual_state(&report.state) {
        agent::ActualState::Pending => "Pending",
        agent::ActualState::Running => "Running",
        agent::ActualState::Stopped => "Stopped",
        agent::ActualState::Failed => "Failed",
        agent::ActualState::Unknown | agent::ActualState::Unspecified => "Unknown",
    };
    wire::WorkloadStatus {
        workload_id: report.workload.to_string(),
        state: state.to_owned(),
        failure_reason: reason_of(failure).into(),
        message: failure.map(|failure| failure.message.to_string()).unwrap_or_default(),
        last_transition: Some(time::timestamp(since)),
        reason: failure.map(|failure| wire::ReasonDetail {
            code: failure.reason.code().to_owned(),
            message: failure.message.to_string(),
            last_transition: Some(time::timestamp(since)),
            next_retry_at: None,
            retryable: goes_on(&report.state),
        }),
        usage: None,
    }
}

const CONTRACT_WORDS: &[(&str, contract::Word)] = &[
    ("Pending", contract::Word::Pending),
    ("Running", contract::Word::Running),
    ("Stopped", contract::Word::Stopped),
    ("Failed", contract::Word::Failed),
    ("Unknown", contract::Word::Unknown),
];

/// One status of an old agent's heartbeat: no decision, no version, five words.
pub(super) fn read_status(at: &At<'_>, status: &wire::WorkloadStatus) -> Option<Told> {
    let workload = name(&at.field("workload_id"), &status.workload_id, WorkloadId::new);
    let word = word(&at.field("state"), &status.state, CONTRACT_WORDS);
    let reason = failure::read(&at.field("failure_reason"), status.failure_reason);
    // Such an agent fills `reason` where `message` says nothing.
    let detail = status.reason.as_ref().map_or("", |reason| &reason.message);
    let said = if status.message.is_empty() { detail } else { &status.message };
    let (revision, run, exit_code) = (None, None, None);
    let message = Arc::from(clip(said, Failure::MESSAGE_LIMIT));
    let reason = reason?;
    Some(Told { workload: workload?, revision, run, word: word?, reason, message, exit_code })
}

/// The status an old agent answers with, or everything that is wrong with it.
pub fn from_agent_status(status: &agent::WorkloadStatus) -> Result<Told, Faults> {
    reading(|at| {
        let workload = name(&at.field("id"), &status.id, WorkloadId::new);
        let word = match agent::ActualState::try_from(status.actual_state) {
            Ok(agent::ActualState::Pending) => Some(contract::Word::Pending),
            Ok(agent::ActualState::Running) => Some(contract::Word::Running),
            Ok(agent::ActualState::Stopped) => Some(contract::Word::Stopped),
            Ok(agent::ActualState::Failed) => Some(contract::Word::Failed),
            Ok(agent::ActualState::Unknown | agent::ActualState::Unspecified) => {
                Some(contract::Word::Unknown)
            }
            Err(_) => {
                let number = status.actual_state;
                at.field("actual_state").refuse(format!("{number} is not a known state"))
            }
        };
        let told = |key: &str| status.metadata.get(key).map_or("", String::as_str);
        // Its reasons are words of its own; only those of the contract are taken over.
        let said = told("failure_reason");
        let reason = FailureReason::ALL.into_iter().find(|reason| reason.code() == said);
        let run = match agent::DesiredState::try_from(status.desired_state) {
            Ok(agent::DesiredState::Running) => Some(true),
            Ok(agent::DesiredState::Stopped) => Some(false),
            Ok(agent::DesiredState::Unspecified) | Err(_) => None,
        };
        let texts = [status.message.as_str(), told("failure_message"), told("last_error")];
        let message = texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        Some(Told {
            workload: workload?,
            revision: RevisionId::new(&status.revision_id).ok(),
            run,
            word: word?,
            reason,
            message: Arc::from(clip(message, Failure::MESSAGE_LIMIT)),
            exit_code: told("container.exit_code").parse().ok(),
        })
    })
}
