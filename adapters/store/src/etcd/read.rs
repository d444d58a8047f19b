//! Loading, peeking, and the history.
//!
//! A load first raises the head in a guarded transaction, and then reads at exactly the revision of
//! that transaction: nothing that is still on its way can show up in it or come after it. A member
//! either has that revision, and then all of it, or says that it has not.

use std::collections::{BTreeMap, VecDeque};

use persys_cluster::record::Head;
use persys_cluster::store::HighWater;
use persys_etcd::{Compare, KeyValue, Kind, Op, Page, Pages, Range, Txn};
use persys_model::token::{EventSeq, Term};
use tokio::task::JoinHandle;

use super::journal::Step;
use super::lead::Lead;
use super::{Inner, nth};
use crate::book::{Book, Edit};
use crate::chain::{history, is_behind, lines};
use crate::error::Error;
use crate::store::{History, Loaded, Span};
use crate::trail::{Back, Stretch};

/// How often a load is begun anew because the store moved under it.
const TRIES: usize = 4;
/// Pages that may wait to be put into records.
const MOST_WAITING: usize = 4;
/// Keys of events that are read at once, at first and at most.
const FEW_KEYS: usize = 32;
const MOST_KEYS: usize = 1000;
/// Folders that a load does not read.
const NOT_READ: [&str; 5] = ["events", "history", "quarantine", "reconciliation", "skydns"];

/// Why one try to load led to nothing.
enum Stop {
    /// The store moved: once more.
    Moved(Error),
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        if error == Error::HeadMoved { Self::Moved(error) } else { Self::Failed(error) }
    }
}

/// A read that failed changed nothing. What etcd has forgotten meanwhile is asked for anew.
fn stopped(error: &persys_etcd::Error) -> Stop {
    let told = Error::unavailable(error);
    if error.kind() == Kind::Compacted { Stop::Moved(told) } else { Stop::Failed(told) }
}

impl Inner {
    pub(super) async fn load(
        &self,
        term: Term,
        known: Option<&HighWater>,
    ) -> Result<Loaded, Error> {
        self.open()?;
        let lead = self.leads(term)?;
        let mut desk = self.desk.lock().await;
        desk.view = None;
        let mut last = Error::HeadMoved;
        for _ in 0..TRIES {
            match self.try_load(&lead, known).await {
                Ok((book, loaded)) => {
                    desk.book = book;
                    let seq = loaded.snapshot.head.as_ref().map(|head| head.seq);
                    self.head.send_replace(seq.unwrap_or_default());
                    return Ok(loaded);
                }
                Err(Stop::Moved(error)) => last = error,
                Err(Stop::Failed(error)) => return Err(error),
            }
        }
        Err(last)
    }

    async fn try_load(
        &self,
        lead: &Lead,
        known: Option<&HighWater>,
    ) -> Result<(Book, Loaded), Stop> {
        let book = Book::new(self.keys.clone());
        let look = Txn { when: self.guard(lead), then: self.meta(), otherwise: self.instead() };
        let seen = self.client.look(look).await.map_err(|error| stopped(&error))?;
        if !seen.held {
            return Err(self.refusal(lead, &seen.found).into());
        }
        self.refuse_half_filled(nth(&seen.found, 2))?;
        let (kv, journal) = (nth(&seen.found, 0), nth(&seen.found, 1));
        let stored = book.read_head(kv.map(|kv| &*kv.value))?;
        if stored.is_none() {
            self.refuse_earlier().await?;
        }
        let Some(head) = stored.clone().filter(|head| !is_behind(head, known)) else {
            return self.read_all(seen.revision, stored, journal).await;
        };
        let revision = kv.map_or(0, |kv| kv.mod_revision);
        let head = Head { seq: head.seq.next(), ..head };
        let at = self.raise(lead, &book, &head, revision, journal).await?;
        self.read_all(at, Some(head), None).await
    }

    /// Raises the head, finishes what was left behind, and says at which revision that was done.
    async fn raise(
        &self,
        lead: &Lead,
        book: &Book,
        head: &Head,
        revision: i64,
        journal: Option<&KeyValue>,
    ) -> Result<i64, Error> {
        let Edit::Put(key, bytes) = book.head(head)? else {
            return Err(Error::unavailable("no head"));
        };
        let mut when = self.guard(lead);
        when.push(Compare::Modified(key.clone(), revision));
        let (raised, _) = self.guarded(lead, when, vec![Op::put(key, bytes)]).await?;
        match journal {
            Some(open) => self.finish_journal(lead, raised, open).await,
            None => Ok(raised),
        }
    }

