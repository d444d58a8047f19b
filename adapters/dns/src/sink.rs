//! Where `SkyDNS` records are kept: the seam to etcd, and one in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::skydns::Ours;

/// A promise to come back: what is attached to it goes when nobody keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

/// One change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// The key has this value, and is attached to the lease of the call from now on.
    Put {
        /// Which.
        key: String,
        /// What.
        value: String,
    },
    /// The key goes.
    Delete {
        /// Which.
        key: String,
    },
}

/// Why it did not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    /// The lease is gone, and with it all that was attached to it.
    #[error("the lease is gone")]
    LeaseGone,
    /// Another process leads: this one must not write.
    #[error("another scheduler leads")]
    NotLeader,
    /// No answer, or one that makes no sense; it may have happened.
    #[error("{0}")]
    Unavailable(String),
}

/// Keeps records. All calls may be repeated.
#[async_trait]
pub trait RecordSink: Send + Sync {
    /// A new lease of this length.
    async fn grant(&self, length: Duration) -> Result<LeaseId, SinkError>;

    /// Keeps a lease for another length. Writes nothing.
    async fn keep(&self, lease: LeaseId) -> Result<(), SinkError>;

    /// Ends a lease: everything still attached to it goes.
    async fn revoke(&self, lease: LeaseId) -> Result<(), SinkError>;

    /// All of our keys that are there, whoever put them.
    async fn list(&self, ours: &Ours) -> Result<BTreeSet<String>, SinkError>;

    /// Makes these changes, at most [`MOST_EDITS`] of them, together and only while this process
    /// leads.
    async fn edit(&self, lease: LeaseId, edits: &[Edit]) -> Result<(), SinkError>;
}

/// Changes in one call; as many as one transaction of etcd takes.
pub const MOST_EDITS: usize = 100;

/// Records in memory, which a test can look at, count and break.
#[derive(Debug, Default)]
pub struct MemorySink(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    records: BTreeMap<String, (String, Option<LeaseId>)>,
    leases: BTreeSet<LeaseId>,
    last: i64,
    writes: usize,
    keeps: usize,
    broken: bool,
}

impl MemorySink {
    /// All keys and values.
    #[must_use]
    pub fn records(&self) -> BTreeMap<String, String> {
        let memory = self.lock();
        memory.records.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect()
    }

    /// How many keys were put or deleted so far.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.lock().writes
    }

    /// How often a lease was kept so far.
    #[must_use]
    pub fn keeps(&self) -> usize {
        self.lock().keeps
    }

    /// Somebody else puts a record that nobody keeps.
    pub fn put(&self, key: &str, value: &str) {
        self.lock().records.insert(key.to_owned(), (value.to_owned(), None));
    }

    /// From now on nothing works, or everything again.
    pub fn set_broken(&self, broken: bool) {
        self.lock().broken = broken;
    }

    /// Time passes that nobody used: all leases run out.
    pub fn expire(&self) {
        let mut memory = self.lock();
        memory.leases.clear();
        memory.records.retain(|_, (_, lease)| lease.is_none());
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn working(&self) -> Result<MutexGuard<'_, Memory>, SinkError> {
        let memory = self.lock();
        if memory.broken {
            return Err(SinkError::Unavailable("broken by the test".to_owned()));
        }
        Ok(memory)
    }
}

#[async_trait]
impl RecordSink for MemorySink {
    async fn grant(&self, _length: Duration) -> Result<LeaseId, SinkError> {
        let mut memory = self.working()?;
        memory.last += 1;
        let lease = LeaseId(memory.last);
        memory.leases.insert(lease);
        Ok(lease)
    }

    async fn keep(&self, lease: LeaseId) -> Result<(), SinkError> {
        let mut memory = self.working()?;
        memory.keeps += 1;
        if memory.leases.contains(&lease) { Ok(()) } else { Err(SinkError::LeaseGone) }
    }

    async fn revoke(&self, lease: LeaseId) -> Result<(), SinkError> {
        let mut memory = self.working()?;
        memory.leases.remove(&lease);
        memory.records.retain(|_, (_, held)| *held != Some(lease));
        Ok(())
    }

    async fn list(&self, ours: &Ours) -> Result<BTreeSet<String>, SinkError> {
        let memory = self.working()?;
        Ok(memory.records.keys().filter(|key| ours.has(key)).cloned().collect())
    }

    async fn edit(&self, lease: LeaseId, edits: &[Edit]) -> Result<(), SinkError> {
        let mut memory = self.working()?;
        if !memory.leases.contains(&lease) {
            return Err(SinkError::LeaseGone);
        }
        memory.writes += edits.len();
        for edit in edits {
            match edit {
                Edit::Put { key, value } => {
                    memory.records.insert(key.clone(), (value.clone(), Some(lease)));
                }
                Edit::Delete { key } => {
                    memory.records.remove(key);
                }
            }
        }
        Ok(())
    }
}
