//! Keeps `SkyDNS` records what they should be, as long as this process leads.
//!
//! ```text
//!   idle ──leads──► take over: a lease, all records put, those left by others removed
//!    ▲                  │
//!    │                  ▼
//!    └─leads no more─ keep up: changes as they come, the lease kept; nothing else is written
//!                       │ the lease is gone: take over again
//!                       └ something fails: say so once, wait, try again
//! ```
//!
//! Records are attached to a lease, so that they go when nobody keeps them, and keeping them writes
//! nothing. A process that is told to stop ends its lease. One that merely leads no more lets it run
//! out: its successor has long put the same records under a lease of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use persys_cluster::discovery::{Change, Zones};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::sink::{Edit, LeaseId, MOST_EDITS, RecordSink, SinkError};
use crate::skydns::{Ours, entries};

/// How long records outlive a process that ended without a word.
const LEASE: Duration = Duration::from_mins(1);
/// How often the lease is kept: three tries fit before it runs out.
const KEEP: Duration = Duration::from_secs(15);
/// The first wait after a failure; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Longest wait for one call.
const CALL_DEADLINE: Duration = Duration::from_secs(2);

/// What this process may do with the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rights {
    /// Nothing: another leads, or nobody.
    #[default]
    None,
    /// Keep what is there and write nothing: the cluster is not in its normal mode.
    Keep,
    /// Write.
    Write,
}

/// Writes the records.
pub struct Publisher {
    sink: Arc<dyn RecordSink>,
    ours: Ours,
    wanted: BTreeMap<String, String>,
    /// What was put under the present lease.
    written: BTreeMap<String, String>,
    /// Keys that may not be as wanted.
    pending: BTreeSet<String>,
    lease: Option<LeaseId>,
    /// When the lease is to be kept next.
    keep_at: Instant,
    /// The present wait after failures; none while all is well.
    wait: Option<Duration>,
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publisher").field("lease", &self.lease).finish_non_exhaustive()
    }
}

impl Publisher {
    /// A publisher that has published nothing.
    #[must_use]
    pub fn new(sink: Arc<dyn RecordSink>, zones: &Zones) -> Self {
        Self {
            sink,
            ours: Ours::of(zones),
            wanted: BTreeMap::new(),
            written: BTreeMap::new(),
            pending: BTreeSet::new(),
            lease: None,
            keep_at: Instant::now(),
            wait: None,
        }
    }

    /// Follows the changes until their sender is gone, then takes its records away.
    ///
    /// The first changes must be all records there are: what they do not have counts as left over.
    pub async fn run(
        mut self,
        mut changes: mpsc::Receiver<Vec<Change>>,
        mut rights: watch::Receiver<Rights>,
    ) {
        // Before it is known what should be there, nothing that is there is wrong.
        let Some(first) = changes.recv().await else { return };
        self.note(&first);
        loop {
            let may = *rights.borrow_and_update();
            let next = self.turn(may).await;
            tokio::select! {
                more = changes.recv() => match more {
                    Some(more) => self.note(&more),
                    None => break,
                },
                Ok(()) = rights.changed() => {}
                () = sleep_until(next) => {}
            }
        }
        if let Some(lease) = self.lease.take()
            && let Err(error) = within(self.sink.revoke(lease)).await
        {
            tracing::warn!(%error, "records of DNS stay until their lease runs out");
        }
    }

    fn note(&mut self, changes: &[Change]) {
        for change in changes {
            if let Some(before) = &change.before {
                for key in entries(&change.name, before).into_keys() {
                    self.wanted.remove(&key);
                    self.pending.insert(key);
                }
            }
            if let Some(after) = &change.after {
                for (key, value) in entries(&change.name, after) {
                    self.pending.insert(key.clone());
                    self.wanted.insert(key, value);
                }
            }
        }
    }