    pub(super) async fn peek(&self) -> Result<Loaded, Error> {
        let mut last = Error::HeadMoved;
        for _ in 0..TRIES {
            let look = Txn { then: self.meta(), ..Txn::default() };
            let seen = self.client.look(look).await.map_err(Error::unavailable)?;
            self.refuse_half_filled(nth(&seen.found, 2))?;
            let head = nth(&seen.found, 0).map(|kv| &*kv.value);
            let head = Book::new(self.keys.clone()).read_head(head)?;
            match self.read_all(seen.revision, head, nth(&seen.found, 1)).await {
                Ok((_, loaded)) => return Ok(loaded),
                // A journal may have been finished just now.
                Err(Stop::Moved(error) | Stop::Failed(error @ Error::Unreadable { .. })) => {
                    last = error;
                }
                Err(Stop::Failed(error)) => return Err(error),
            }
        }
        Err(last)
    }

    /// What tells how the store is: the head, an open journal, a fill under way.
    pub(super) fn meta(&self) -> Vec<Op> {
        [self.keys.head(), self.keys.journal(), self.keys.filling()].map(Op::Get).into()
    }

    pub(super) fn refuse_half_filled(&self, mark: Option<&KeyValue>) -> Result<(), Error> {
        if mark.is_none() {
            return Ok(());
        }
        let why = "tells that this store was being filled and is not whole: fill it again";
        Err(Error::Unreadable { key: self.keys.filling(), why: why.to_owned() })
    }

    /// All records at one revision, with what an open journal adds to them.
    async fn read_all(
        &self,
        revision: i64,
        head: Option<Head>,
        journal: Option<&KeyValue>,
    ) -> Result<(Book, Loaded), Stop> {
        let (mut book, mut loaded) = match journal {
            None => self.read_pages(revision).await?,
            Some(open) => {
                let steps = self.read_journal(open).await?;
                let ranges = self.record_ranges();
                let contents = self.overlaid(revision, ranges, steps).await?;
                let mut book = Book::new(self.keys.clone());
                let mut loaded = Loaded::default();
                for (key, bytes) in &contents {
                    book.take(key, bytes, &mut loaded);
                }
                (book, loaded)
            }
        };
        // Whether it can be read was asked before.
        book.was_aside(&self.keys.head());
        loaded.snapshot.head = head;
        Ok((book, loaded))
    }

    /// All records at one revision. While one page is put into records the next is fetched.
    async fn read_pages(&self, revision: i64) -> Result<(Book, Loaded), Stop> {
        let mut all = (Book::new(self.keys.clone()), Loaded::default());
        let mut waiting: VecDeque<JoinHandle<(Book, Loaded)>> = VecDeque::new();
        for (from, to) in self.record_ranges() {
            let range = Range { revision, ..Range::between(from, to) };
            let mut pages = Pages::new(&self.client, range);
            while let Some(page) = pages.next().await.map_err(|error| stopped(&error))? {
                let book = Book::new(self.keys.clone());
                waiting.push_back(tokio::task::spawn_blocking(move || take_page(book, &page)));
                if waiting.len() >= MOST_WAITING
                    && let Some(first) = waiting.pop_front()
                {
                    join(&mut all, first).await?;
                }
            }
        }
        for rest in waiting {
            join(&mut all, rest).await?;
        }
        Ok(all)
    }

    /// What a load reads: everything below the root but some folders.
    fn record_ranges(&self) -> Vec<(String, String)> {
        let (mut from, end) = self.keys.folder("");
        let mut ranges = Vec::new();
        for folder in NOT_READ {
            let (first, behind) = self.keys.folder(folder);
            ranges.push((std::mem::replace(&mut from, behind), first));
        }
        ranges.push((from, end));
        ranges
    }

    /// Bytes by their keys, at one revision, as if `steps` had been carried out. Keys that are no
    /// text are nobody's here.
    pub(super) async fn overlaid(
        &self,
        revision: i64,
        ranges: Vec<(String, String)>,
        steps: Vec<Step>,
    ) -> Result<BTreeMap<String, Vec<u8>>, Error> {
        let mut contents = BTreeMap::new();
        for (from, to) in ranges {
            let range = Range { revision, ..Range::between(from, to) };
            let mut pages = Pages::new(&self.client, range);
            while let Some(page) = pages.next().await.map_err(Error::unavailable)? {
                for KeyValue { key, value, .. } in page {
                    if let Ok(key) = String::from_utf8(key.into()) {
                        contents.insert(key, value.into());
                    }
                }
            }
        }
        for step in steps {
            step.apply(&mut contents);
        }
        Ok(contents)
    }

