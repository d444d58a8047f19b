//! A store in etcd, for a cluster with several schedulers.
//!
//! ```text
//!   /meta/leader   who leads; goes with its lease      /meta/head    the counters, written by every commit
//!   /meta/term     who led last; stays                 /meta/journal a commit too large for one transaction
//!
//!   commit ──► one transaction: leader key as we wrote it? head as we know it? ──► records, events, head
//!                                     └ no: what is there, in the same answer ──► Deposed or HeadMoved
//! ```
//!
//! What holds, whatever etcd's leases, watches and reads do: a write happens only if the leader key
//! and the head are, in that very transaction, what this process believes them to be. Leases decide
//! when somebody else may try, watches are hints, and reads are either made at one revision that a
//! transaction has named or checked by the next transaction.

mod care;
mod dump;
mod earlier;
mod journal;
mod lead;
mod packs;
mod plan;
mod read;
mod view;
mod write;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use persys_cluster::record::Unit;
use persys_cluster::store::HighWater;
use persys_etcd::{Client, Compare, Found, KeyValue, Op};
use persys_model::id::WorkloadId;
use persys_model::token::{CommitSeq, Term};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::lead::{Lead, Leadership};
use self::view::View;
use crate::book::Book;
use crate::error::Error;
use crate::key::{BadRoot, Keys};
use crate::revisions::Revisions;
use crate::settings::Settings;
use crate::store::{Campaign, History, Loaded, Pairs, Span, Store};
use crate::trail::{Stretch, Trail};

pub use care::Health;

/// What may be set about a store in etcd.
#[derive(Debug, Clone)]
pub struct EtcdSettings {
    /// The way to etcd.
    pub way: persys_etcd::Settings,
    /// What may be set about any store.
    pub store: Settings,
    /// How much etcd was told it may store, if that is known: for the gauges only.
    pub quota_bytes: Option<u64>,
}

/// A store in etcd, as one process sees it. Clones are the same process.
#[derive(Debug, Clone)]
pub struct Etcd {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    client: Client,
    settings: Settings,
    keys: Keys,
    leadership: Arc<Mutex<Leadership>>,
    /// Loading and committing take turns; leading goes on meanwhile.
    desk: tokio::sync::Mutex<Desk>,
    head: watch::Sender<CommitSeq>,
    health: watch::Receiver<Health>,
    tasks: Mutex<Vec<Task>>,
}

/// What is remembered between reading and writing.
#[derive(Debug)]
struct Desk {
    book: Book,
    /// What the last transaction left behind; `None` when that is not known.
    view: Option<View>,
}

/// Work beside the calls; it ends with the store.
#[derive(Debug)]
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Etcd {
    /// A store at this place. Nothing is asked of etcd yet: one that is away is waited for.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn open(settings: EtcdSettings) -> Result<Self, BadRoot> {
        let EtcdSettings { way, store: settings, quota_bytes } = settings;
        let keys = Keys::new(&settings.root)?;
        let client = Client::new(way);
        let leadership = Arc::new(Mutex::new(Leadership::default()));
        let head = watch::Sender::new(CommitSeq(0));
        let (health, seen) = watch::channel(Health { quota_bytes, ..Health::default() });
        let tasks = vec![
            Task(tokio::spawn(care::take_care(client.clone(), Arc::clone(&leadership), health))),
            Task(tokio::spawn(care::follow_head(client.clone(), keys.clone(), head.clone()))),
        ];
        let desk = Desk { book: Book::new(keys.clone()), view: None };
        Ok(Self {
            inner: Arc::new(Inner {
                client,
                settings,
                keys,
                leadership,
                desk: tokio::sync::Mutex::new(desk),
                head,
                health: seen,
                tasks: Mutex::new(tasks),
            }),
        })
    }

    /// What a transaction of others must demand to go through only while this process leads; `None`
    /// when it does not.
    #[must_use]
    pub fn while_leading(&self) -> Option<Vec<Compare>> {
        let lead = lock(&self.inner.leadership).lead.clone()?;
        Some(self.inner.guard(&lead))
    }

    /// The client of this store, for what else is kept in the same etcd.
    #[must_use]
    pub fn client(&self) -> Client {
        self.inner.client.clone()
    }

    /// How etcd is, as far as it was last heard.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<Health> {
        self.inner.health.clone()
    }

    /// Frees what etcd no longer needs, and takes back its alarm: the way out of NOSPACE. Each
    /// member answers nothing for a moment meanwhile.
    pub async fn reclaim(&self) -> Result<(), Error> {
        self.inner.reclaim().await
    }
}

