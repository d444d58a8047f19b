//! What a scheduler process asks of the store, and what it may hear.
//!
//! The store keeps one leader key with a lease, one head, and the records. It is asked for five
//! things. A call may fail so that nobody knows whether it happened; the answer to that is always
//! to read again, never to guess.

use std::sync::Arc;

use persys_model::token::{CommitSeq, Term};

use crate::record::{Snapshot, Unit};

/// The process's own number for a call, so that a late answer is not mistaken for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A call to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreCall {
    /// Create the leader key for `candidate` if there is none (or its lease ran out).
    Campaign {
        /// One life of one process; never a host name.
        candidate: Arc<str>,
        /// How long the key lives without renewal, on the store's clock.
        ttl_ms: u64,
    },
    /// Keep the leader key of this term alive.
    Renew {
        /// The term.
        term: Term,
    },
    /// Give the leader key of this term back.
    Resign {
        /// The term.
        term: Term,
    },
    /// Raise the head by one unit, guarded by the term, so that an earlier transaction that is
    /// still on its way can no longer arrive; then read everything. The head is left alone when it
    /// is missing or older than `known`: a store that lost something is not written to.
    Load {
        /// The term.
        term: Term,
        /// The last head this host knows of.
        known: Option<HighWater>,
    },
    /// Write these units together, if `term` still leads and the head is still at `after`.
    Commit {
        /// The term.
        term: Term,
        /// The head this builds on.
        after: CommitSeq,
        /// At least one unit; contiguous numbers.
        units: Vec<Unit>,
    },
}

/// What a call to the store led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreReply {
    /// The campaign is won; the key's creation is the term.
    Won(Term),
    /// Somebody else leads: the candidate's text, and how far the store has come. Those who follow
    /// remember it too, so that whoever leads next notices when the store has lost something.
    HeldBy(Arc<str>, Option<HighWater>),
    /// Renewed; and how far the store has come, as far as it can be told.
    Renewed(Option<HighWater>),
    /// Resigned.
    Done,
    /// The term is over.
    Deposed,
    /// Everything that is stored.
    Loaded(Box<Snapshot>),
    /// The units are durable.
    Committed,
    /// The head was not where it was believed to be; nothing was written.
    HeadMoved,
    /// The call surely changed nothing.
    Unavailable,
    /// Nobody knows whether the call happened.
    Unknown,
}

/// How far the store had come, as a host remembers it outside the store: a store that knows less
/// has lost something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HighWater {
    /// The cluster's identity.
    pub cluster: Arc<str>,
    /// How often it was rebuilt.
    pub incarnation: u64,
    /// A head it surely had.
    pub seq: CommitSeq,
}
