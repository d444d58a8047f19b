//! The seam: what every store can do.

use std::sync::Arc;

use persys_cluster::record::{Snapshot, Unit};
use persys_cluster::store::HighWater;
use persys_model::event::Event;
use persys_model::id::WorkloadId;
use persys_model::token::{CommitSeq, EventSeq, Term};
use tokio::sync::watch;

use crate::error::Error;
use crate::revisions::Revisions;
use crate::trail::{Stretch, Trail};

/// A store, as one scheduler process sees it.
///
/// All but `peek` and `events` are calls of `persys_cluster::store::StoreCall`, which says what each
/// means.
/// A call whose future is dropped may still be carried out.
#[async_trait::async_trait]
pub trait Store: std::fmt::Debug + Send + Sync {
    /// Begins a leadership, if nobody else has one. A candidate that campaigns again has lost
    /// track of its leadership: it never gets the same term twice.
    async fn campaign(&self, candidate: &Arc<str>, ttl_ms: u64) -> Result<Campaign, Error>;

    /// Keeps a leadership alive, and tells how far the store has come: a leader without anything to write
    /// has no other way to notice that it was set back.
    async fn renew(&self, term: Term) -> Result<Option<HighWater>, Error>;

    /// Ends a leadership.
    async fn resign(&self, term: Term) -> Result<(), Error>;

    /// Raises the head by one, unless the store has lost something that `known` tells of; then
    /// reads everything.
    async fn load(&self, term: Term, known: Option<&HighWater>) -> Result<Loaded, Error>;

    /// Reads everything as it is at one moment. Anybody may, whoever leads: nothing is changed, and
    /// the head stays where it is. Nothing may be decided on it.
    async fn peek(&self) -> Result<Loaded, Error>;

    /// Writes units, all or none. It returns when they are durable.
    async fn commit(&self, term: Term, after: CommitSeq, units: Vec<Unit>) -> Result<(), Error>;

    /// Reads events; anybody may, whoever leads.
    async fn events(&self, span: Span) -> Result<History, Error>;

    /// A stretch of the audit log at one moment; anybody may, whoever leads. Stores that can read a
    /// part of what they hold read no more than that.
    async fn audit(&self, stretch: Stretch) -> Result<Trail, Error> {
        Ok(Trail::within(&self.dump().await?).cut(stretch))
    }

    /// The earlier revisions of a workload at one moment; anybody may, whoever leads. Stores that can
    /// read a part of what they hold read no more than that.
    async fn revisions(&self, workload: &WorkloadId) -> Result<Revisions, Error> {
        Ok(Revisions::within(&self.dump().await?, workload))
    }

    /// Every record below the root at one moment, byte for byte, whether it can be read or not:
    /// events and what was moved aside too, but nothing that ends by itself, such as who leads.
    /// Sorted by key, the root taken off. Anybody may.
    async fn dump(&self) -> Result<Pairs, Error>;

    /// Puts back what [`Store::dump`] gave, into a store that holds nothing and that nobody leads.
    /// The head comes last: a store without one that holds a part of `pairs` and nothing else is
    /// one whose filling was interrupted, and it can be filled again.
    async fn fill(&self, pairs: Pairs) -> Result<(), Error>;

    /// The number of the last unit this process knows of. Only a hint: it may be late, skip
    /// numbers, and stay silent about what others write.
    fn watch(&self) -> watch::Receiver<CommitSeq>;

    /// Lets go of whatever is held outside; every later call is `Unavailable`.
    async fn close(&self);
}

/// Keys, without their root, and the bytes under each.
pub type Pairs = Vec<(String, Vec<u8>)>;

/// What became of a campaign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Campaign {
    /// The candidate leads, with this number.
    Won(Term),
    /// This candidate leads; and how far the store has come, as far as it can be told.
    HeldBy(Arc<str>, Option<HighWater>),
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Loaded {
    /// Everything that can be read.
    pub snapshot: Snapshot,
    /// What cannot be read. It stays where it is; should its key be written, it is first copied
    /// under `/quarantine`.
    pub quarantined: Vec<Quarantined>,
}

/// A record that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// Where it is.
    pub key: String,
    /// Why, without quoting it: it may hold secrets.
    pub why: String,
}

/// Which events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// The last so many.
    Last(usize),
    /// The first so many after this one.
    After(EventSeq, usize),
}

impl Span {
    /// Most events that are read at once.
    pub const MOST: usize = 1000;

    /// How many at most.
    #[must_use]
    pub fn limit(self) -> usize {
        match self {
            Self::Last(limit) | Self::After(_, limit) => limit.min(Self::MOST),
        }
    }
}

/// Events, oldest first. A gap at the front tells that older ones are no longer kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    /// Those that can be read.
    pub events: Vec<Arc<Event>>,
    /// How many of the span cannot be read.
    pub unreadable: usize,
}
