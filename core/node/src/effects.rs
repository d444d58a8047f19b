//! Everything an agent can do, as data.

use std::collections::BTreeSet;
use std::sync::Arc;

use persys_model::command::Answer;
use persys_model::failure::FailureReason;
use persys_model::id::{RevisionId, SecretName, WorkloadId};
use persys_model::link::{Beat, Registration};
use persys_model::secret::SecretValues;
use persys_model::spec::Spec;
use persys_model::spec::health::Check;
use persys_model::time::Millis;
use persys_model::token::Epoch;

use crate::input::{LedgerSeq, LookId, ProbeId, RequestId, VerbId};
use crate::ledger::LedgerChange;

/// What one step asks of the outside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effects {
    /// Ledger changes to write, in order. The shell answers `Persisted` when they are on disk.
    pub ledger: Vec<(LedgerSeq, LedgerChange)>,
    /// Verbs to run now; their intent is on disk. At most one per workload at a time.
    pub verbs: Vec<Run>,
    /// Health probes to run now; each is answered with `Probed`.
    pub probes: Vec<Probing>,
    /// Answers to commands; what they claim is on disk.
    pub answers: Vec<(RequestId, Answer)>,
    /// Reasons of programs and guests that ended and are started again or given up, one each; only counted.
    pub ends: Vec<FailureReason>,
    /// A message to the scheduler.
    pub send: Option<Upward>,
    /// Ask the runtimes what exists; the answer carries this number.
    pub observe: Option<Look>,
    /// The deadline of exclusive work has moved to this moment. The shell tells the watchdog before
    /// it runs the verbs of the same step.
    pub fence_at: Option<Millis>,
    /// When to step again if nothing happens before.
    pub wake_at: Option<Millis>,
}

/// A question to the runtimes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The answer carries it.
    pub id: LookId,
    /// True: ask about every single thing that runs, to find what is stuck. False: what the runtimes list
    /// is enough.
    pub probe: bool,
}

/// A message to the scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upward {
    /// A life begins.
    Register(Registration),
    /// A life goes on.
    Beat(Beat),
}

/// One verb for one workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its number.
    pub id: VerbId,
    /// Whose.
    pub workload: WorkloadId,
    /// What to do.
    pub verb: Verb,
}

/// A health probe to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probing {
    /// Its number.
    pub id: ProbeId,
    /// The workload to ask.
    pub workload: WorkloadId,
    /// The question, and the time there is for the answer.
    pub check: Arc<Check>,
}

/// What a runtime can do. Each is idempotent: "already so" is success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verb {
    /// Make it with these labels, from this spec, and start it. If it exists with this revision it
    /// is only started. With another one it is brought over if that is done in place; anything else
    /// is left alone, and this fails.
    Start {
        /// Label.
        epoch: Epoch,
        /// Label.
        revision: RevisionId,
        /// What to run.
        spec: Arc<Spec>,
        /// Its secrets.
        secrets: Arc<SecretValues>,
        /// For exclusive work: do not let it start after this moment.
        not_after: Option<Millis>,
        /// It was seen paused: only resume it. What ended since is left alone, and this fails.
        resume: bool,
    },
    /// Fetch what is needed to make it, such as its image. Nothing that exists is touched.
    Prepare {
        /// What is to run.
        spec: Arc<Spec>,
    },
    /// Give what runs the new values of these secrets, and tell it by the signals its spec names.
    Refresh {
        /// What runs.
        spec: Arc<Spec>,
        /// All its secrets.
        secrets: Arc<SecretValues>,
        /// Those that changed.
        changed: BTreeSet<SecretName>,
    },
    /// Give its processes no CPU time, keep all they have. A start of the same revision resumes it.
    Pause,
    /// Ask it to end, end it when its grace is over, keep it.
    Stop {
        /// Most of its grace that it has, in milliseconds: less time is left to it.
        within_ms: Option<u64>,
    },
    /// Ask it to end as a stop does, then have nothing of it left; data goes only with `purge`.
    Remove {
        /// Whether deletable data goes too.
        purge: bool,
        /// Most of its grace that it has, in milliseconds: less time is left to it.
        within_ms: Option<u64>,
    },
}

impl Verb {
    /// A stop with all the grace there is.
    pub const STOP: Self = Self::Stop { within_ms: None };

    /// A removal with all the grace there is.
    #[must_use]
    pub const fn remove(purge: bool) -> Self {
        Self::Remove { purge, within_ms: None }
    }
}
