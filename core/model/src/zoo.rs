//! Known protocol bugs that the simulator can put back, to prove that it would find them.
//!
//! Every bug found anywhere gets a switch here. Without the `zoo` feature, which only the proofs
//! enable, [`Zoo::has`] is a constant `false` and the compiler removes each switch.

macro_rules! zoo {
    ($($(#[$doc:meta])* $bug:ident = $name:literal,)*) => {
        /// One known bug.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Bug { $($(#[$doc])* $bug,)* }

        impl Bug {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$bug,)*];

            /// The name on the command line.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$bug => $name,)* }
            }
        }
    };
}

zoo! {
    /// A leader that restarts inside its own lease recognises its host name and believes it still
    /// leads, without reading what its lease now says.
    LeaderIdByHostName = "leader-id-by-host-name",
    /// Commands go out before the decision they carry is durable.
    TokenBeforeCommit = "token-before-commit",
    /// The agent does not look at the session of a command.
    NoSessionInApply = "no-session-in-apply",
    /// The agent does not look at the term of a command or an answer.
    NoTermInApply = "no-term-in-apply",
    /// A workload missing from a report counts as deleted.
    DeleteByAbsence = "delete-by-absence",
    /// What a deleted workload held is never given back.
    CapacityNotReleased = "capacity-not-released",
    /// Events are written in a commit of their own.
    EventOutsideCommit = "event-outside-commit",
    /// A restarted agent starts what its ledger says before anybody confirmed it.
    ActBeforeVerdict = "act-before-verdict",
    /// A degraded scheduler goes on writing and commanding.
    DegradedStillActs = "degraded-still-acts",
    /// An agent removes what the scheduler's list does not name.
    OrphanCollected = "orphan-collected",
    /// Nobody stops exclusive work when the lease runs out.
    NoFence = "no-fence",
    /// The fence lives in the agent process and dies with it.
    FenceDiesWithAgent = "fence-dies-with-agent",
    /// Silence alone moves work: no probe is asked for.
    FailoverWithoutProbe = "failover-without-probe",
    /// A new leader judges leases by what it did not hear before it led.
    NoGraceAfterStart = "no-grace-after-start",
    /// Epochs start again for an id that was deleted and submitted anew.
    EpochPerWorkload = "epoch-per-workload",
    /// A commit of unknown outcome is taken as done, without reading again.
    UnknownMeansDone = "unknown-means-done",
    /// A report may speak of workloads that are assigned elsewhere.
    ReportForOthers = "report-for-others",
    /// A runtime that does not answer counts as empty.
    OutageIsGone = "outage-is-gone",
    /// Placement does not count what is reserved but not yet running.
    NoReservation = "no-reservation",
    /// The agent acts first and writes its intent afterwards.
    EffectBeforeIntent = "effect-before-intent",
    /// Attempts are never used up and never wait.
    RetryForever = "retry-forever",
    /// The retry budget starts a program again after its restart policy gave it up.
    RetryAfterProgramEnd = "retry-after-program-end",
    /// Any number of nodes may be failed over together.
    NoBrake = "no-brake",
    /// An empty store is taken for the truth.
    EmptyIsTruth = "empty-is-truth",
    /// A store that is as old as its scheduler remembers is taken for the latest, whatever agents prove.
    MemoryIsTruth = "memory-is-truth",
    /// A copy that moved away takes its data along when it is removed.
    FormerPurged = "former-purged",
    /// The record of a volume goes with its workload, whether or not its node has given it up.
    VolumeForgottenEarly = "volume-forgotten-early",
    /// A volume for one node at a time does not keep its workload from a second node.
    TwoNodesAttach = "two-nodes-attach",
    /// A volume whose data is kept does not keep a new workload to the node that has it.
    RetainedNotFound = "retained-not-found",
    /// What the runtimes say counts as the answer to the last question, however late it comes.
    LateLookBelieved = "late-look-believed",
    /// Work whose order may have arrived moves on before its node has proved that it has no copy.
    ProofNotAwaited = "proof-not-awaited",
    /// A restart is a stop that is stored and a start that only its leader remembers.
    RestartInTwoSteps = "restart-in-two-steps",
    /// A workload in shadow is announced under its name as any other.
    ShadowAnnounced = "shadow-announced",
    /// What is paused or stuck counts as running: nobody sees it, and nobody resumes it.
    PausedIsRunning = "paused-is-running",
    /// An agent resumes whatever is paused, also what its user paused.
    ResumesAllPaused = "resumes-all-paused",
    /// An agent ends what it stops or removes at once, without asking it to end first.
    KilledUnasked = "killed-unasked",
    /// An agent tells that a workload runs and not that its checks fail.
    UnhealthyUnseen = "unhealthy-unseen",
}

/// The bugs that are switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Zoo(u64);

impl Zoo {
    /// None: the real system.
    pub const NONE: Self = Self(0);

    /// Exactly one.
    #[must_use]
    pub fn only(bug: Bug) -> Self {
        Self(Self::bit(bug))
    }

    /// Whether `bug` is switched on.
    #[must_use]
    #[inline]
    pub fn has(self, bug: Bug) -> bool {
        cfg!(feature = "zoo") && self.0 & Self::bit(bug) != 0
    }

    #[inline]
    fn bit(bug: Bug) -> u64 {
        #[expect(clippy::as_conversions, reason = "the discriminant of a small enum")]
        let index = bug as u64;
        1 << index
    }
}
