//! The life of a workload: one table, one owner per edge.
//!
//! ```text
//!                 placed          says it runs
//!   ──► Pending ─────────► Starting ─────────► Running ──────► Completed
//!         ▲ ▲ └──────────────│──▲─── moved ──────│ ▲  └─► Stopping ─► Stopped
//!         │ └── moved ───────┘  │ new revision ──┘ │ again
//!         │                     │                  ▼
//!         └──── Backoff ────────┘              Restarting     (Failed: nothing more is tried)
//!   every phase ──► Deleting ──► gone
//! ```
//!
//! Beside Running there are two more in which its processes exist: Paused, where they get no CPU time,
//! and Unresponsive, where nobody can reach them. Both hold all that Running holds.

/// Where a workload is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Wants room on a node and has none; the reason says why.
    Pending,
    /// A node was told to run the present revision and has not said that it does.
    Starting,
    /// The node says it runs.
    Running,
    /// Its processes exist and get no CPU time: its user wants that, or somebody paused it on its node.
    Paused,
    /// Its processes exist and are stuck, or its runtime does not answer for it.
    Unresponsive,
    /// It ended, and its agent starts it again as its restart policy says.
    Restarting,
    /// The node was told to stop it and has not said that it did.
    Stopping,
    /// At rest because the user wants it so.
    Stopped,
    /// It ran to its end, as it should.
    Completed,
    /// It failed; the next attempt has a date.
    Backoff,
    /// It failed, and trying again will not help or the attempts are used up.
    Failed,
    /// It is to go; its node has not said that it is gone.
    Deleting,
}

/// Who may move a workload along an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// Somebody asked: apply, stop, start, retry, delete.
    User,
    /// Placement: found a node, found none, took one away.
    Placer,
    /// The agent that runs it said so.
    Agent,
    /// The retry schedule.
    Retry,
}

use Owner::{Agent, Placer, Retry, User};
use Phase::{
    Backoff, Completed, Deleting, Failed, Paused, Pending, Restarting, Running, Starting, Stopped,
    Stopping, Unresponsive,
};

/// Every legal change of phase and its one owner. What is not here cannot happen.
pub const EDGES: &[(Phase, Phase, Owner)] = &[
    (Pending, Starting, Placer),
    (Pending, Stopped, User),
    (Pending, Deleting, User),
    (Starting, Pending, Placer),
    (Starting, Running, Agent),
    (Starting, Paused, Agent),
    (Starting, Unresponsive, Agent),
    (Starting, Restarting, Agent),
    (Starting, Completed, Agent),
    (Starting, Backoff, Agent),
    (Starting, Failed, Agent),
    (Starting, Stopping, User),
    (Starting, Deleting, User),
    (Running, Starting, User),
    (Running, Pending, Placer),
    (Running, Paused, Agent),
    (Running, Unresponsive, Agent),
    (Running, Restarting, Agent),
    (Running, Completed, Agent),
    (Running, Backoff, Agent),
    (Running, Failed, Agent),
    (Running, Stopping, User),
    (Running, Deleting, User),
    (Paused, Starting, User),
    (Paused, Pending, Placer),
    (Paused, Running, Agent),
    (Paused, Unresponsive, Agent),
    (Paused, Restarting, Agent),
    (Paused, Completed, Agent),
    (Paused, Backoff, Agent),
    (Paused, Failed, Agent),
    (Paused, Stopping, User),
    (Paused, Deleting, User),
    (Unresponsive, Starting, User),
    (Unresponsive, Pending, Placer),
    (Unresponsive, Running, Agent),
    (Unresponsive, Paused, Agent),
    (Unresponsive, Restarting, Agent),
    (Unresponsive, Completed, Agent),
    (Unresponsive, Backoff, Agent),
    (Unresponsive, Failed, Agent),
    (Unresponsive, Stopping, User),
    (Unresponsive, Deleting, User),
    (Restarting, Starting, User),
    (Restarting, Pending, Placer),
    (Restarting, Running, Agent),
    (Restarting, Paused, Agent),
    (Restarting, Unresponsive, Agent),
    (Restarting, Completed, Agent),
    (Restarting, Backoff, Agent),
    (Restarting, Failed, Agent),
    (Restarting, Stopping, User),
    (Restarting, Deleting, User),
    (Stopping, Starting, User),
    (Stopping, Pending, Placer),
    (Stopping, Stopped, Agent),
    (Stopping, Deleting, User),
    (Stopped, Starting, User),
    (Stopped, Pending, User),
    (Stopped, Deleting, User),
    (Completed, Starting, User),
    (Completed, Pending, User),
    (Completed, Stopped, User),
    (Completed, Deleting, User),
    (Backoff, Starting, Retry),
    (Backoff, Pending, Placer),
    (Backoff, Running, Agent),
    (Backoff, Paused, Agent),
    (Backoff, Stopped, User),
    (Backoff, Deleting, User),
    (Failed, Starting, User),
    // What an update left alone runs on in its earlier revision.
    (Failed, Running, Agent),
    (Failed, Pending, User),
    (Failed, Stopped, User),
    (Failed, Deleting, User),
];

/// Who owns the edge `from → to`; `None` when there is no such edge.
#[must_use]
pub fn owner_of(from: Phase, to: Phase) -> Option<Owner> {
    EDGES.iter().find(|(a, b, _)| (*a, *b) == (from, to)).map(|(_, _, owner)| *owner)
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Pending,
        Starting,
        Running,
        Paused,
        Unresponsive,
        Restarting,
        Stopping,
        Stopped,
        Completed,
        Backoff,
        Failed,
        Deleting,
    ];

    /// Whether it uses CPU and memory, or is about to.
    #[must_use]
    pub fn holds_compute(self) -> bool {
        match self {
            Starting | Running | Paused | Unresponsive | Restarting | Stopping | Backoff
            | Deleting => true,
            Pending | Stopped | Completed | Failed => false,
        }
    }

    /// The word existing clients know it by.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Pending => "Pending",
            Starting => "Scheduled",
            Running => "Running",
            Paused => "Paused",
            Unresponsive => "NotResponding",
            Restarting => "Restarting",
            Stopping => "Stopping",
            Stopped => "Stopped",
            Completed => "Completed",
            Backoff => "RetryPending",
            Failed => "Failed",
            Deleting => "Deleting",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_edge_stands_once() {
        for (at, (from, to, _)) in EDGES.iter().enumerate() {
            let twins = EDGES.iter().skip(at + 1).filter(|(a, b, _)| (a, b) == (from, to)).count();
            assert_eq!(twins, 0, "{from:?} -> {to:?} has two owners");
        }
    }

    #[test]
    fn everything_can_be_deleted_and_nothing_comes_back() {
        for phase in Phase::ALL {
            if phase != Deleting {
                assert_eq!(owner_of(phase, Deleting), Some(User), "{phase:?}");
            }
            assert_eq!(owner_of(Deleting, phase), None, "{phase:?}");
        }
    }

    #[test]
    fn every_phase_can_be_reached() {
        for phase in Phase::ALL {
            assert!(phase == Pending || EDGES.iter().any(|(_, to, _)| *to == phase), "{phase:?}");
        }
    }
}
