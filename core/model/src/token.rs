//! Numbers that keep stale promises harmless.
//!
//! Each one only grows, is durable before it is sent, rides on every command, and the receiver
//! refuses the smaller one and says so.

macro_rules! token {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// The one that supersedes this one.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

token!(
    /// One leadership of one scheduler process. Two processes never share a term, not even two
    /// lives of the same host.
    Term
);
impl Term {
    /// The term as agents see it. A store that was wiped or restored counts its leaderships anew,
    /// so the number of times the cluster was rebuilt stands in front: it never goes back.
    #[must_use]
    pub fn in_incarnation(self, incarnation: u64) -> Self {
        Self(incarnation.saturating_mul(1 << 32).saturating_add(self.0))
    }

    /// The incarnation in front of a term.
    #[must_use]
    pub fn incarnation(self) -> u64 {
        self.0 >> 32
    }
}

token!(
    /// One life of one node, as the scheduler counts it. It is raised when an agent process
    /// registers anew and when the node is declared lost, so that a command meant for an earlier
    /// life is refused however late it arrives.
    Session
);
token!(
    /// One decision about where and how a workload runs. Epochs are drawn from one counter of the
    /// whole cluster, so an id that is deleted and submitted again never meets its old tombstone.
    Epoch
);
token!(
    /// One version of what the user asked for: spec or desired state.
    Generation
);
token!(
    /// Position of a commit in the scheduler's log.
    CommitSeq
);
token!(
    /// Position of an event in the history of the cluster.
    EventSeq
);