    pub(super) async fn events(&self, span: Span) -> Result<History, Error> {
        self.open()?;
        let limit = span.limit();
        if limit == 0 {
            return Ok(History::default());
        }
        match span {
            Span::Last(_) => self.last_events(limit).await,
            Span::After(after, _) => self.events_after(after, limit).await,
        }
    }

    /// Back from the newest, a few keys at first: how many events they hold is only seen then.
    async fn last_events(&self, limit: usize) -> Result<History, Error> {
        let kept = usize::try_from(self.settings.keep_events).unwrap_or(usize::MAX);
        let limit = limit.min(kept);
        let (from, mut to) = self.keys.folder("events");
        let (mut keys, mut found) = (FEW_KEYS, Vec::new());
        while found.len() < limit {
            let asked = i64::try_from(keys).unwrap_or(i64::MAX);
            let range = Range::between(from.clone(), to.clone());
            let range = Range { limit: asked, backwards: true, ..range };
            let (page, more, _) = self.client.range(range).await.map_err(Error::unavailable)?;
            for kv in &page {
                let mut here: Vec<_> = lines(&kv.value).map(<[u8]>::to_vec).collect();
                here.reverse();
                found.append(&mut here);
            }
            let Some(oldest) = page.last().filter(|_| more) else { break };
            to = String::from_utf8_lossy(&oldest.key).into_owned();
            keys = limit.saturating_sub(found.len()).clamp(FEW_KEYS, MOST_KEYS);
        }
        found.truncate(limit);
        Ok(history(found.iter().rev()))
    }

    /// The oldest key of the audit log that is needed for a stretch, by going back over its keys.
    pub(super) async fn audit_start(
        &self,
        from: String,
        end: &str,
        stretch: Stretch,
    ) -> Result<String, Error> {
        if stretch == Stretch::ALL {
            return Ok(from);
        }
        let (mut back, mut to) = (Back::over(stretch), end.to_owned());
        loop {
            let range = Range::between(from.clone(), to);
            let limit = i64::try_from(MOST_KEYS).unwrap_or(i64::MAX);
            let range = Range { limit, backwards: true, keys_only: true, ..range };
            let (page, more, _) = self.client.range(range).await.map_err(Error::unavailable)?;
            let keys = page.iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned());
            let mut oldest = None;
            for key in keys {
                if back.is_enough(&key) {
                    return Ok(key);
                }
                oldest = Some(key);
            }
            match oldest.filter(|_| more) {
                Some(oldest) => to = oldest,
                None => return Ok(from),
            }
        }
    }

    /// Keys only tell where to begin: among them may be one that somebody else made up, and what
    /// comes after it is not later for that.
    async fn events_after(&self, after: EventSeq, limit: usize) -> Result<History, Error> {
        let marks = self.event_marks(0).await?;
        let Some((at, seq)) = marks.into_iter().find(|(_, seq)| *seq > after) else {
            return Ok(History::default());
        };
        let (_, to) = self.keys.folder("events");
        let mut pages = Pages::new(&self.client, Range::between(self.keys.event(at, seq), to));
        let mut all = History::default();
        while all.events.len() < limit
            && let Some(page) = pages.next().await.map_err(Error::unavailable)?
        {
            let read = history(page.iter().map(|kv| &kv.value));
            all.unreadable += read.unreadable;
            all.events.extend(read.events.into_iter().filter(|event| event.seq > after));
        }
        all.events.truncate(limit);
        Ok(all)
    }
}

fn take_page(mut book: Book, page: &Page) -> (Book, Loaded) {
    let mut loaded = Loaded::default();
    for kv in page {
        book.take(&String::from_utf8_lossy(&kv.key), &kv.value, &mut loaded);
    }
    (book, loaded)
}

async fn join(all: &mut (Book, Loaded), page: JoinHandle<(Book, Loaded)>) -> Result<(), Error> {
    let (book, mut page) = page.await.map_err(Error::unavailable)?;
    all.0.absorb(book);
    let (into, from) = (&mut all.1.snapshot, &mut page.snapshot);
    into.nodes.append(&mut from.nodes);
    into.leases.append(&mut from.leases);
    into.workloads.append(&mut from.workloads);
    into.assignments.append(&mut from.assignments);
    into.retries.append(&mut from.retries);
    into.graves.append(&mut from.graves);
    into.drifts.append(&mut from.drifts);
    into.entries.append(&mut from.entries);
    into.volumes.append(&mut from.volumes);
    into.attachments.append(&mut from.attachments);
    all.1.quarantined.append(&mut page.quarantined);
    Ok(())
}