    /// Does what is to be done now, and says when to look again.
    async fn turn(&mut self, may: Rights) -> Instant {
        let done = match may {
            Rights::None => {
                self.leave();
                return far();
            }
            Rights::Keep => self.keep().await,
            Rights::Write => self.catch_up().await,
        };
        match done {
            Ok(()) => {
                if self.wait.take().is_some() {
                    tracing::info!("records of DNS are written again");
                }
                match (may, self.lease) {
                    (Rights::Write, _) if !self.pending.is_empty() => Instant::now(),
                    (_, Some(_)) => self.keep_at,
                    (_, None) => far(),
                }
            }
            Err(error) => {
                if matches!(error, SinkError::LeaseGone | SinkError::NotLeader) {
                    self.leave();
                }
                if self.wait.is_none() {
                    tracing::warn!(%error, "records of DNS cannot be written; it is tried again");
                }
                let wait = self.wait.map_or(FIRST_WAIT, |wait| LONGEST_WAIT.min(wait * 2));
                self.wait = Some(wait);
                Instant::now() + wait
            }
        }
    }

    /// Whatever was written is somebody else's, or gone.
    fn leave(&mut self) {
        self.lease = None;
        self.written.clear();
    }

    async fn keep(&mut self) -> Result<(), SinkError> {
        let Some(lease) = self.lease else { return Ok(()) };
        if Instant::now() < self.keep_at {
            return Ok(());
        }
        within(self.sink.keep(lease)).await?;
        self.keep_at = Instant::now() + KEEP;
        Ok(())
    }

    /// Writes the next few keys; what changes meanwhile is taken in before the rest.
    async fn catch_up(&mut self) -> Result<(), SinkError> {
        let lease = match self.lease {
            Some(lease) => {
                self.keep().await?;
                lease
            }
            None => self.take_over().await?,
        };
        let keys: Vec<_> = self.pending.iter().take(MOST_EDITS).cloned().collect();
        let edits: Vec<_> = keys.iter().filter_map(|key| self.edit(key)).collect();
        if !edits.is_empty() {
            // Should no answer come, it may have happened; an empty value is like no other.
            self.written.extend(keys.iter().map(|key| (key.clone(), String::new())));
            within(self.sink.edit(lease, &edits)).await?;
        }
        for key in keys {
            self.pending.remove(&key);
            match self.wanted.get(&key) {
                Some(value) => self.written.insert(key, value.clone()),
                None => self.written.remove(&key),
            };
        }
        Ok(())
    }

    async fn take_over(&mut self) -> Result<LeaseId, SinkError> {
        let lease = within(self.sink.grant(LEASE)).await?;
        self.lease = Some(lease);
        self.keep_at = Instant::now() + KEEP;
        self.written.clear();
        self.pending = self.wanted.keys().cloned().collect();
        let left = match within(self.sink.list(&self.ours)).await {
            Ok(left) => left,
            Err(error) => {
                // Without the list the next try begins anew.
                self.lease = None;
                return Err(error);
            }
        };
        for key in left.into_iter().filter(|key| !self.wanted.contains_key(key)) {
            // Of what is there nothing is known but that it is to go.
            self.written.insert(key.clone(), String::new());
            self.pending.insert(key);
        }
        Ok(lease)
    }

    fn edit(&self, key: &str) -> Option<Edit> {
        let (wanted, written) = (self.wanted.get(key), self.written.get(key));
        match (wanted, written) {
            (Some(value), Some(there)) if value == there => None,
            (Some(value), _) => Some(Edit::Put { key: key.to_owned(), value: value.clone() }),
            (None, Some(_)) => Some(Edit::Delete { key: key.to_owned() }),
            (None, None) => None,
        }
    }
}

/// Far enough that something else happens before.
fn far() -> Instant {
    Instant::now() + Duration::from_hours(1)
}

async fn within<T>(call: impl Future<Output = Result<T, SinkError>>) -> Result<T, SinkError> {
    match tokio::time::timeout(CALL_DEADLINE, call).await {
        Ok(answer) => answer,
        Err(_) => Err(SinkError::Unavailable("no answer in time".to_owned())),
    }
}
