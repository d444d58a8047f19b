//! The one thread that has the file: who leads, and what to do when the disk fails.

use std::io::ErrorKind;
use std::sync::Arc;

use persys_cluster::record::Unit;
use persys_cluster::store::HighWater;
use persys_model::token::{CommitSeq, Term};
use redb::{Builder, Database, DatabaseError, StorageError};
use tokio::sync::watch;

use super::OpenError;
use super::disk::{Disks, Failures};
use super::shelf::{Reading, Tables, read_all, read_events, read_record};
use crate::book::{Book, Edit, put};
use crate::chain::{self, Shelf};
use crate::error::Error;
use crate::key::Keys;
use crate::record::{Leader, decode};
use crate::settings::Settings;
use crate::store::{Campaign, History, Loaded, Pairs, Span};

/// Memory for pages of the file, most of which are read once, when the store is loaded.
const CACHE_BYTES: usize = 32 * 1024 * 1024;

/// The file and what is known about it.
#[derive(Debug)]
pub(super) struct Keeper {
    disks: Disks,
    settings: Settings,
    state: State,
    /// Whose leadership the lock on the file is at present.
    leader: Option<Leader>,
    book: Book,
    head: watch::Sender<CommitSeq>,
}

/// An open file.
///
/// It is never closed in good order. redb checks a whole file against its checksums only when it
/// was not, and otherwise believes what it reads; a page that rotted would then end the process
/// much later, or be taken for a record. A full check costs less than a second.
#[derive(Debug)]
struct File {
    database: Database,
    failures: Arc<Failures>,
}

impl Drop for File {
    fn drop(&mut self) {
        self.failures.seal();
    }
}

#[derive(Debug)]
enum State {
    Open(Box<File>),
    /// The disk failed.
    Down {
        why: String,
        for_good: bool,
    },
    Closed,
}

impl Keeper {
    pub(super) fn open(
        disks: Disks,
        settings: Settings,
    ) -> Result<(Self, watch::Receiver<CommitSeq>), OpenError> {
        let book = Book::new(Keys::new(&settings.root)?);
        let state = open(&disks).map_err(|refused| refused.error)?;
        let (head, seen) = watch::channel(CommitSeq(0));
        let mut keeper = Self { disks, settings, state, leader: None, book, head };
        // One transaction shows that the file can be written, and makes its tables.
        if let Err(error) = keeper.write(|_, _, _| Ok(())) {
            let path = keeper.disks.path().to_owned();
            return Err(match keeper.state {
                State::Down { why, .. } => {
                    OpenError::Disk { path, source: std::io::Error::other(why) }
                }
                State::Open(_) | State::Closed => {
                    OpenError::Damaged { path, why: error.to_string() }
                }
            });
        }
        Ok((keeper, seen))
    }

    pub(super) fn campaign(&mut self, candidate: Arc<str>) -> Result<Campaign, Error> {
        self.reopen()?;
        if let (Some(leader), State::Open(file)) = (&self.leader, &self.state)
            && leader.candidate != candidate
        {
            // A head that cannot be read is for the leader to tell.
            let bytes = read_record(&file.database, &self.book.keys.head())?;
            let head = self.book.read_head(bytes.as_deref()).ok().flatten();
            let reached = head.as_ref().map(chain::high_water);
            return Ok(Campaign::HeldBy(Arc::clone(&leader.candidate), reached));
        }
        let leader = self.write(|shelf, book, _| {
            let last = stored_leader(shelf, book)?;
            let term = last.map_or(Term(0), |leader| leader.term).next();
            let leader = Leader { candidate, term };
            if let Edit::Put(key, bytes) = put(book.keys.leader(), &leader, None)? {
                shelf.put(&key, &bytes)?;
            }
            Ok(leader)
        })?;
        let term = leader.term;
        self.leader = Some(leader);
        Ok(Campaign::Won(term))
    }

    pub(super) fn renew(&mut self, term: Term) -> Result<Option<HighWater>, Error> {
        self.reopen()?;
        self.leads(term)?;
        // The file is locked for this process: nobody else can set it back.
        Ok(None)
    }

    pub(super) fn resign(&mut self, term: Term) -> Result<(), Error> {
        self.leads(term)?;
        self.leader = None;
        Ok(())
    }

    pub(super) fn load(&mut self, term: Term, known: Option<&HighWater>) -> Result<Loaded, Error> {
        self.reopen()?;
        self.leads(term)?;
        let loaded = self.write(|shelf, book, _| chain::load(shelf, book, known))?;
        let seq = loaded.snapshot.head.as_ref().map(|head| head.seq);
        self.head.send_replace(seq.unwrap_or_default());
        Ok(loaded)
    }

    /// The file as it is now, to be read by somebody else.
    pub(super) fn reading(&mut self) -> Result<Reading, Error> {
        self.reopen()?;
        match &self.state {
            State::Open(file) => Reading::begin(&file.database, self.book.keys.clone()),
            State::Down { .. } | State::Closed => Err(Error::unavailable("it is not open")),
        }
    }

    pub(super) fn fill(&mut self, pairs: Pairs) -> Result<(), Error> {
        if self.leader.is_some() {
            return Err(Error::NotEmpty { key: self.book.keys.leader() });
        }
        let keys = self.book.keys.clone();
        self.write(|shelf, _, _| chain::fill(shelf, &keys, pairs))
    }

