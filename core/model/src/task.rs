//! One action an agent carries out for a workload, as its history lists it (`ListActions`).

use std::sync::Arc;

use crate::id::{NodeId, WorkloadId};
use crate::time::WallMillis;
use crate::token::Epoch;

/// An action of an agent. Agents of earlier versions give only some of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The node that carries it out.
    pub node: NodeId,
    /// The agent's name for it, unique on its node.
    pub id: Arc<str>,
    /// The kind of action.
    pub action: TaskAction,
    /// Its progress.
    pub status: TaskStatus,
    /// The agent's error, once it has failed.
    pub error: Option<Arc<str>>,
    /// When it was queued.
    pub created: Option<WallMillis>,
    /// When work on it began.
    pub started: Option<WallMillis>,
    /// When it ended, well or badly.
    pub ended: Option<WallMillis>,
}

impl Task {
    /// Longest id that is kept, in bytes.
    pub const LONGEST_ID: usize = 128;
    /// Longest error that is kept, in bytes.
    pub const LONGEST_ERROR: usize = 512;
}

/// The last action for one workload under one decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadTask {
    /// The workload it is about.
    pub workload: WorkloadId,
    /// The decision it carries out.
    pub epoch: Epoch,
    /// The action.
    pub task: Arc<Task>,
}

/// Kinds of actions, in the words of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskAction {
    /// A workload is created, started or stopped.
    Apply,
    /// A workload is removed.
    Delete,
}

impl TaskAction {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Apply, Self::Delete];

    /// The word on the wire and in logs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Apply => "apply_workload",
            Self::Delete => "delete_workload",
        }
    }
}

/// Progress of an action, in the words of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskStatus {
    /// Queued.
    Pending,
    /// Under way.
    Running,
    /// Ended well.
    Completed,
    /// Ended with an error.
    Failed,
}

impl TaskStatus {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Running, Self::Completed, Self::Failed];

    /// The word on the wire and in logs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}
