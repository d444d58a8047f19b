//! The ledger on disk.
//!
//! ```text
//!   state_dir/agent.redb                term · intents · tombstones · actions
//!   state_dir/secrets.key               what the secrets among the intents are sealed with
//!   state_dir/agent.redb.damaged-<ms>   what could not be read, kept for people
//!   state_dir/exclusive                 there if exclusive work was ordered, for the watchdog
//!   state_dir/lease                     until when exclusive work may run, for the watchdog
//! ```
//!
//! What is on disk is also in memory. After a failed write nobody can say what the file holds, so
//! the next write makes a new file of all that is known and gives it the name: no page that the
//! system dropped after a failed sync is ever believed.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use persys_model::id::WorkloadId;
use persys_model::store_mark::StoreMark;
use persys_model::time::{Millis, WallMillis};
use persys_model::volume::order_id;
use persys_node::ledger::{Ledger, LedgerChange};
use persys_seal::{KeyFile, Keys};
use persys_store::embedded::{FileDisk, OpenError as DiskError};
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition,
    TableError, WriteTransaction,
};

use super::actions;
use super::exclusive;
use super::lease::{self, LEASE};
use super::record::{self, Unreadable};
use super::sealed::Opened;
use super::{Keeper, NotWritten};
use crate::history::{Action, History, MOST_ACTIONS};

const FILE: &str = "agent.redb";
const KEYS: &str = "secrets.key";

type Table = TableDefinition<'static, &'static str, &'static [u8]>;
const TERM: Table = TableDefinition::new("term");
const INTENTS: Table = TableDefinition::new("intents");
const TOMBSTONES: Table = TableDefinition::new("tombstones");
/// How often an agent may end while it reads the file.
const MOST_OPENINGS: usize = 3;
/// The one key of the table of terms.
const HIGHEST: &str = "highest";
/// The latest mark of the store, as it came.
const MARKS: Table = TableDefinition::new("marks");
const LATEST: &str = "latest";

/// Why the ledger cannot be opened. What is there is left as it is.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another agent has it.
    #[error("{path} is in use: another agent runs with it; stop that one first")]
    InUse {
        /// The file.
        path: String,
    },
    /// A newer release wrote it.
    #[error("{path} was written by a newer release (version {version}); use that one")]
    Newer {
        /// The file.
        path: String,
        /// The version found.
        version: u32,
    },
    /// The disk does not let us.
    #[error("{path} cannot be opened: {why}")]
    Disk {
        /// The file.
        path: String,
        /// What the system says.
        why: String,
    },
}

/// Opens a file; tests have some on disks that fail.
type OpenDisk = dyn Fn(&Path) -> Result<Opened, NotOpened> + Send + Sync;

/// Why a file was not opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotOpened {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

/// Keeps the ledger in one file.
#[derive(Clone)]
pub struct FileKeeper {
    inner: Arc<Inner>,
    moved: Option<PathBuf>,
}

struct Inner {
    dir: PathBuf,
    keys: Keys,
    boot: String,
    disk: Box<OpenDisk>,
    state: Mutex<State>,
    /// Actions on their way to the disk, by number.
    noted: Mutex<BTreeMap<u64, Action>>,
}

struct State {
    /// `None` after a failed write.
    database: Option<Opened>,
    closed: bool,
    /// What is on disk.
    ledger: Ledger,
    history: History,
}

impl std::fmt::Debug for FileKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileKeeper").field("dir", &self.inner.dir).finish_non_exhaustive()
    }
}

impl FileKeeper {
    /// Opens the ledger in `dir`, or begins one. This waits for the disk: call it before serving.
    pub fn open(dir: &Path, now: WallMillis) -> Result<Self, OpenError> {
        Self::open_on(dir, now, Box::new(|path| Opened::on(FileDisk::open(path)?)))
    }