    pub(super) fn commit(
        &mut self,
        term: Term,
        after: CommitSeq,
        units: &[Unit],
    ) -> Result<(), Error> {
        self.reopen()?;
        self.leads(term)?;
        let seq =
            self.write(|shelf, book, settings| chain::commit(shelf, book, settings, after, units))?;
        self.head.send_replace(seq);
        Ok(())
    }

    pub(super) fn peek(&mut self) -> Result<Loaded, Error> {
        let keys = self.book.keys.clone();
        self.look(|database| read_all(database, &keys))
    }

    pub(super) fn events(&mut self, span: Span) -> Result<History, Error> {
        self.look(|database| read_events(database, span))
    }

    /// Reads something that nothing is decided on.
    fn look<T>(&mut self, read: impl FnOnce(&Database) -> Result<T, Error>) -> Result<T, Error> {
        self.reopen()?;
        let State::Open(file) = &self.state else {
            return Err(Error::unavailable("it is not open"));
        };
        let found = read(&file.database);
        if found.is_err()
            && let Some(failure) = file.failures.first()
        {
            self.state = State::Down { why: failure.why, for_good: failure.sync };
        }
        found
    }

    pub(super) fn close(&mut self) {
        self.state = State::Closed;
        self.leader = None;
    }

    fn leads(&self, term: Term) -> Result<(), Error> {
        match &self.leader {
            Some(leader) if leader.term == term => Ok(()),
            Some(_) | None => Err(Error::Deposed),
        }
    }

    /// One durable transaction. An error of `work` takes everything back.
    fn write<T>(
        &mut self,
        work: impl FnOnce(&mut dyn Shelf, &mut Book, &Settings) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.reopen()?;
        let State::Open(file) = &self.state else {
            return Err(Error::unavailable("it is not open"));
        };
        let failures = Arc::clone(&file.failures);
        let (result, committing) = match file.database.begin_write() {
            Err(error) => (Err(Error::unavailable(error)), false),
            Ok(mut transaction) => {
                // Without it, a newest commit that rotted would count as one that never ended,
                // and the one before it would be taken for the truth.
                transaction.set_two_phase_commit(true);
                let done = Tables::open(&transaction)
                    .and_then(|mut tables| work(&mut tables, &mut self.book, &self.settings));
                match done {
                    Err(error) => {
                        let aborted = transaction.abort().map_err(Error::unavailable);
                        (Err(aborted.err().unwrap_or(error)), false)
                    }
                    Ok(done) => (transaction.commit().map_err(Error::unknown).map(|()| done), true),
                }
            }
        };
        // A refusal of ours leaves the file as it was; everything else does not.
        if let Err(Error::Unavailable { why } | Error::Unknown { why }) = &result
            && (committing || failures.first().is_some())
        {
            let failure = failures.first();
            let for_good = failure.as_ref().is_none_or(|failure| failure.sync);
            let why = failure.map_or_else(|| why.clone(), |failure| failure.why);
            self.state = State::Down { why, for_good };
        }
        result
    }

    /// Opens the file again if it was closed after a failure from which that may help.
    fn reopen(&mut self) -> Result<(), Error> {
        match &self.state {
            State::Open(_) => return Ok(()),
            State::Closed => return Err(Error::unavailable("it was closed")),
            State::Down { why, for_good: true } => {
                let why = format!("{why}; it is not used again before a restart");
                return Err(Error::unavailable(why));
            }
            State::Down { for_good: false, .. } => {}
        }
        self.state = match open(&self.disks) {
            Ok(state) => state,
            Err(Refused { error, sync }) => {
                let why = error.to_string();
                self.state = State::Down { why: why.clone(), for_good: sync };
                return Err(Error::unavailable(why));
            }
        };
        // The lock was free for a moment: whoever took it meanwhile has led since.
        match self.write(|shelf, book, _| stored_leader(shelf, book)) {
            Ok(stored) => {
                if self.leader != stored {
                    self.leader = None;
                }
                Ok(())
            }
            Err(error) => {
                let why = error.to_string();
                if let State::Open(_) = &self.state {
                    self.state = State::Down { why: why.clone(), for_good: false };
                }
                // Whatever became of that, the caller's own wish was not touched.
                Err(Error::unavailable(why))
            }
        }
    }
}

fn stored_leader(shelf: &dyn Shelf, book: &Book) -> Result<Option<Leader>, Error> {
    let key = book.keys.leader();
    let Some(bytes) = shelf.get(&key)? else { return Ok(None) };
    match decode::<Leader>(&bytes) {
        Ok((leader, _)) => Ok(Some(leader)),
        // Terms must never count back.
        Err(why) => Err(Error::Unreadable { key, why }),
    }
}

/// A file that was not opened, and whether a sync failed on the way.
struct Refused {
    error: OpenError,
    sync: bool,
}

fn open(disks: &Disks) -> Result<State, Refused> {
    let (disk, failures) = disks.open().map_err(|error| Refused { error, sync: false })?;
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    match builder.create_with_backend(disk) {
        Ok(database) => Ok(State::Open(Box::new(File { database, failures }))),
        Err(error) => Err(Refused {
            error: refusal(disks.path().to_owned(), error),
            sync: failures.first().is_some_and(|failure| failure.sync),
        }),
    }
}

/// A file that ends too early is damaged; any other word of the system is about the disk.
fn refusal(path: String, error: DatabaseError) -> OpenError {
    let why = error.to_string();
    if let DatabaseError::Storage(StorageError::Io(source)) = error
        && !matches!(source.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
    {
        return OpenError::Disk { path, source };
    }
    OpenError::Damaged { path, why }
}
