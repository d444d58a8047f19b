//! How workloads and actions look on the wire.

use std::collections::BTreeMap;

use persys_model::id::WorkloadId;
use persys_model::inventory::{Held, State};
use persys_model::time::WallMillis;
use persys_node::agent::Agent;
use persys_node::input::Existing;
use persys_proto::agent::v1 as wire;
use persys_proto::convert::classic::workload_type;
use persys_proto::convert::report::{actual_state, goes_on, word_of};
use persys_runtime::inside::End;
use persys_runtime::runtime::Thing;

use crate::history::{Action, ActionKind, History};
use crate::usage::Usages;

/// Bytes of a runtime's own name for a thing that people know it by.
const SHORT_ID: usize = 12;

fn seconds(at: WallMillis) -> i64 {
    i64::try_from(at.0 / 1000).unwrap_or(i64::MAX)
}

/// How one workload is; `None` if the agent has nothing of it.
pub(super) fn one(
    agent: &Agent,
    history: &History,
    workload: &WorkloadId,
) -> Option<wire::WorkloadStatus> {
    let held = agent.held(workload)?;
    let actions: Vec<_> = history.iter().filter(|action| action.workload == *workload).collect();
    Some(of(held, &actions))
}

/// How all are.
pub(super) fn all(agent: &Agent, history: &History) -> Vec<wire::WorkloadStatus> {
    let mut actions: BTreeMap<&WorkloadId, Vec<&Action>> = BTreeMap::new();
    for action in history.iter() {
        actions.entry(&action.workload).or_default().push(action);
    }
    let held = agent.inventory().held;
    let of_one =
        |held: &Held| of(held, actions.get(&held.report.workload).map_or(&[], Vec::as_slice));
    held.iter().map(of_one).collect()
}

fn of(held: &Held, actions: &[&Action]) -> wire::WorkloadStatus {
    let Held { report, revision, run, pause: _, spec } = held;
    let kind = spec.as_ref().map(|spec| workload_type(spec.workload_type()));
    let desired = if *run { wire::DesiredState::Running } else { wire::DesiredState::Stopped };
    let mut metadata = BTreeMap::from([("state".to_owned(), word_of(&report.state).to_owned())]);
    let mut message = String::new();
    if let State::Failed(failure) | State::Restarting(failure) = &report.state {
        message = failure.message.to_string();
        metadata.insert("failure_reason".to_owned(), failure.reason.code().to_owned());
        metadata.insert("failure_message".to_owned(), message.clone());
        let terminal = !goes_on(&report.state);
        metadata.insert("retry_terminal".to_owned(), terminal.to_string());
    }
    if let Some(trouble) = &report.trouble {
        // It is not over: what failed is tried again.
        message = trouble.message.to_string();
    }
    if let Some(last) = actions.last() {
        metadata.insert("task_id".to_owned(), task_id(last));
        metadata.insert("task_status".to_owned(), word(last).to_owned());
    }
    let updated =
        actions.last().map(|last| last.ended_at.or(last.started_at).unwrap_or(last.created_at));
    wire::WorkloadStatus {
        id: report.workload.to_string(),
        r#type: kind.unwrap_or(wire::WorkloadType::Unspecified).into(),
        revision_id: revision.to_string(),
        desired_state: desired.into(),
        actual_state: actual_state(&report.state).into(),
        message,
        created_at: actions.first().map_or(0, |first| seconds(first.created_at)),
        updated_at: updated.map_or(0, seconds),
        metadata,
        usage: None,
        epoch: report.epoch.0,
        restarts: report.restarts,
    }
}

/// The status in the answer to an order that was just taken: its task waits, whatever became of it
/// while the answer was written.
pub(super) fn taken(status: &mut wire::WorkloadStatus, task: &Action) {
    status.actual_state = wire::ActualState::Pending.into();
    status.metadata.insert("task_id".to_owned(), task_id(task));
    status.metadata.insert("task_status".to_owned(), word(task).to_owned());
}

/// What it used of late.
pub(super) fn add_usage(status: &mut wire::WorkloadStatus, usages: &Usages) {
    let Ok(id) = WorkloadId::new(&status.id) else { return };
    let Some(sample) = usages.of(&id) else { return };
    let said = sample.to_wire(&id);
    status.usage = Some(wire::WorkloadUsageSnapshot {
        workload_id: status.id.clone(),
        r#type: status.r#type,
        cpu_percent: said.cpu_percent,
        memory_bytes: said.memory_bytes,
        disk_read_bytes: said.disk_read_bytes,
        disk_write_bytes: said.disk_write_bytes,
        net_rx_bytes: said.net_rx_bytes,
        net_tx_bytes: said.net_tx_bytes,
        collected_at: seconds(sample.at),
        source: said.source,
    });
}

