//! What an agent says it has.

use std::sync::Arc;

use crate::failure::Failure;
use crate::fetched::Fetched;
use crate::health::Health;
use crate::id::{RevisionId, WorkloadId};
use crate::spec::Spec;
use crate::store_mark::StoreMark;
use crate::token::Epoch;

/// The state of one workload on one node, as its agent last saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Which.
    pub workload: WorkloadId,
    /// The decision the agent holds for it.
    pub epoch: Epoch,
    /// How it is.
    pub state: State,
    /// How often it was started again under this decision.
    pub restarts: u32,
    /// Whether the scheduler named this decision in the present session; before that the agent
    /// neither starts it nor starts it again.
    pub confirmed: bool,
    /// Counts signs of progress while it is prepared, such as parts of an image that arrived.
    pub progress: u64,
    /// The part of its image that is there, while it is pulled; `None` otherwise, and from agents of
    /// earlier releases.
    pub fetched: Option<Fetched>,
    /// Why the last thing the agent did for it failed, where it tries again: a start, a stop, a removal.
    pub trouble: Option<Failure>,
    /// Beside `Failed`: the other revision that runs on, where the failed one left it alone.
    pub runs: Option<RevisionId>,
    /// Verdict of its checks; `None` where nothing checks it, and where it does not run.
    pub health: Option<Health>,
}

/// How a workload is on its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Being prepared, created or started.
    Pending,
    /// It runs; the report's health tells whether it does its work.
    Running,
    /// Its processes exist and get no CPU time, by order or not; the report's trouble tells the cause
    /// where something is wrong.
    Paused,
    /// Its processes exist and are stuck, or its runtime does not answer for it; the report's trouble
    /// tells which.
    Unresponsive,
    /// It ended and will be started again.
    Restarting(Failure),
    /// At rest as told.
    Stopped,
    /// Ended well under a policy that does not start it again.
    Completed,
    /// The agent has given up on this decision.
    Failed(Failure),
    /// The runtime does not answer: it may run or not.
    Unknown,
}

/// One workload an agent holds, with all that is needed to rebuild the control plane from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its state; carries id and epoch.
    pub report: Report,
    /// The version.
    pub revision: RevisionId,
    /// Whether it is to run.
    pub run: bool,
    /// Beside `run`: true if it is to be paused.
    pub pause: bool,
    /// What it runs; `None` when only the running thing was found, not its intent.
    pub spec: Option<Arc<Spec>>,
}

/// Proof that a node's copy of a workload was removed by a decision.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tombstone {
    /// Which.
    pub workload: WorkloadId,
    /// The decision.
    pub epoch: Epoch,
    /// Whether its data went too. That is so only where the workload itself was deleted; a copy
    /// that was moved away from leaves its data.
    pub purged: bool,
}

/// Everything an agent holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inventory {
    /// Its workloads.
    pub held: Vec<Held>,
    /// What it removed, lately.
    pub tombstones: Vec<Tombstone>,
    /// The latest mark of the store that it was given; `None` from agents of earlier releases.
    pub mark: Option<StoreMark>,
}
