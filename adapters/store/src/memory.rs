//! A store that forgets everything with its process: for tests and for trying things out.
//!
//! It is also the fake: it runs on tokio's clock, several processes can share it, and it can be
//! told to fail. What it holds are the same bytes under the same keys as in any other store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use persys_cluster::record::Unit;
use persys_cluster::store::HighWater;
use persys_model::token::{CommitSeq, Term};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::book::Book;
use crate::chain::{self, Shelf};
use crate::error::Error;
use crate::key::{BadRoot, Keys};
use crate::settings::Settings;
use crate::store::{Campaign, History, Loaded, Pairs, Span, Store};

/// A store in memory, as one process sees it. Clones are the same process.
#[derive(Debug, Clone)]
pub struct Memory {
    shared: Arc<Mutex<Shared>>,
    process: Arc<Mutex<Process>>,
}

/// How the next call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// It is refused.
    Refused,
    /// It is lost on its way, and nobody knows.
    CallLost,
    /// It is carried out, and nobody knows.
    AnswerLost,
}

#[derive(Debug)]
struct Shared {
    contents: Contents,
    settings: Settings,
    leader: Option<Leadership>,
    last_term: Term,
    outage: Option<Outage>,
    head: watch::Sender<CommitSeq>,
}

#[derive(Debug)]
struct Process {
    book: Book,
    candidate: Option<Arc<str>>,
    closed: bool,
}

#[derive(Debug)]
struct Leadership {
    candidate: Arc<str>,
    term: Term,
    ttl: Duration,
    until: Instant,
}

#[derive(Debug, Default)]
struct Contents {
    records: BTreeMap<String, Vec<u8>>,
    events: BTreeMap<String, Vec<u8>>,
}

impl Memory {
    /// An empty store.
    pub fn new(settings: Settings) -> Result<Self, BadRoot> {
        let keys = Keys::new(&settings.root)?;
        let shared = Shared {
            contents: Contents::default(),
            settings,
            leader: None,
            last_term: Term(0),
            outage: None,
            head: watch::Sender::new(CommitSeq(0)),
        };
        let process = Process { book: Book::new(keys), candidate: None, closed: false };
        Ok(Self { shared: Arc::new(Mutex::new(shared)), process: Arc::new(Mutex::new(process)) })
    }

    /// The same store, as another process sees it.
    #[must_use]
    pub fn another(&self) -> Self {
        let book = Book::new(lock(&self.process).book.keys.clone());
        let process = Process { book, candidate: None, closed: false };
        Self { shared: Arc::clone(&self.shared), process: Arc::new(Mutex::new(process)) }
    }

    /// Lets the next call fail, whoever makes it.
    pub fn fail_next(&self, outage: Outage) {
        lock(&self.shared).outage = Some(outage);
    }

    /// Loses everything, the leader and the count of terms too.
    pub fn wipe(&self) {
        let mut shared = lock(&self.shared);
        shared.contents = Contents::default();
        shared.leader = None;
        shared.last_term = Term(0);
    }

    /// The bytes under `key`.
    #[must_use]
    pub fn bytes(&self, key: &str) -> Option<Vec<u8>> {
        let shared = lock(&self.shared);
        shared.contents.records.get(key).or_else(|| shared.contents.events.get(key)).cloned()
    }

    /// Puts bytes under `key`, as a person might.
    pub fn put_bytes(&self, key: &str, bytes: &[u8]) {
        let is_event = key.contains("/events/");
        let contents = &mut lock(&self.shared).contents;
        let table = if is_event { &mut contents.events } else { &mut contents.records };
        table.insert(key.to_owned(), bytes.to_vec());
    }