/// What the runtime says beyond that.
pub(super) fn add_thing(status: &mut wire::WorkloadStatus, thing: &Thing) {
    let mut add = |key: &str, value: String| {
        status.metadata.insert(format!("container.{key}"), value);
    };
    add("id", persys_model::failure::clip(&thing.id, SHORT_ID).to_owned());
    match thing.seen.state {
        Existing::Created => add("state", "created".to_owned()),
        Existing::Running => add("state", "running".to_owned()),
        Existing::Paused { .. } => add("state", "paused".to_owned()),
        Existing::Stuck { .. } => add("state", "not responding".to_owned()),
        Existing::Exited { code } => {
            add("state", "exited".to_owned());
            add("exit_code", code.to_string());
        }
    }
    if let Some(at) = &thing.started_at {
        add("started_at", at.clone());
    }
    if let Some(at) = &thing.finished_at {
        add("finished_at", at.clone());
    }
    if let Some(address) = thing.addresses.first() {
        add("ip", address.to_string());
    }
    for service in &thing.services {
        let state = match service.state {
            Existing::Created => "created".to_owned(),
            Existing::Running => "running".to_owned(),
            Existing::Paused { .. } => "paused".to_owned(),
            Existing::Stuck { .. } => "not responding".to_owned(),
            Existing::Exited { code: 0 } if service.one_shot => "done".to_owned(),
            Existing::Exited { code } => format!("exited with code {code}"),
        };
        status.metadata.insert(format!("service.{}", service.name), state);
    }
}

/// Why it ended: what people look for first. Lines of a workload's own output are cut by the
/// runtime, so that a noisy one fills no answer.
pub(super) fn add_end(status: &mut wire::WorkloadStatus, end: &End) {
    let mut add = |key: &str, value: String| {
        status.metadata.insert(format!("container.{key}"), value);
    };
    add("exit_code", end.code.to_string());
    if let Some(signal) = end.signal {
        add("signal", signal.to_string());
    }
    if end.out_of_memory {
        add("out_of_memory", "true".to_owned());
    }
    if let Some(error) = &end.runtime_error {
        add("runtime_error", error.clone());
    }
    if !end.last_lines.is_empty() {
        add("last_lines", end.last_lines.join("\n"));
    }
}

/// The actions that were asked for.
pub(super) fn actions(
    history: &History,
    filter: &wire::ListActionsRequest,
) -> Vec<wire::AgentAction> {
    let fits = |wanted: &str, is: &str| wanted.is_empty() || wanted == is;
    let wanted = |action: &&Action| {
        fits(&filter.workload_id, action.workload.as_str())
            && fits(&filter.action_type, kind(action))
            && fits(&filter.status, word(action))
    };
    let mut all: Vec<_> = history.iter().filter(wanted).map(action_to_wire).collect();
    if filter.newest_first {
        all.reverse();
    }
    match usize::try_from(filter.limit) {
        Ok(limit) if limit > 0 => all.truncate(limit),
        Ok(_) | Err(_) => {}
    }
    all
}

fn action_to_wire(action: &Action) -> wire::AgentAction {
    let error = match &action.result {
        Some(Err(error)) => error.clone(),
        Some(Ok(())) | None => String::new(),
    };
    wire::AgentAction {
        task_id: task_id(action),
        workload_id: action.workload.to_string(),
        action_type: kind(action).to_owned(),
        status: word(action).to_owned(),
        error,
        created_at: seconds(action.created_at),
        started_at: action.started_at.map_or(0, seconds),
        ended_at: action.ended_at.map_or(0, seconds),
    }
}

fn task_id(action: &Action) -> String {
    action.task_id()
}

fn kind(action: &Action) -> &'static str {
    match action.kind {
        ActionKind::Apply => "apply_workload",
        ActionKind::Delete => "delete_workload",
    }
}

fn word(action: &Action) -> &'static str {
    match &action.result {
        None if action.started_at.is_none() => "pending",
        None => "running",
        Some(Ok(())) => "completed",
        Some(Err(_)) => "failed",
    }
}
