//! What is there of one workload, as it was last seen.

use persys_model::id::RevisionId;
use persys_model::token::Epoch;

use crate::decide::{Thing, Version};
use crate::input::{Existing, Seen};

/// What is there of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum View {
    #[default]
    Unknown,
    Absent,
    There {
        epoch: Epoch,
        revision: RevisionId,
        state: Existing,
    },
}

impl From<Seen> for View {
    fn from(seen: Seen) -> Self {
        Self::There { epoch: seen.epoch, revision: seen.revision, state: seen.state }
    }
}

impl View {
    /// The same, as the table sees it from `revision`.
    pub(crate) fn thing(&self, revision: &RevisionId) -> Thing {
        match self {
            Self::Unknown => Thing::Unknown,
            Self::Absent => Thing::Absent,
            Self::There { revision: made_from, state, .. } => {
                let version = if made_from == revision { Version::Same } else { Version::Other };
                match state {
                    Existing::Created => Thing::Created(version),
                    Existing::Running => Thing::Running(version),
                    Existing::Paused { .. } => Thing::Paused(version),
                    Existing::Stuck { .. } => Thing::Stuck(version),
                    Existing::Exited { code } => Thing::Exited(version, *code),
                }
            }
        }
    }

    /// True if a start under `epoch` starts what an earlier decision made: its labels stay.
    pub(crate) fn made_before(&self, epoch: Epoch, revision: &RevisionId) -> bool {
        match self {
            Self::There { epoch: made, revision: of, .. } => *made < epoch && of == revision,
            Self::Unknown | Self::Absent => false,
        }
    }

    /// The same in another state.
    pub(crate) fn with(&self, changed: Existing) -> Self {
        match self {
            Self::There { epoch, revision, .. } => {
                Self::There { epoch: *epoch, revision: revision.clone(), state: changed }
            }
            Self::Unknown => Self::Unknown,
            Self::Absent => Self::Absent,
        }
    }

    /// The decision that what is there was made under.
    pub(crate) fn made_under(&self) -> Option<Epoch> {
        match self {
            Self::There { epoch, .. } => Some(*epoch),
            Self::Unknown | Self::Absent => None,
        }
    }

    /// True if it was made from this revision.
    pub(crate) fn is_of(&self, wanted: &RevisionId) -> bool {
        match self {
            Self::There { revision, .. } => revision == wanted,
            Self::Unknown | Self::Absent => false,
        }
    }

    /// Whether it runs, in whatever version.
    pub(crate) fn runs(&self) -> bool {
        match self {
            Self::There { state, .. } => *state == Existing::Running,
            Self::Unknown | Self::Absent => false,
        }
    }

    /// Whether its processes exist, in whatever version.
    pub(crate) fn is_alive(&self) -> bool {
        match self {
            Self::There { state, .. } => state.is_alive(),
            Self::Unknown | Self::Absent => false,
        }
    }
}
