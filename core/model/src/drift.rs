//! Differences between what is recorded and what an agent says it has.

use crate::id::{NodeId, WorkloadId};
use crate::time::WallMillis;
use crate::token::Epoch;

/// How reality differs from the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DriftKind {
    /// The agent has a workload nobody knows.
    OrphanOnAgent,
    /// The agent's state differs from the recorded one.
    StateMismatch,
    /// The agent runs another decision than the recorded one.
    RevisionMismatch,
    /// The agent should have it and does not.
    MissingOnAgent,
}

impl DriftKind {
    /// The word of the requirement documents, also the last part of its key.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::OrphanOnAgent => "orphan_on_agent",
            Self::StateMismatch => "state_mismatch",
            Self::RevisionMismatch => "revision_mismatch",
            Self::MissingOnAgent => "missing_on_agent",
        }
    }
}

/// The stored record of one difference; gone when it is settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// Where.
    pub node: NodeId,
    /// Which workload.
    pub workload: WorkloadId,
    /// How.
    pub kind: DriftKind,
    /// The decision the agent holds.
    pub epoch: Epoch,
    /// When it was noticed.
    pub since: WallMillis,
    /// An operator said to leave it alone.
    pub ignored: bool,
}
