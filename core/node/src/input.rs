//! Everything that can happen to an agent, as data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_model::command::Command;
use persys_model::failure::{Failure, FailureReason, FailureStage};
use persys_model::fetched::Fetched;
use persys_model::health::{Health, HealthState};
use persys_model::id::{PoolName, RevisionId, WorkloadId};
use persys_model::link::{BeatAnswer, RegistrationAnswer};
use persys_model::resources::Compute;
use persys_model::spec::WorkloadType;
use persys_model::token::Epoch;

/// The shell's name for a caller who waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The agent's number for a verb it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VerbId(pub u64);

/// The agent's number for a question to the runtimes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LookId(pub u64);

/// The agent's number for a health probe it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ProbeId(pub u64);

/// The position of a ledger change in the order they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LedgerSeq(pub u64);

/// One thing that happens to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The scheduler orders something.
    Command(RequestId, Command),
    /// The scheduler answered the registration.
    Registered(RegistrationAnswer),
    /// The scheduler answered a beat.
    Heard(BeatAnswer),
    /// No scheduler could be reached with the last message, or it does not lead.
    Unreachable,
    /// The runtimes answered this question for everything that carries our labels.
    Observed(LookId, Observation),
    /// What was left of a bad end, told before the observation that shows the end.
    Ended {
        /// Of which workload.
        workload: WorkloadId,
        /// From its labels: the decision it was made under.
        epoch: Epoch,
        /// Its exit code.
        code: i32,
        /// What happened, as people read it.
        text: Arc<str>,
    },
    /// A verb came to its end.
    Done {
        /// Which.
        verb: VerbId,
        /// Of which workload.
        workload: WorkloadId,
        /// How it went.
        outcome: Outcome,
    },
    /// A verb that starts a workload made progress, such as a part of an image that arrived.
    Progress(WorkloadId, Fetched),
    /// A health probe came to its end.
    Probed {
        /// The probe.
        probe: ProbeId,
        /// Its workload.
        workload: WorkloadId,
        /// How it went.
        outcome: ProbeOutcome,
    },
    /// Ledger changes up to this one are on disk.
    Persisted(LedgerSeq),
    /// The ledger cannot be written (disk full, I/O error): nothing new is taken, nothing lost.
    LedgerFailed,
    /// A runtime hints that something changed, about this workload or anywhere: look soon.
    Stirred(Option<WorkloadId>),
    /// What the machine really uses.
    Usage(Used),
    /// Containers of a workload have filled layers of their own so far.
    Wrote {
        /// Of which workload.
        workload: WorkloadId,
        /// Bytes at present.
        bytes: u64,
        /// Bytes its reservation of disk allows.
        limit: u64,
    },
    /// Time passed.
    Tick,
}

/// What the machine really uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Used {
    /// CPU and memory.
    pub compute: Compute,
    /// Measured use of the file systems behind the node's pools, each counted once.
    pub disk_gib: u64,
    /// Present capacity of pools that have less than their size for workloads, in GiB.
    pub limits: BTreeMap<PoolName, u64>,
    /// Thousandths of the disk that the runtimes keep their things on.
    pub disk_permille: u32,
}

/// What the runtimes said, taken after the step that asked for it. What a runtime says of its own
/// accord makes the shell ask it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// All that exists with our labels. What is not in it does not exist.
    Complete(Vec<Seen>),
    /// The same of all types but some, whose runtimes do not answer: what is of those may be as it
    /// was, or not.
    Partial {
        /// What exists of the others.
        seen: Vec<Seen>,
        /// Of which nothing is known.
        blind: BTreeSet<WorkloadType>,
    },
    /// No runtime answers: everything may be as it was, or not.
    Unknown,
}

/// One thing with our labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// From its labels: whose it is.
    pub workload: WorkloadId,
    /// From its labels: the decision it was made under.
    pub epoch: Epoch,
    /// From its labels: the version it was made from.
    pub revision: RevisionId,
    /// How it is.
    pub state: Existing,
    /// Of a stack: what the policies of its services say of those that ended.
    pub services: ServiceEnds,
    /// Verdict of the checks that the runtime itself runs; `None` where it runs none.
    pub health: Option<ImageHealth>,
}

/// Verdict of the checks that a runtime runs by itself: the `HEALTHCHECK` of an image, those of the
/// services of a stack, the guest agent of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageHealth {
    /// The verdict.
    pub state: HealthState,
    /// Services of a stack whose verdict it is, in order; empty for what is one thing.
    pub blamed: Arc<str>,
    /// The last failed check, with its output; empty unless unhealthy.
    pub detail: Arc<str>,
}

impl ImageHealth {
    /// The verdict on one thing.
    #[must_use]
    pub fn of_one(state: HealthState, detail: &str) -> Self {
        Self { state, blamed: Arc::from(""), detail: Arc::from(detail) }
    }

    /// The verdict as a report tells it.
    pub(crate) fn told(&self) -> Health {
        match (self.state, self.blamed.is_empty()) {
            (HealthState::Starting, _) => Health::starting(),
            (HealthState::Healthy, _) => Health::healthy(),
            (HealthState::Unhealthy, true) => Health::unhealthy(&self.detail),
            (HealthState::Unhealthy, false) => {
                Health::unhealthy(&format!("service {}: {}", self.blamed, self.detail))
            }
        }
    }
}

/// How a health probe went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// The answer was yes.
    Passed,
    /// The answer was no, or there was none in time; why, as people read it.
    Failed(Arc<str>),
    /// The runtime did not answer: nothing is known.
    Unknown,
}

/// Ended services of a stack, judged each by its own restart policy. Empty for anything else, and for a
/// stack whose services have one policy: its end is judged as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceEnds {
    /// All of them have ended, and none is started again.
    pub over: bool,
    /// A service that failed and is not started again while others go on, in words.
    pub failed: Option<Arc<str>>,
}

impl ServiceEnds {
    /// The failed service, as a report tells it.
    pub(crate) fn trouble(&self) -> Option<Failure> {
        let failure = |text: &Arc<str>| Failure::new(FailureReason::RuntimeError, text);
        self.failed.as_ref().map(|text| failure(text).in_stage(FailureStage::Run))
    }
}

/// How an existing thing is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Existing {
    /// Made, not started since.
    Created,
    /// It runs.
    Running,
    /// Its processes exist and get no CPU time.
    Paused {
        /// The fault that paused it, as people read it; `None` if somebody did.
        fault: Option<Arc<str>>,
    },
    /// Its processes exist and are stuck, or the runtime answers for others and not for this.
    Stuck {
        /// The sign of it, as people read it.
        why: Arc<str>,
    },
    /// It ended.
    Exited {
        /// Its exit code; 0 is a good end.
        code: i32,
    },
}

impl Existing {
    /// Paused by somebody, not by a fault.
    pub const PAUSED: Self = Self::Paused { fault: None };

    /// True if its processes exist: it runs, or it holds all that it would hold if it ran.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        match self {
            Self::Running | Self::Paused { .. } | Self::Stuck { .. } => true,
            Self::Created | Self::Exited { .. } => false,
        }
    }
}

/// How a verb went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is so, or was so already.
    Done,
    /// A start: it runs, and the checks that its runtime runs say this so far.
    Started(Option<ImageHealth>),
    /// It failed.
    Failed(Failure),
    /// It failed, and what was there before is there still.
    Kept(Failure, Box<Seen>),
    /// The runtime did not answer: it may be so or not.
    Unknown,
}
