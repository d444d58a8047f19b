//! What a user wants, as it is stored.

use std::sync::Arc;

use crate::history::History;
use crate::id::{RevisionId, WorkloadId};
use crate::spec::Spec;
use crate::time::WallMillis;
use crate::token::Generation;

/// The stored intent. Only users change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Its name.
    pub id: WorkloadId,
    /// What to run.
    pub spec: Arc<Spec>,
    /// The name of this version, the client's or ours.
    pub revision: RevisionId,
    /// Raised by every change of spec or desired state.
    pub generation: Generation,
    /// Whether it should run.
    pub desired: Desired,
    /// When it was first accepted.
    pub created_at: WallMillis,
    /// The number of the present revision, and those before it.
    pub history: History,
}

/// What should become of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Desired {
    /// It should run.
    Running,
    /// It should be on its node with all it has in memory, and be given no CPU time.
    Paused,
    /// It should be at rest, its data kept.
    Stopped,
    /// It should be gone.
    Deleted,
}

impl Desired {
    /// The word of the contract.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Paused => "Paused",
            Self::Stopped => "Stopped",
            Self::Deleted => "Deleted",
        }
    }

    /// True if it is to be on a node with its processes: what is paused holds all that what runs does.
    #[must_use]
    pub fn is_up(self) -> bool {
        match self {
            Self::Running | Self::Paused => true,
            Self::Stopped | Self::Deleted => false,
        }
    }
}