    pub(super) fn open_on(
        dir: &Path,
        now: WallMillis,
        disk: Box<OpenDisk>,
    ) -> Result<Self, OpenError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(dir).map_err(|error| failed(dir, &error))?;
        let keys = KeyFile::at(dir.join(KEYS)).read_or_make().map_err(|error| OpenError::Disk {
            path: dir.join(KEYS).display().to_string(),
            why: error.to_string(),
        })?;
        let path = dir.join(FILE);
        let exists = path.try_exists().map_err(|error| failed(&path, &error))?;
        let mut moved = None;
        let mut found = None;
        if exists {
            match read_guarded(&path, &disk, &keys) {
                Ok(opened) => found = Some(opened),
                Err(Refused::Open(error)) => return Err(error),
                Err(Refused::Damaged(why)) => moved = Some(move_aside(&path, now, &why)?),
            }
        }
        let (database, ledger, history) = if let Some((database, ledger)) = found {
            let history = actions::read(&database.database);
            (database, ledger, history)
        } else {
            let (ledger, history) = (Ledger::default(), History::default());
            let disk_failed = |why| OpenError::Disk { path: path.display().to_string(), why };
            let made = make(&path, (&disk, &keys), &ledger, &history).map_err(disk_failed)?;
            (made, ledger, history)
        };
        if moved.is_some() || ledger.intents.values().any(exclusive::may_be_exclusive) {
            exclusive::mark(dir).map_err(|error| failed(dir, &error))?;
        }
        let boot = lease::boot_id();
        let state = Mutex::new(State { database: Some(database), closed: false, ledger, history });
        let (dir, noted) = (dir.to_path_buf(), Mutex::default());
        let inner = Arc::new(Inner { dir, keys, boot, disk, state, noted });
        Ok(Self { inner, moved })
    }

    /// Where the file went that could not be read, if there was one.
    #[must_use]
    pub fn moved_aside(&self) -> Option<&Path> {
        self.moved.as_deref()
    }

    /// Waits for the write that is under way, then lets go of the file.
    pub async fn close(&self) {
        // What was noted is no promise.
        drop(self.flush().await);
        let closed = self.on_disk(|inner| {
            let mut state = inner.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.closed = true;
            state.database = None;
            Ok(())
        });
        // Whatever went wrong, the file goes with the process.
        drop(closed.await);
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, String> + Send + 'static,
    ) -> Result<T, NotWritten> {
        let inner = Arc::clone(&self.inner);
        match tokio::task::spawn_blocking(move || work(&inner)).await {
            Ok(done) => done.map_err(NotWritten),
            Err(error) => Err(NotWritten(error.to_string())),
        }
    }
}

#[async_trait::async_trait]
impl Keeper for FileKeeper {
    async fn load(&self) -> Ledger {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner).ledger.clone()
    }

    async fn write(&self, changes: Vec<LedgerChange>) -> Result<(), NotWritten> {
        self.on_disk(move |inner| inner.write(&changes)).await
    }

    async fn lease(&self, until: Millis) -> Result<(), NotWritten> {
        self.on_disk(move |inner| inner.lease(until)).await
    }

    async fn actions(&self) -> Vec<Action> {
        let state = self.inner.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.history.iter().cloned().collect()
    }

    fn note(&self, action: Action) {
        let mut noted = self.inner.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.insert(action.id, action);
        if noted.len() > MOST_ACTIONS {
            noted.pop_first();
        }
    }

    async fn flush(&self) -> Result<(), NotWritten> {
        if self.inner.noted.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return Ok(());
        }
        self.on_disk(|inner| inner.write(&[])).await
    }
}

impl Inner {
    fn write(&self, changes: &[LedgerChange]) -> Result<(), String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Err("it is closed".to_owned());
        }
        exclusive::mark_for(&self.dir, changes).map_err(|error| error.to_string())?;
        let mut ledger = state.ledger.clone();
        for change in changes {
            ledger.apply(change);
        }
        let noted = std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner));
        for action in noted.values() {
            state.history.put(action.clone());
        }
        if let Some(database) = state.database.take() {
            commit(&database.database, |transaction| {
                let put = |change| put(transaction, change, &ledger, &self.keys);
                changes.iter().try_for_each(put)?;
                actions::put(transaction, &noted.values().collect::<Vec<_>>())
            })?;
            state.database = Some(database);
        } else {
            let path = self.dir.join(FILE);
            state.database = Some(make(&path, (&self.disk, &self.keys), &ledger, &state.history)?);
        }
        state.ledger = ledger;
        Ok(())
    }

    /// The watchdog of this boot reads it, and after another boot it is void: it need not survive
    /// the machine, only this process, so nothing is synced.
    fn lease(&self, until: Millis) -> Result<(), String> {
        let text = record::lease(&self.boot, until).map_err(|error| error.to_string())?;
        let (new, path) = (self.dir.join("lease.new"), self.dir.join(LEASE));
        fs::write(&new, text).and_then(|()| fs::rename(&new, &path)).map_err(|e| e.to_string())
    }
}

