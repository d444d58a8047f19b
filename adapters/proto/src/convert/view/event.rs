//! Something that happened, as watchers see it.
//!
//! The type is a word existing dashboards know where they have one for it. Phases before and after
//! are among the details.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_model::assignment::ReasonCode;
use persys_model::event::{Event, Happening, NodeChange, NodePart};
use persys_model::health::HealthState;
use persys_model::id::{NamespaceName, NodeId, WorkloadId};
use persys_model::node::Condition;
use persys_model::phase::Phase;
use persys_model::task::Task;
use persys_model::token::Epoch;
use persys_model::volume::VolumePhase;

use super::node::condition;
use crate::control::v1::SchedulerEventView;
use crate::convert::time::{rfc3339, timestamp};

/// The event on the wire. Ids sort as events happened.
#[must_use]
#[expect(clippy::too_many_lines, reason = "one arm for each kind of event")]
pub fn to_wire(event: &Event) -> SchedulerEventView {
    let mut view = SchedulerEventView {
        id: format!("{:020}", event.seq.0),
        timestamp: Some(timestamp(event.at)),
        ..SchedulerEventView::default()
    };
    match &event.what {
        Happening::Workload { id, from, to, code, message, node, epoch, revision, task } => {
            workload_type(*from, *to, *code).clone_into(&mut view.r#type);
            about(&mut view, Some(id), node.as_ref(), &sentence(*code, message));
            view.details = workload_details(*from, *to, *code, *epoch);
            if let Some(revision) = revision {
                view.details.insert("revision".to_owned(), revision.to_string());
            }
            if let Some(task) = task {
                view.details.extend(task_details(task));
            }
        }
        Happening::NodeRegistered { id } => node(&mut view, "NodeJoined", id, "registered"),
        Happening::NodeCondition { id, from, to, why } => {
            node(&mut view, condition_type(*to), id, why);
            view.details = details([("from", condition(*from)), ("to", condition(*to))]);
        }
        Happening::NodeTrouble { id, part, why } => {
            let kind = if why.is_some() { "NodeTrouble" } else { "NodeTroubleEnded" };
            node(&mut view, kind, id, &trouble(*part, why.as_deref()));
            view.details = details([("part", part_word(*part))]);
        }
        Happening::WorkloadDelayed { id, node, message } => {
            "WorkloadDelayed".clone_into(&mut view.r#type);
            about(&mut view, Some(id), node.as_ref(), message);
        }
        Happening::SecretChanged { id, node, message } => {
            "SecretChanged".clone_into(&mut view.r#type);
            about(&mut view, Some(id), Some(node), message);
        }
        Happening::Health { id, node, to, message } => {
            health_type(*to).clone_into(&mut view.r#type);
            let text = if message.is_empty() { to.text() } else { message };
            about(&mut view, Some(id), Some(node), text);
            view.details = details([("health", to.word())]);
        }
        Happening::NodeChanged { id, what } => {
            let (kind, reason) = change(*what);
            node(&mut view, kind, id, reason);
        }
        Happening::MassFailureBrake { silent, total, on } => {
            let kind = if *on { "FailoverHeld" } else { "FailoverReleased" };
            kind.clone_into(&mut view.r#type);
            view.reason = format!("{silent} of {total} nodes are silent");
        }
        Happening::Drift { node: at, id, kind, resolved } => {
            let happened = if *resolved { "DriftResolved" } else { "DriftDetected" };
            drift(&mut view, happened, at, id, kind.word());
        }
        Happening::Volume { key, to, node } => {
            view.r#type = format!("Disk{}", to.map_or("Deleted", VolumePhase::word));
            view.node_id = node.as_ref().map(ToString::to_string).unwrap_or_default();
            view.reason = format!("disk {key}");
            view.details = details([("disk", &key.to_string())]);
        }
        Happening::Asked { what, workload, node } => {
            "ChangeRequested".clone_into(&mut view.r#type);
            about(&mut view, workload.as_ref(), node.as_ref(), what);
        }
        Happening::Shadow { namespace, on, workloads } => {
            shadow(&mut view, namespace.as_ref(), *on, *workloads);
        }
        Happening::ModeChanged { from, to, why } => {
            "SchedulerModeChanged".clone_into(&mut view.r#type);
            view.reason = why.to_string();
            view.details = details([("from", from.word()), ("to", to.word())]);
        }
    }
    tell_author(&mut view, event);
    view
}

fn tell_author(view: &mut SchedulerEventView, event: &Event) {
    if let Some(by) = &event.by {
        view.details.insert("by".to_owned(), by.who.to_string());
        if !by.why.is_empty() {
            view.details.insert("because".to_owned(), by.why.to_string());
        }
    }
}

/// Fills in the workload and the node an event is about, and its reason.
fn about(
    view: &mut SchedulerEventView,
    workload: Option<&WorkloadId>,
    node: Option<&NodeId>,
    reason: &str,
) {
    view.workload_id = workload.map(ToString::to_string).unwrap_or_default();
    view.node_id = node.map(ToString::to_string).unwrap_or_default();
    reason.clone_into(&mut view.reason);
}

fn node(view: &mut SchedulerEventView, kind: &str, id: &NodeId, reason: &str) {
    kind.clone_into(&mut view.r#type);
    view.node_id = id.to_string();
    reason.clone_into(&mut view.reason);
}

fn drift(view: &mut SchedulerEventView, happened: &str, at: &NodeId, id: &WorkloadId, kind: &str) {
    node(view, happened, at, kind);
    view.workload_id = id.to_string();
    view.details = details([("drift", kind)]);
}

fn shadow(
    view: &mut SchedulerEventView,
    namespace: Option<&NamespaceName>,
    on: bool,
    workloads: usize,
) {
    let (kind, verb) = if on { ("ShadowEntered", "entered") } else { ("ShadowLeft", "left") };
    kind.clone_into(&mut view.r#type);
    let what =
        namespace.map_or_else(|| "the cluster".to_owned(), |name| format!("namespace {name}"));
    view.reason = format!("{what} {verb} shadow; workloads in it: {workloads}");
    view.details = details([("workloads", &workloads.to_string())]);
    if let Some(name) = namespace {
        view.details.insert("namespace".to_owned(), name.to_string());
    }
}

fn details<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn workload_details(
    from: Option<Phase>,
    to: Option<Phase>,
    code: ReasonCode,
    epoch: Option<Epoch>,
) -> BTreeMap<String, String> {
    let mut map = details([("code", code.word())]);
    let mut add = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            map.insert(key.to_owned(), value);
        }
    };
    add("from", from.map(|phase| phase.word().to_owned()));
    add("to", to.map(|phase| phase.word().to_owned()));
    add("epoch", epoch.map(|epoch| epoch.to_string()));
    map
}

/// The agent's action, in the words of its `ListActions`.
fn task_details(task: &Task) -> BTreeMap<String, String> {
    let mut map = details([
        ("task_id", &task.id),
        ("task_node", task.node.as_str()),
        ("action_type", task.action.word()),
        ("task_status", task.status.word()),
    ]);
    let mut add = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            map.insert(key.to_owned(), value);
        }
    };
    add("task_error", task.error.as_ref().map(ToString::to_string));
    add("task_created_at", task.created.map(rfc3339));
    add("task_started_at", task.started.map(rfc3339));
    add("task_ended_at", task.ended.map(rfc3339));
    map
}

/// The message, or the word of the code where that says all.
fn sentence(code: ReasonCode, message: &Arc<str>) -> String {
    if message.is_empty() { code.word().to_owned() } else { message.to_string() }
}

/// What a change of phase is called.
fn workload_type(from: Option<Phase>, to: Option<Phase>, code: ReasonCode) -> &'static str {
    match (from, to) {
        (_, None) => "WorkloadDeleted",
        (None, Some(_)) => "WorkloadSubmitted",
        (Some(_), Some(Phase::Pending)) => {
            let moved = matches!(
                code,
                ReasonCode::NodeLost | ReasonCode::NodeDrained | ReasonCode::DispatchFailed
            );
            if moved { "Rescheduled" } else { "WorkloadPending" }
        }
        (Some(Phase::Backoff), Some(Phase::Starting)) => "RetryTriggered",
        (Some(_), Some(Phase::Starting)) => "WorkloadScheduled",
        (Some(_), Some(Phase::Running)) if code == ReasonCode::UpdateFailed => {
            "WorkloadUpdateFailed"
        }
        (Some(_), Some(Phase::Running)) => "WorkloadRunning",
        (Some(_), Some(Phase::Paused)) => "WorkloadPaused",
        (Some(_), Some(Phase::Unresponsive)) => "WorkloadNotResponding",
        (Some(_), Some(Phase::Restarting)) => "WorkloadRestarting",
        (Some(_), Some(Phase::Stopping)) => "WorkloadStopping",
        (Some(_), Some(Phase::Stopped)) => "WorkloadStopped",
        (Some(_), Some(Phase::Completed)) => "WorkloadCompleted",
        (Some(_), Some(Phase::Backoff)) => "RetryScheduled",
        (Some(_), Some(Phase::Failed)) => "WorkloadFailed",
        (Some(_), Some(Phase::Deleting)) => "WorkloadDeleting",
    }
}

/// The part of a node that has trouble, as a word.
fn part_word(part: NodePart) -> &'static str {
    match part {
        NodePart::Orders => "orders",
        NodePart::Tokens => "tokens",
        NodePart::Runtime(kind) => kind.word(),
    }
}

fn trouble(part: NodePart, why: Option<&str>) -> String {
    match (part, why) {
        (NodePart::Orders, Some(why)) => format!("orders cannot be delivered: {why}"),
        (NodePart::Orders, None) => "orders are delivered again".to_owned(),
        (NodePart::Tokens, Some(why)) => format!("isolated: {why}"),
        (NodePart::Tokens, None) => "no longer isolated".to_owned(),
        (NodePart::Runtime(kind), Some(why)) => format!("{} cannot be run: {why}", kind.word()),
        (NodePart::Runtime(kind), None) => format!("{} can be run again", kind.word()),
    }
}

/// The type of an event about a verdict.
fn health_type(to: HealthState) -> &'static str {
    match to {
        HealthState::Starting => "WorkloadHealthStarting",
        HealthState::Healthy => "WorkloadHealthy",
        HealthState::Unhealthy => "WorkloadUnhealthy",
    }
}

fn condition_type(to: Condition) -> &'static str {
    match to {
        Condition::Ready => "NodeReady",
        Condition::NotReady => "NodeNotReady",
        Condition::Lost => "NodeLost",
    }
}

fn change(what: NodeChange) -> (&'static str, &'static str) {
    match what {
        NodeChange::Draining => ("NodeDraining", "an operator empties it"),
        NodeChange::Undrained => ("NodeReady", "an operator lets it take work again"),
        NodeChange::Tainted => ("NodeTainted", "an operator set a taint"),
        NodeChange::Untainted => ("NodeUntainted", "an operator removed a taint"),
        NodeChange::LabelSet => ("NodeLabelSet", "an operator set a label"),
        NodeChange::LabelDeleted => ("NodeLabelDeleted", "an operator removed a label"),
        NodeChange::ConfirmedGone => ("NodeConfirmedGone", "an operator vouches that it is off"),
        NodeChange::Removed => ("NodeLeft", "an operator removed it"),
    }
}
