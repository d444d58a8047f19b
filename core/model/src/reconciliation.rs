//! The last outcome of reconciling a workload, as it is stored for operators.
//!
//! One record per workload, overwritten by the next outcome and removed with the workload. Nothing
//! is decided on it, so it is never read back.

use std::sync::Arc;

use crate::assignment::ReasonCode;
use crate::event::Happening;
use crate::failure::clip;
use crate::id::{NodeId, WorkloadId};
use crate::phase::Phase;
use crate::time::WallMillis;

/// `/reconciliation/<workload>`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconciliation {
    /// The workload.
    pub workload: WorkloadId,
    /// Its node, if it has one.
    pub node: Option<NodeId>,
    /// The action that ended.
    pub action: Action,
    /// True if the workload is as it was to be.
    pub success: bool,
    /// The reason of the phase that was reached.
    pub reason: Arc<str>,
    /// Time of the outcome.
    pub attempted_at: WallMillis,
}

/// The action that came to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// The present revision was to run.
    Apply,
    /// It was to rest.
    Stop,
    /// It was found on a node and taken over.
    Adopt,
}

impl Action {
    /// The word of the record, and of the metric that counts orders.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::Stop => "stop",
            Self::Adopt => "adopt",
        }
    }
}

impl Reconciliation {
    /// Longest reason that is kept, in bytes: the whole message is in the assignment.
    pub const LONGEST_REASON: usize = 256;

    /// The outcome that a change of phase stands for; `None` if an action only began, or if an agent
    /// restarted a workload by itself.
    #[must_use]
    pub fn of(what: &Happening, at: WallMillis) -> Option<Self> {
        let Happening::Workload { id, from, to, code, message, node, .. } = what else {
            return None;
        };
        let (action, success) = match (*from, (*to)?) {
            (Some(Phase::Restarting | Phase::Paused | Phase::Unresponsive), Phase::Running) => {
                return None;
            }
            (_, Phase::Running | Phase::Completed) if *code == ReasonCode::Adopted => {
                (Action::Adopt, true)
            }
            (_, Phase::Running | Phase::Completed) => (Action::Apply, true),
            (_, Phase::Backoff | Phase::Failed) => (Action::Apply, false),
            (_, Phase::Stopped) => (Action::Stop, true),
            (
                _,
                Phase::Pending
                | Phase::Starting
                | Phase::Paused
                | Phase::Unresponsive
                | Phase::Restarting
                | Phase::Stopping
                | Phase::Deleting,
            ) => return None,
        };
        let reason = if message.is_empty() { code.word() } else { message };
        Some(Self {
            workload: id.clone(),
            node: node.clone(),
            action,
            success,
            reason: Arc::from(clip(reason, Self::LONGEST_REASON)),
            attempted_at: at,
        })
    }
}