/// Why a file is not used.
enum Refused {
    Open(OpenError),
    Damaged(String),
}

impl From<Unreadable> for Refused {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Damaged(why) => Self::Damaged(why),
            Unreadable::Newer(version) => {
                Self::Open(OpenError::Newer { path: FILE.to_owned(), version })
            }
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> OpenError {
    OpenError::Disk { path: path.display().to_string(), why: error.to_string() }
}

/// Reads the file, ready for one so rotten that reading it ends the process: redb looks at some
/// pages before it checks them. Openings that never ended are counted beside the file, and after
/// [`MOST_OPENINGS`] of them in a row it counts as damaged. One alone may be a kill at a bad moment.
fn read_guarded(path: &Path, disk: &OpenDisk, keys: &Keys) -> Result<(Opened, Ledger), Refused> {
    let marker = path.with_extension("redb.opening");
    let disk_failed = |error: io::Error| Refused::Open(failed(&marker, &error));
    let before = fs::read(&marker).map_or(0, |tries| tries.len());
    if before >= MOST_OPENINGS {
        fs::remove_file(&marker).map_err(disk_failed)?;
        return Err(Refused::Damaged("every attempt to read it ended the agent".to_owned()));
    }
    fs::write(&marker, vec![b'.'; before + 1]).map_err(disk_failed)?;
    let read = std::panic::catch_unwind(AssertUnwindSafe(|| read_file(path, disk, keys)));
    fs::remove_file(&marker).map_err(disk_failed)?;
    read.unwrap_or_else(|_| Err(Refused::Damaged("reading it ended in a panic".to_owned())))
}

fn read_file(path: &Path, disk: &OpenDisk, keys: &Keys) -> Result<(Opened, Ledger), Refused> {
    let database = disk(path).map_err(|error| match error {
        NotOpened::Database(error) => refusal(path, &error),
        NotOpened::Disk(DiskError::InUse { path }) => Refused::Open(OpenError::InUse { path }),
        NotOpened::Disk(error) => {
            let (path, why) = (path.display().to_string(), error.to_string());
            Refused::Open(OpenError::Disk { path, why })
        }
    })?;
    let ledger = read_ledger(&database.database, keys)?;
    Ok((database, ledger))
}

/// A file that ends too early is damaged; any other word of the system is about the disk.
fn refusal(path: &Path, error: &DatabaseError) -> Refused {
    if let DatabaseError::Storage(StorageError::Io(source)) = error
        && !matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
    {
        return Refused::Open(failed(path, source));
    }
    Refused::Damaged(error.to_string())
}

fn read_ledger(database: &Database, keys: &Keys) -> Result<Ledger, Refused> {
    let mut ledger = Ledger::default();
    each(database, TERM, |_, bytes| {
        ledger.term = record::read_term(bytes)?;
        Ok(())
    })?;
    each(database, MARKS, |_, bytes| {
        // One of another format proves nothing, and the next answer replaces it.
        ledger.mark = StoreMark::from_bytes(bytes);
        Ok(())
    })?;
    each(database, INTENTS, |key, bytes| {
        let workload = workload(key)?;
        let intent = record::read_intent(&workload, bytes, keys)?;
        ledger.intents.insert(workload, intent);
        Ok(())
    })?;
    each(database, TOMBSTONES, |key, bytes| {
        ledger.tombstones.insert(workload(key)?, record::read_buried(bytes)?);
        Ok(())
    })?;
    Ok(ledger)
}

fn workload(key: &str) -> Result<WorkloadId, Unreadable> {
    order_id(key).map_err(|error| Unreadable::Damaged(format!("the key of a record {error}")))
}

fn each(
    database: &Database,
    table: Table,
    mut row: impl FnMut(&str, &[u8]) -> Result<(), Unreadable>,
) -> Result<(), Refused> {
    let damaged = |error: String| Refused::Damaged(error);
    let read = database.begin_read().map_err(|error| damaged(error.to_string()))?;
    let rows = match read.open_table(table) {
        Ok(rows) => rows,
        Err(TableError::TableDoesNotExist(_)) => return Ok(()),
        Err(error) => return Err(damaged(error.to_string())),
    };
    for entry in rows.iter().map_err(|error| damaged(error.to_string()))? {
        let (key, value) = entry.map_err(|error| damaged(error.to_string()))?;
        row(key.value(), value.value())?;
    }
    Ok(())
}

fn move_aside(path: &Path, now: WallMillis, why: &str) -> Result<PathBuf, OpenError> {
    let aside = path.with_file_name(format!("{FILE}.damaged-{}", now.0));
    fs::rename(path, &aside).map_err(|error| failed(path, &error))?;
    tracing::error!(
        why, kept = %aside.display(),
        "the ledger cannot be read; it begins anew, and what runs is found by its labels"
    );
    Ok(aside)
}

/// Makes a file that holds `ledger` and gives it the name `path` when it is whole.
fn make(
    path: &Path,
    (disk, keys): (&OpenDisk, &Keys),
    ledger: &Ledger,
    history: &History,
) -> Result<Opened, String> {
    let new = path.with_extension("redb.new");
    let options = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).open(&new)
    };
    options().map_err(|error| error.to_string())?;
    let database = disk(&new).map_err(|error| error.to_string())?;
    commit(&database.database, |transaction| {
        let put = |change| put(transaction, &change, ledger, keys);
        put(LedgerChange::Term(ledger.term))?;
        if let Some(mark) = &ledger.mark {
            put(LedgerChange::Mark(mark.clone()))?;
        }
        for (workload, intent) in &ledger.intents {
            put(LedgerChange::Put(workload.clone(), intent.clone()))?;
        }
        for (workload, buried) in &ledger.tombstones {
            put(LedgerChange::Bury(workload.clone(), buried.clone()))?;
        }
        actions::put(transaction, &history.iter().collect::<Vec<_>>())
    })?;
    let publish = || {
        fs::rename(&new, path)?;
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    };
    publish().map_err(|error| error.to_string())?;
    Ok(database)
}

