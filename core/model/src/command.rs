//! What the scheduler tells an agent, and what the agent answers.
//!
//! Every command carries three tokens. The agent refuses one whose term is lower than the highest
//! it has seen, whose session is not its own, or whose epoch is lower than what it holds, and says
//! which; it acts on positive orders only.

use std::sync::Arc;

use crate::id::{RevisionId, WorkloadId};
use crate::secret::SecretValues;
use crate::spec::Spec;
use crate::token::{Epoch, Session, Term};

/// One order to one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The leadership that gives it.
    pub term: Term,
    /// The life of the node it is meant for.
    pub session: Session,
    /// The decision it carries out.
    pub epoch: Epoch,
    /// About which workload.
    pub workload: WorkloadId,
    /// What to do.
    pub order: Order,
}

/// What an agent is to do with a workload. "Already so" is success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Have it as described.
    Apply(Apply),
    /// Have it not at all, and remember that with a tombstone. Managed volumes go only with
    /// `purge`: a copy that moved away leaves its data to the operator.
    Remove {
        /// Whether its deletable data goes too.
        purge: bool,
    },
}

/// A workload as an agent is to have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apply {
    /// The version.
    pub revision: RevisionId,
    /// Running or at rest.
    pub run: bool,
    /// Beside `run`: paused as soon as it runs.
    pub pause: bool,
    /// What to run.
    pub spec: Arc<Spec>,
    /// Its secrets, opened just before the order is sent.
    pub secrets: Arc<SecretValues>,
}

/// The answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The intent is on disk; reports follow with the next beat.
    Accepted,
    /// The workload is gone and its tombstone is on disk.
    Removed {
        /// The tombstone.
        epoch: Epoch,
    },
    /// Nothing was done.
    Refused(Refusal),
}

/// Why an agent does not obey.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The command comes from a leadership that has ended.
    OldTerm {
        /// The highest term seen.
        seen: Term,
    },
    /// The command was meant for another life of this node.
    OtherSession {
        /// The present life, if registered.
        present: Option<Session>,
    },
    /// A newer decision is already held.
    OldEpoch {
        /// The decision that is held.
        held: Epoch,
    },
    /// The workload was removed by a newer decision.
    Buried {
        /// The tombstone.
        tombstone: Epoch,
    },
    /// The agent takes nothing new at present.
    Holding,
    /// The node is being emptied: nothing new is started, stops and removals are obeyed.
    Draining,
}
