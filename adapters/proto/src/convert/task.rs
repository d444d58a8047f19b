//! An action of an agent, both ways.
//!
//! Actions are for logs, events and people, and no decision rests on one: an action that cannot be
//! read is left out, and the message it came in counts without it.

use std::sync::Arc;

use persys_model::failure::clip;
use persys_model::id::{NodeId, WorkloadId};
use persys_model::task::{Task, TaskAction, TaskStatus, WorkloadTask};
use persys_model::token::Epoch;
use persys_model::volume::order_id;

use super::time::{timestamp, wall};
use crate::agent::v1 as agent;
use crate::control::v1 as wire;

/// The action on the wire.
#[must_use]
pub fn to_wire(named: &WorkloadTask) -> wire::WorkloadTask {
    of_view(&named.workload, Some(named.epoch), &named.task)
}

/// The action on the wire, for a workload that is shown.
#[must_use]
pub fn of_view(workload: &WorkloadId, epoch: Option<Epoch>, task: &Task) -> wire::WorkloadTask {
    wire::WorkloadTask {
        workload_id: workload.to_string(),
        epoch: epoch.map_or(0, |epoch| epoch.0),
        node_id: task.node.to_string(),
        task_id: task.id.to_string(),
        action_type: task.action.word().to_owned(),
        status: task.status.word().to_owned(),
        error: task.error.as_ref().map(ToString::to_string).unwrap_or_default(),
        created_at: task.created.map(timestamp),
        started_at: task.started.map(timestamp),
        ended_at: task.ended.map(timestamp),
    }
}

/// The action a message means; `None` if it cannot be read.
#[must_use]
pub fn from_wire(given: &wire::WorkloadTask) -> Option<WorkloadTask> {
    let task = Task {
        node: NodeId::new(&given.node_id).ok()?,
        id: id(&given.task_id)?,
        action: TaskAction::ALL.into_iter().find(|action| action.word() == given.action_type)?,
        status: status(&given.status)?,
        error: text(&given.error, Task::LONGEST_ERROR),
        created: given.created_at.as_ref().map(wall),
        started: given.started_at.as_ref().map(wall),
        ended: given.ended_at.as_ref().map(wall),
    };
    let workload = order_id(&given.workload_id).ok()?;
    Some(WorkloadTask { workload, epoch: Epoch(given.epoch), task: Arc::new(task) })
}

/// The id and the progress an agent of an earlier version names in a status.
pub(super) fn named_in(
    status_of: Option<&agent::WorkloadStatus>,
) -> Option<(Arc<str>, TaskStatus)> {
    let metadata = &status_of?.metadata;
    let progress = metadata.get("task_status").and_then(|word| status(word));
    Some((id(metadata.get("task_id")?)?, progress.unwrap_or(TaskStatus::Pending)))
}

fn status(word: &str) -> Option<TaskStatus> {
    TaskStatus::ALL.into_iter().find(|status| status.word() == word)
}

fn id(given: &str) -> Option<Arc<str>> {
    text(given, Task::LONGEST_ID)
}

/// A text of a peer: without control characters, cut, and not empty.
fn text(given: &str, most: usize) -> Option<Arc<str>> {
    let plain = given.replace(char::is_control, " ");
    (!plain.is_empty()).then(|| Arc::from(clip(&plain, most)))
}