/// One durable transaction.
fn commit(
    database: &Database,
    work: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
) -> Result<(), String> {
    let begin = || -> Result<WriteTransaction, redb::Error> {
        let mut transaction = database.begin_write()?;
        transaction.set_two_phase_commit(true);
        Ok(transaction)
    };
    let transaction = begin().map_err(|error| error.to_string())?;
    work(&transaction).map_err(|error| error.to_string())?;
    transaction.commit().map_err(|error| error.to_string())
}

/// Does to the file what [`Ledger::apply`] does in memory; `after` is the result of all changes.
fn put(
    transaction: &WriteTransaction,
    change: &LedgerChange,
    after: &Ledger,
    keys: &Keys,
) -> Result<(), redb::Error> {
    let json = |bytes: serde_json::Result<Vec<u8>>| {
        bytes.map_err(|error| redb::Error::Io(io::Error::other(error.to_string())))
    };
    match change {
        LedgerChange::Term(_) => {
            let bytes = json(record::term(after.term))?;
            transaction.open_table(TERM)?.insert(HIGHEST, bytes.as_slice())?;
        }
        LedgerChange::Mark(mark) => {
            transaction.open_table(MARKS)?.insert(LATEST, mark.as_bytes())?;
        }
        LedgerChange::Put(workload, intent) => {
            let bytes = record::intent(workload, intent, keys);
            let bytes = bytes.map_err(|why| redb::Error::Io(io::Error::other(why)))?;
            transaction.open_table(INTENTS)?.insert(workload.as_str(), bytes.as_slice())?;
        }
        LedgerChange::Bury(workload, buried) => {
            let bytes = json(record::buried(buried))?;
            transaction.open_table(INTENTS)?.remove(workload.as_str())?;
            transaction.open_table(TOMBSTONES)?.insert(workload.as_str(), bytes.as_slice())?;
        }
        LedgerChange::Forget(workload) => {
            transaction.open_table(TOMBSTONES)?.remove(workload.as_str())?;
        }
        LedgerChange::Withdraw(workload) => {
            transaction.open_table(INTENTS)?.remove(workload.as_str())?;
        }
    }
    Ok(())
}
