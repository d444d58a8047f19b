//! A store in one file, for a cluster with one scheduler.
//!
//! ```text
//!   calls ──► queue ──► one thread, the keeper ──► redb ──► disk ──► file
//!                        leads: Option<Leader>      │         └ notes what failed
//!                        Open ── disk failed ──► Down ── sync failed ──► for good
//!                          ▲                      │      otherwise
//!                          └────── opened again ──┘
//! ```
//!
//! The lock on the file is the leadership: it ends with the process and not before, and each
//! campaign that is won counts the term up on disk. A call is answered when it is durable. When a
//! write fails nobody can say what is on disk, so the file is closed and read anew; when a sync
//! fails the system may have dropped what it was to write, so the file is not touched again by this
//! process.

mod disk;
mod keeper;
mod shelf;

use std::path::Path;
use std::sync::Arc;

use persys_cluster::record::Unit;
use persys_cluster::store::HighWater;
use persys_model::id::WorkloadId;
use persys_model::token::{CommitSeq, Term};
use tokio::sync::{mpsc, oneshot, watch};

use self::keeper::Keeper;
use crate::error::Error;
use crate::key::BadRoot;
use crate::revisions::Revisions;
use crate::settings::Settings;
use crate::store::{Campaign, History, Loaded, Pairs, Span, Store};
use crate::trail::{Stretch, Trail};

pub use disk::{Disks, FileDisk};

/// The name of the file in the state directory of a scheduler.
pub const FILE: &str = "store.redb";

/// Calls that may wait for the keeper; a caller beyond that waits to be let in.
const MOST_WAITING: usize = 64;

/// Why a file cannot be opened as a store. The file is left as it is.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("the store {path} is in use: another persys runs with it; stop that one first")]
    InUse {
        /// The file.
        path: String,
    },
    /// It is damaged, or something else altogether.
    #[error("{path} is not a store, or is damaged: {why}; move it away or restore a backup")]
    Damaged {
        /// The file.
        path: String,
        /// What was found.
        why: String,
    },
    /// The system does not let us.
    #[error("the store {path} cannot be opened")]
    Disk {
        /// The file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The root is none.
    #[error(transparent)]
    Root(#[from] BadRoot),
}

type Job = Box<dyn FnOnce(&mut Keeper) + Send>;

/// A store in one file. Clones are the same store; the file is free again when the last is gone,
/// or after [`Store::close`].
#[derive(Debug, Clone)]
pub struct Embedded {
    jobs: mpsc::Sender<Job>,
    head: watch::Receiver<CommitSeq>,
}

impl Embedded {
    /// Opens the file at `path`, or makes it. This waits for the disk: call it before serving.
    pub fn open(path: &Path, settings: Settings) -> Result<Self, OpenError> {
        let exists = path.try_exists().map_err(|source| disk::failed(path, source))?;
        if !exists {
            create(path, &settings)?;
        }
        Self::open_on(Disks::file(path), settings)
    }

    /// Opens a store on any disk; tests have some that fail.
    pub fn open_on(disks: Disks, settings: Settings) -> Result<Self, OpenError> {
        let path = disks.path().to_owned();
        let (keeper, head) = Keeper::open(disks, settings)?;
        let (jobs, mut queue) = mpsc::channel::<Job>(MOST_WAITING);
        let work = move || {
            let mut keeper = keeper;
            while let Some(job) = queue.blocking_recv() {
                job(&mut keeper);
            }
        };
        std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(work)
            .map_err(|source| OpenError::Disk { path, source })?;
        Ok(Self { jobs, head })
    }

    /// Has the keeper do something, and waits for it.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Keeper) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(move |keeper: &mut Keeper| {
            // A caller that gave up does not mind.
            drop(reply.send(work(keeper)));
        });
        if self.jobs.send(job).await.is_err() {
            return Err(Error::unavailable("its thread is gone"));
        }
        answer.await.unwrap_or_else(|_| Err(Error::unknown("its thread went away")))
    }
}

/// Makes a store beside `path` and gives it that name when it is whole: a file that a crash left
/// half made could not be told from a damaged one.
fn create(path: &Path, settings: &Settings) -> Result<(), OpenError> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".new-{}", std::process::id()));
    let new = Path::new(&new);
    drop(Keeper::open(Disks::new_file(new), settings.clone())?);
    disk::publish(new, path)
}

#[async_trait::async_trait]
impl Store for Embedded {
    async fn campaign(&self, candidate: &Arc<str>, _ttl_ms: u64) -> Result<Campaign, Error> {
        let candidate = Arc::clone(candidate);
        self.ask(move |keeper| keeper.campaign(candidate)).await
    }

    async fn renew(&self, term: Term) -> Result<Option<HighWater>, Error> {
        self.ask(move |keeper| keeper.renew(term)).await
    }

    async fn resign(&self, term: Term) -> Result<(), Error> {
        self.ask(move |keeper| keeper.resign(term)).await
    }

    async fn load(&self, term: Term, known: Option<&HighWater>) -> Result<Loaded, Error> {
        let known = known.cloned();
        self.ask(move |keeper| keeper.load(term, known.as_ref())).await
    }

    async fn peek(&self) -> Result<Loaded, Error> {
        self.ask(Keeper::peek).await
    }

    async fn commit(&self, term: Term, after: CommitSeq, units: Vec<Unit>) -> Result<(), Error> {
        self.ask(move |keeper| keeper.commit(term, after, &units)).await
    }

    async fn events(&self, span: Span) -> Result<History, Error> {
        self.ask(move |keeper| keeper.events(span)).await
    }

    async fn audit(&self, stretch: Stretch) -> Result<Trail, Error> {
        let reading = self.ask(Keeper::reading).await?;
        let read = tokio::task::spawn_blocking(move || reading.audit(stretch));
        read.await.map_err(Error::unavailable)?
    }

    async fn revisions(&self, workload: &WorkloadId) -> Result<Revisions, Error> {
        let (reading, workload) = (self.ask(Keeper::reading).await?, workload.clone());
        let read = tokio::task::spawn_blocking(move || reading.revisions(&workload));
        read.await.map_err(Error::unavailable)?
    }

    async fn dump(&self) -> Result<Pairs, Error> {
        let reading = self.ask(Keeper::reading).await?;
        // Beside the keeper: reading all of a large store takes longer than a commit may.
        let read = tokio::task::spawn_blocking(move || reading.dump());
        read.await.map_err(Error::unavailable)?
    }

    async fn fill(&self, pairs: Pairs) -> Result<(), Error> {
        self.ask(move |keeper| keeper.fill(pairs)).await
    }

    fn watch(&self) -> watch::Receiver<CommitSeq> {
        self.head.clone()
    }

    async fn close(&self) {
        let closed = self.ask(|keeper| {
            keeper.close();
            Ok(())
        });
        // A keeper that is gone has closed already.
        drop(closed.await);
    }
}