impl Inner {
    /// The leadership of `term`, if it is ours as far as we know.
    fn leads(&self, term: Term) -> Result<Lead, Error> {
        let leadership = lock(&self.leadership);
        leadership.lead.clone().filter(|lead| lead.term == term).ok_or(Error::Deposed)
    }

    /// Forgets a leadership that has ended.
    fn step_down(&self, lead: &Lead) {
        let mut leadership = lock(&self.leadership);
        if leadership.lead.as_ref() == Some(lead) {
            leadership.lead = None;
        }
    }

    /// What a transaction of this leadership demands: the leader key is exactly what we wrote.
    fn guard(&self, lead: &Lead) -> Vec<Compare> {
        let key = self.keys.leader();
        vec![Compare::Modified(key.clone(), lead.revision), Compare::Holds(key, lead.value.clone())]
    }

    /// What such a transaction reads if its demands are not met.
    fn instead(&self) -> Vec<Op> {
        vec![Op::Get(self.keys.leader()), Op::Get(self.keys.head())]
    }

    /// Why a transaction was refused, from what it read instead.
    fn refusal(&self, lead: &Lead, found: &[Found]) -> Error {
        let leader = found.first().and_then(Found::one);
        let ours = |kv: &KeyValue| kv.mod_revision == lead.revision && *kv.value == *lead.value;
        if !leader.is_some_and(ours) {
            self.step_down(lead);
            return Error::Deposed;
        }
        let head = found.get(1).and_then(Found::one);
        let read = Book::new(self.keys.clone()).read_head(head.map(|kv| &*kv.value));
        read.err().unwrap_or(Error::HeadMoved)
    }
}

/// The record at `place`, if it is there.
fn nth(found: &[Found], place: usize) -> Option<&KeyValue> {
    found.get(place).and_then(Found::one)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is inside is replaced as a whole; there is never half of it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait::async_trait]
impl Store for Etcd {
    async fn campaign(&self, candidate: &Arc<str>, ttl_ms: u64) -> Result<Campaign, Error> {
        self.inner.campaign(candidate, ttl_ms).await
    }

    async fn renew(&self, term: Term) -> Result<Option<HighWater>, Error> {
        self.inner.renew(term).await
    }

    async fn resign(&self, term: Term) -> Result<(), Error> {
        self.inner.resign(term).await
    }

    async fn load(&self, term: Term, known: Option<&HighWater>) -> Result<Loaded, Error> {
        self.inner.load(term, known).await
    }

    async fn commit(&self, term: Term, after: CommitSeq, units: Vec<Unit>) -> Result<(), Error> {
        self.inner.commit(term, after, &units).await
    }

    async fn peek(&self) -> Result<Loaded, Error> {
        self.inner.peek().await
    }

    async fn events(&self, span: Span) -> Result<History, Error> {
        self.inner.events(span).await
    }

    async fn audit(&self, stretch: Stretch) -> Result<Trail, Error> {
        let [(from, to), meta] = self.inner.keys.of_audit(stretch.before);
        let from = self.inner.audit_start(from, &to, stretch).await?;
        Ok(Trail::within(&self.inner.part(vec![(from, to), meta]).await?).cut(stretch))
    }

    async fn revisions(&self, workload: &WorkloadId) -> Result<Revisions, Error> {
        let folder = self.inner.keys.of_history(workload);
        Ok(Revisions::within(&self.inner.part(vec![folder]).await?, workload))
    }

    async fn dump(&self) -> Result<Pairs, Error> {
        self.inner.dump().await
    }

    async fn fill(&self, pairs: Pairs) -> Result<(), Error> {
        self.inner.fill(pairs).await
    }

    fn watch(&self) -> watch::Receiver<CommitSeq> {
        self.inner.head.subscribe()
    }

    async fn close(&self) {
        // Whoever comes next need not wait for our lease to run out.
        let lead = lock(&self.inner.leadership).lead.clone();
        if let Some(lead) = lead.filter(|_| !self.inner.client.is_closed()) {
            drop(self.inner.resign(lead.term).await);
        }
        self.inner.client.close();
        lock(&self.inner.tasks).clear();
    }
}