    /// One call, with whatever goes wrong around it.
    fn call<T>(
        &self,
        work: impl FnOnce(&mut Shared, &mut Process) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (mut process, mut shared) = (lock(&self.process), lock(&self.shared));
        if process.closed {
            return Err(Error::unavailable("it was closed"));
        }
        if shared.leader.as_ref().is_some_and(|leader| leader.until <= Instant::now()) {
            shared.leader = None;
        }
        match shared.outage.take() {
            None => work(&mut shared, &mut process),
            Some(Outage::Refused) => Err(Error::unavailable("an outage was asked for")),
            Some(Outage::CallLost) => Err(Error::unknown("an outage was asked for")),
            Some(Outage::AnswerLost) => {
                work(&mut shared, &mut process)?;
                Err(Error::unknown("an outage was asked for"))
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A test that panicked elsewhere leaves whole calls behind, never half a one.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// The leadership of `term`, if it is this process's: a wiped store counts its terms anew.
    fn leads(&mut self, process: &Process, term: Term) -> Result<&mut Leadership, Error> {
        let own = process.candidate.as_ref();
        let leader = self.leader.as_mut();
        leader
            .filter(|leader| leader.term == term && Some(&leader.candidate) == own)
            .ok_or(Error::Deposed)
    }
}

#[async_trait::async_trait]
impl Store for Memory {
    async fn campaign(&self, candidate: &Arc<str>, ttl_ms: u64) -> Result<Campaign, Error> {
        self.call(|shared, process| {
            if let Some(leader) = &shared.leader
                && leader.candidate != *candidate
            {
                // A head that cannot be read is for the leader to tell.
                let head = chain::head(&shared.contents, &process.book).ok().flatten();
                let reached = head.as_ref().map(chain::high_water);
                return Ok(Campaign::HeldBy(Arc::clone(&leader.candidate), reached));
            }
            let (term, ttl) = (shared.last_term.next(), Duration::from_millis(ttl_ms));
            let candidate = Arc::clone(candidate);
            process.candidate = Some(Arc::clone(&candidate));
            shared.last_term = term;
            shared.leader = Some(Leadership { candidate, term, ttl, until: Instant::now() + ttl });
            Ok(Campaign::Won(term))
        })
    }

    async fn renew(&self, term: Term) -> Result<Option<HighWater>, Error> {
        self.call(|shared, process| {
            let leader = shared.leads(process, term)?;
            leader.until = Instant::now() + leader.ttl;
            let head = chain::head(&shared.contents, &process.book).ok().flatten();
            Ok(head.as_ref().map(chain::high_water))
        })
    }

    async fn resign(&self, term: Term) -> Result<(), Error> {
        self.call(|shared, process| {
            shared.leads(process, term)?;
            shared.leader = None;
            Ok(())
        })
    }

    async fn load(&self, term: Term, known: Option<&HighWater>) -> Result<Loaded, Error> {
        self.call(|shared, process| {
            shared.leads(process, term)?;
            let loaded = chain::load(&mut shared.contents, &mut process.book, known)?;
            let seq = loaded.snapshot.head.as_ref().map(|head| head.seq);
            shared.head.send_replace(seq.unwrap_or_default());
            Ok(loaded)
        })
    }

    async fn peek(&self) -> Result<Loaded, Error> {
        self.call(|shared, process| {
            chain::peek(&process.book.keys, Box::new(|see| shared.contents.each(see)))
        })
    }

    async fn commit(&self, term: Term, after: CommitSeq, units: Vec<Unit>) -> Result<(), Error> {
        self.call(|shared, process| {
            shared.leads(process, term)?;
            let Shared { contents, settings, .. } = shared;
            let seq = chain::commit(contents, &mut process.book, settings, after, &units)?;
            shared.head.send_replace(seq);
            Ok(())
        })
    }

    async fn events(&self, span: Span) -> Result<History, Error> {
        self.call(|shared, _| chain::events(span, Box::new(|see| shared.contents.events_back(see))))
    }

    async fn dump(&self) -> Result<Pairs, Error> {
        self.call(|shared, process| {
            let Contents { records, events } = &shared.contents;
            chain::dump(
                &process.book.keys,
                Box::new(|see| {
                    records.iter().chain(events).for_each(|(key, bytes)| see(key, bytes));
                    Ok(())
                }),
            )
        })
    }

    async fn fill(&self, pairs: Pairs) -> Result<(), Error> {
        self.call(|shared, process| {
            let keys = &process.book.keys;
            if shared.leader.is_some() {
                return Err(Error::NotEmpty { key: keys.leader() });
            }
            chain::fill(&mut shared.contents, keys, pairs)
        })
    }

    fn watch(&self) -> watch::Receiver<CommitSeq> {
        lock(&self.shared).head.subscribe()
    }

    async fn close(&self) {
        lock(&self.process).closed = true;
    }
}

impl Shelf for Contents {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.records.get(key).cloned())
    }

    fn put(&mut self, key: &str, bytes: &[u8]) -> Result<(), Error> {
        self.records.insert(key.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn delete(&mut self, key: &str) -> Result<(), Error> {
        self.records.remove(key);
        Ok(())
    }

    fn each(&self, see: &mut dyn FnMut(&str, &[u8])) -> Result<(), Error> {
        self.records.iter().for_each(|(key, bytes)| see(key, bytes));
        Ok(())
    }

    fn put_event(&mut self, key: &str, bytes: &[u8]) -> Result<(), Error> {
        self.events.insert(key.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn event_count(&self) -> Result<u64, Error> {
        Ok(u64::try_from(self.events.len()).unwrap_or(u64::MAX))
    }

    fn oldest_event(&self) -> Result<Option<String>, Error> {
        Ok(self.events.keys().next().cloned())
    }

    fn delete_oldest_event(&mut self) -> Result<(), Error> {
        self.events.pop_first();
        Ok(())
    }

    fn events_back(&self, see: &mut dyn FnMut(&str, &[u8]) -> bool) -> Result<(), Error> {
        for (key, bytes) in self.events.iter().rev() {
            if !see(key, bytes) {
                break;
            }
        }
        Ok(())
    }
}
