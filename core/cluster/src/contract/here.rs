//! The place of a workload on the node of a contract agent.

use std::sync::Arc;

use persys_model::id::RevisionId;
use persys_model::phase::Phase;
use persys_model::spec::Spec;
use persys_model::token::Epoch;

use super::told::Told;

/// The place of a workload, as `Wanted::Here` tells it.
pub(super) struct Here {
    pub(super) epoch: Epoch,
    pub(super) revision: RevisionId,
    pub(super) spec: Arc<Spec>,
    pub(super) run: bool,
    pub(super) phase: Phase,
}

impl Here {
    /// True while an order is under way or the last attempt failed: only a status with its version
    /// tells how it stands.
    pub(super) fn is_open(&self) -> bool {
        match self.phase {
            Phase::Running
            | Phase::Restarting
            | Phase::Paused
            | Phase::Unresponsive
            | Phase::Stopped
            | Phase::Completed => false,
            Phase::Pending
            | Phase::Starting
            | Phase::Stopping
            | Phase::Backoff
            | Phase::Failed
            | Phase::Deleting => true,
        }
    }

    /// True while the end of an order is waited for.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.phase, Phase::Starting | Phase::Stopping)
    }

    /// True if the agent has another version.
    pub(super) fn is_other(&self, told: &Told) -> bool {
        told.revision.as_ref().is_some_and(|revision| *revision != self.revision)
    }
}
