//! Everything a scheduler can do, as data.

use std::sync::Arc;

use persys_model::command::Command;
use persys_model::entry::Entries;
use persys_model::event::Event;
use persys_model::id::{NodeId, WorkloadId};
use persys_model::link::{BeatAnswer, RegistrationAnswer};
use persys_model::time::Millis;
use persys_model::token::{Epoch, Session};

use crate::input::RequestId;
use crate::record::Unit;

/// What one step asks the world to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effects {
    /// Units to make durable, in this order. Several may share a store transaction.
    pub units: Vec<Unit>,
    /// Messages that may go now: whatever they rest on is durable.
    pub out: Vec<Outbound>,
    /// When to step again if nothing happens before.
    pub wake_at: Option<Millis>,
    /// The store must be read anew: what was assumed about it may be wrong.
    pub reload: bool,
    /// Rare turns that were taken, for the simulator's coverage.
    pub marks: Marks,
}

/// A message to the outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outbound {
    /// An order to an agent.
    Command(NodeId, Command),
    /// Ask an agent for its last actions about a workload; the answer is [`crate::input::Input::Actions`].
    Actions {
        /// The agent's node.
        node: NodeId,
        /// The workload.
        workload: WorkloadId,
        /// The decision it is asked about.
        epoch: Epoch,
    },
    /// Ask a silent node whether it lives; the answer says when that was asked.
    Probe(NodeId, Session, Millis),
    /// The answer to a registration.
    Registered(RequestId, RegistrationAnswer),
    /// The answer to a beat.
    Beat(RequestId, BeatAnswer),
    /// The answer to a user.
    Reply(RequestId, Reply),
    /// Tell watchers; the event is already stored.
    Publish(Arc<Event>),
    /// By these records requests are judged from now on; they are already stored.
    Entries(Arc<Entries>),
}

/// Remark of an ordinary change.
pub const ACCEPTED: &str = "accepted";
/// Remark of a request that finds everything as it asks.
pub const UNCHANGED: &str = "nothing to change";

/// The answer to a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It is durable.
    Done {
        /// A remark, such as "nothing to change".
        note: Arc<str>,
    },
    /// The store did not confirm it in time: it may or may not have happened.
    Unknown {
        /// What to do about it.
        why: Arc<str>,
    },
    /// It is refused, and nothing was changed.
    Refused {
        /// The class of refusal.
        code: RefusalCode,
        /// Why, and what to do.
        why: Arc<str>,
    },
}

/// Classes of refusal, as clients tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusalCode {
    /// The request makes no sense as it is.
    Invalid,
    /// What it is about does not exist.
    NotFound,
    /// It contradicts what is there.
    Conflict,
    /// Not at present; the same request later may succeed.
    Unavailable,
    /// Too much is waiting already.
    Exhausted,
    /// Whoever asks may not.
    Forbidden,
}

macro_rules! marks {
    ($($(#[$doc:meta])* $mark:ident,)*) => {
        /// A rare turn worth knowing that a test has taken it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mark { $($(#[$doc])* $mark,)* }

        impl Mark {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$mark,)*];
        }
    };
}

marks! {
    /// An agent refused a command of an ended leadership.
    RefusedOldTerm,
    /// An agent refused a command meant for another life.
    RefusedOtherSession,
    /// An agent refused a decision older than what it holds.
    RefusedOldEpoch,
    /// An agent refused to resurrect what it had buried.
    RefusedBuried,
    /// An agent refused because it holds.
    RefusedHolding,
    /// A beat of an ended life was turned away.
    BeatOfOldSession,
    /// A beat was overtaken by a later one.
    BeatOvertaken,
    /// A second machine wanted the name of a living one.
    DuplicateNode,
    /// A lease ran out.
    LeaseExpired,
    /// A silent node answered its probe.
    ProbeAnswered,
    /// A silent node's machine answered, its agent did not.
    ProbeRefused,
    /// A node was declared lost because its host lives and its agent does not.
    AgentDown,
    /// A node was declared lost.
    NodeLost,
    /// An order could not be delivered.
    Undelivered,
    /// An agent answered again to which orders could not be delivered.
    DeliveredAgain,
    /// Work was placed elsewhere because its order could not be delivered.
    MovedUndelivered,
    /// Work that must not run twice was placed elsewhere because its order never left.
    MovedNeverArrived,
    /// Work that must not run twice gave up its place, until its node proves that it has no copy.
    ProofAwaited,
    /// An attempt ended without progress.
    TimedOut,
    /// A runtime of a node stopped or began to answer.
    RuntimeDown,
    /// A lost node came back.
    NodeReturned,
    /// Failover was held back because too many nodes were silent.
    BrakeOn,
    /// The brake was released.
    BrakeOff,
    /// Stateless work was moved off a lost node.
    MovedFromLost,
    /// Work with data stayed with its lost node.
    StayedForData,
    /// Exclusive work waited for its fence.
    WaitedForFence,
    /// Exclusive work moved once its old copy was provably stopped.
    MovedAfterFence,
    /// Work was moved off a draining node.
    MovedByDrain,
    /// A draining node kept work because nothing else fits.
    DrainBlocked,
    /// A copy left behind on a returned node was removed.
    FormerRemoved,
    /// A workload was deleted while its node was away.
    BuriedAway,
    /// A waiting order to remove was carried out when the node returned.
    GraveCleared,
    /// No node fitted.
    NoNodeFits,
    /// A waiting workload found room.
    PendingPlaced,
    /// A new revision found no room, the old one went on.
    UpdateWaited,
    /// A new revision failed, the earlier one went on.
    UpdateFailed,
    /// An attempt failed and another was planned.
    RetryPlanned,
    /// Attempts were used up.
    GaveUp,
    /// A node without room was avoided by the next attempt.
    NodeAvoided,
    /// The failures of a workload were forgotten after long health.
    RetryForgotten,
    /// A command was sent again.
    Resent,
    /// An agent held a newer decision than the store.
    EpochFromTheFuture,
    /// Something unknown was found on a node.
    OrphanFound,
    /// An orphan was adopted.
    OrphanAdopted,
    /// A workload was missing on its node.
    MissingFound,
    /// A node held another decision than recorded.
    RevisionDrift,
    /// A node's state differed from the recorded one.
    StateDrift,
    /// A node said that it paused what its user wants paused.
    PausedAsAsked,
    /// A node found a workload paused that is to run.
    FoundPaused,
    /// A node found a workload stuck.
    FoundUnresponsive,
    /// Checks of a workload fail.
    FoundUnhealthy,
    /// Checks of a workload pass, for the first time or again.
    FoundHealthy,
    /// The store was lost.
    Degraded,
    /// A request was refused while degraded or in recovery.
    RefusedFrozen,
    /// The store came back empty, or older than it was.
    RecoveryEntered,
    /// An agent holds higher numbers than the store and cannot prove them.
    NodeIsolated,
    /// The control plane was rebuilt from its agents.
    RebuiltFromAgents,
    /// The same request came twice and changed nothing the second time.
    Idempotent,
    /// A caller was told that the outcome of its write is unknown.
    OutcomeUnknown,
}

/// A set of marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks(u128);

impl Marks {
    /// Adds one.
    pub fn add(&mut self, mark: Mark) {
        self.0 |= Self::bit(mark);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether `mark` is in the set.
    #[must_use]
    pub fn has(self, mark: Mark) -> bool {
        self.0 & Self::bit(mark) != 0
    }

    fn bit(mark: Mark) -> u128 {
        #[expect(clippy::as_conversions, reason = "the discriminant of a small enum")]
        let index = mark as u32;
        1 << index
    }
}
