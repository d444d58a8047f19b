//! What a load and a commit do, whatever they do it to.
//!
//! Transactions form one chain: each is refused unless the head is where it says. Events are kept
//! in order of their numbers, the oldest are dropped in the transaction that adds new ones.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use persys_cluster::record::{Head, Unit};
use persys_cluster::store::HighWater;
use persys_model::event::Event;
use persys_model::time::WallMillis;
use persys_model::token::CommitSeq;

use crate::book::{Book, Edit};
use crate::error::Error;
use crate::key::{Keys, Noun, event_of};
use crate::record::decode;
use crate::settings::Settings;
use crate::store::{History, Loaded, Pairs, Span};

/// Beyond those that are replaced, so many old events go with one commit at most.
const MOST_TRIMMED: usize = 64;

/// The inside of one transaction. Records and events are apart, so that the latter can be counted
/// and taken from either end without looking at the former.
pub(crate) trait Shelf {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Error>;
    fn put(&mut self, key: &str, bytes: &[u8]) -> Result<(), Error>;
    fn delete(&mut self, key: &str) -> Result<(), Error>;
    /// Shows every record, in order of keys.
    fn each(&self, see: &mut dyn FnMut(&str, &[u8])) -> Result<(), Error>;

    fn put_event(&mut self, key: &str, bytes: &[u8]) -> Result<(), Error>;
    fn event_count(&self) -> Result<u64, Error>;
    fn oldest_event(&self) -> Result<Option<String>, Error>;
    fn delete_oldest_event(&mut self) -> Result<(), Error>;
    /// Shows events, newest first, until `see` has seen enough.
    fn events_back(&self, see: &mut dyn FnMut(&str, &[u8]) -> bool) -> Result<(), Error>;
}

/// Raises the head if that is allowed, and reads everything.
pub(crate) fn load(
    shelf: &mut dyn Shelf,
    book: &mut Book,
    known: Option<&HighWater>,
) -> Result<Loaded, Error> {
    let mut loaded = Loaded::default();
    let stored = head(shelf, book)?;
    loaded.snapshot.head = match stored {
        Some(head) if !is_behind(&head, known) => {
            let head = Head { seq: head.seq.next(), ..head };
            apply(shelf, book, book.head(&head)?, head.seq)?;
            Some(head)
        }
        stored => stored,
    };
    book.clear();
    shelf.each(&mut |key, bytes| book.take(key, bytes, &mut loaded))?;
    Ok(loaded)
}

/// Shows every record to `see`, in order of keys.
pub(crate) type ShowAll<'a> = dyn FnOnce(&mut dyn FnMut(&str, &[u8])) -> Result<(), Error> + 'a;

/// Reads everything from where `show` shows it, and changes nothing. What the leader remembers
/// between reading and writing is not touched either: it has a book of its own.
pub(crate) fn peek(keys: &Keys, show: Box<ShowAll<'_>>) -> Result<Loaded, Error> {
    let mut book = Book::new(keys.clone());
    let mut loaded = Loaded::default();
    let (head_key, mut head) = (keys.head(), None);
    show(&mut |key, bytes| {
        if key == head_key {
            head = Some(bytes.to_vec());
        } else {
            book.take(key, bytes, &mut loaded);
        }
    })?;
    loaded.snapshot.head = book.read_head(head.as_deref())?;
    Ok(loaded)
}

/// Writes `units` if the head is at `after`, and returns where it is then.
pub(crate) fn commit(
    shelf: &mut dyn Shelf,
    book: &mut Book,
    settings: &Settings,
    after: CommitSeq,
    units: &[Unit],
) -> Result<CommitSeq, Error> {
    let seq = follow(head(shelf, book)?.as_ref(), after, units)?;
    let Some(last) = units.last() else { return Ok(seq) };

    // Everything is put into bytes before anything is written.
    let edits = book.edits(units)?;
    let head = book.head(&last.head)?;
    let mut newest = newest_event(shelf)?;
    let mut added = 0;
    for edit in edits {
        if let Edit::Event(event, bytes) = edit {
            // The clock on the wall may go back; the order of events does not.
            let at = newest.map_or(event.at, |newest| newest.max(event.at));
            shelf.put_event(&book.keys.event(at, event.seq), &bytes)?;
            newest = Some(at);
            added += 1;
        } else {
            apply(shelf, book, edit, seq)?;
        }
    }
    apply(shelf, book, head, seq)?;
    trim(shelf, settings, newest, added + MOST_TRIMMED)?;
    Ok(seq)
}

/// Where the head is after `units`, if they may follow what is `stored`: each has the number after
/// the one before. Only the first of a rebuilt cluster may leave numbers out, since those were
/// given to units that the store has lost.
pub(crate) fn follow(
    stored: Option<&Head>,
    after: CommitSeq,
    units: &[Unit],
) -> Result<CommitSeq, Error> {
    let (seq, incarnation) = stored.map_or((CommitSeq(0), 0), |head| (head.seq, head.incarnation));
    if seq != after {
        return Err(Error::HeadMoved);
    }
    let (mut seq, mut incarnation) = (after, incarnation);
    for Unit { head, .. } in units {
        let rebuilt = head.incarnation > incarnation && head.seq > seq;
        if head.seq != seq.next() && !rebuilt {
            return Err(Error::unavailable(format!("unit {} follows {seq}", head.seq)));
        }
        (seq, incarnation) = (head.seq, head.incarnation);
    }
    Ok(seq)
}

/// All that lasts, from where it is shown: records and events in any order.
pub(crate) fn dump(keys: &Keys, show: Box<ShowAll<'_>>) -> Result<Pairs, Error> {
    let mut pairs = Pairs::new();
    show(&mut |key, bytes| {
        if let Some(below) = keys.lasting(key) {
            pairs.push((below.to_owned(), bytes.to_vec()));
        }
    })?;
    pairs.sort();
    Ok(pairs)
}

/// Writes `pairs` into a store that holds nothing else, the head last.
pub(crate) fn fill(shelf: &mut dyn Shelf, keys: &Keys, pairs: Pairs) -> Result<(), Error> {
    let wanted: BTreeMap<_, _> =
        pairs.into_iter().map(|(below, bytes)| (keys.below_root(&below), bytes)).collect();
    let mut stranger = shelf.get(&keys.head())?.map(|_| keys.head());
    let mut look = |key: &str, bytes: &[u8]| {
        let part = wanted.get(key).is_some_and(|wanted| wanted == bytes);
        if !part && stranger.is_none() && keys.lasting(key).is_some() {
            stranger = Some(key.to_owned());
        }
    };
    shelf.each(&mut look)?;
    shelf.events_back(&mut |key, bytes| {
        look(key, bytes);
        true
    })?;
    if let Some(key) = stranger {
        return Err(Error::NotEmpty { key });
    }
    let (heads, others): (Vec<_>, Vec<_>) =
        wanted.into_iter().partition(|(key, _)| keys.noun(key) == Noun::Head);
    for (key, bytes) in others.into_iter().chain(heads) {
        match keys.noun(&key) {
            Noun::Event => shelf.put_event(&key, &bytes)?,
            Noun::Head
            | Noun::Leader
            | Noun::Node
            | Noun::Lease
            | Noun::Reconciliation
            | Noun::History
            | Noun::Workload
            | Noun::Assignment
            | Noun::Retry
            | Noun::Grave
            | Noun::Drift
            | Noun::Entry(_)
            | Noun::Volume
            | Noun::Attachment
            | Noun::Audit
            | Noun::Other
            | Noun::Foreign => shelf.put(&key, &bytes)?,
        }
    }
    Ok(())
}

/// Shows events, newest first, until it is told that it was enough.
pub(crate) type ShowBack<'a> =
    dyn FnOnce(&mut dyn FnMut(&str, &[u8]) -> bool) -> Result<(), Error> + 'a;

/// Reads events from where `show` shows them.
pub(crate) fn events(span: Span, show: Box<ShowBack<'_>>) -> Result<History, Error> {
    let limit = span.limit();
    let mut found: VecDeque<Vec<u8>> = VecDeque::new();
    if limit > 0 {
        show(&mut |key, bytes| match span {
            Span::Last(_) => {
                found.push_back(bytes.to_vec());
                found.len() < limit
            }
            Span::After(after, _) => {
                if event_of(key).is_some_and(|(_, seq)| seq <= after) {
                    return false;
                }
                found.push_back(bytes.to_vec());
                if found.len() > limit {
                    found.pop_front();
                }
                true
            }
        })?;
    }
    Ok(history(found.iter().rev()))
}

/// The events under one key: each is a line.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n')
}

/// What these events say, in their order.
pub(crate) fn history<B: AsRef<[u8]>>(found: impl Iterator<Item = B>) -> History {
    let mut history = History::default();
    for bytes in found {
        for line in lines(bytes.as_ref()) {
            match decode::<Event>(line) {
                Ok((event, _)) => history.events.push(Arc::new(event)),
                Err(_) => history.unreadable += 1,
            }
        }
    }
    history
}

/// The head as it is stored.
pub(crate) fn head(shelf: &dyn Shelf, book: &Book) -> Result<Option<Head>, Error> {
    book.read_head(shelf.get(&book.keys.head())?.as_deref())
}

/// How far the store has come.
pub(crate) fn high_water(head: &Head) -> HighWater {
    HighWater { cluster: Arc::clone(&head.cluster), incarnation: head.incarnation, seq: head.seq }
}

/// Whether a host remembers more than the store does.
pub(crate) fn is_behind(head: &Head, known: Option<&HighWater>) -> bool {
    // A host that remembers no written unit remembers nothing.
    known.filter(|known| known.seq > CommitSeq(0)).is_some_and(|known| {
        head.cluster != known.cluster
            || (head.incarnation, head.seq) < (known.incarnation, known.seq)
    })
}

fn apply(shelf: &mut dyn Shelf, book: &mut Book, edit: Edit, seq: CommitSeq) -> Result<(), Error> {
    let key = match &edit {
        Edit::Put(key, _) | Edit::Delete(key) => key,
        Edit::Event(..) => return Ok(()),
    };
    if book.was_aside(key)
        && let Some(bytes) = shelf.get(key)?
    {
        shelf.put(&book.keys.quarantine(key, seq), &bytes)?;
    }
    match edit {
        Edit::Put(key, bytes) => shelf.put(&key, &bytes),
        Edit::Delete(key) => shelf.delete(&key),
        Edit::Event(..) => Ok(()),
    }
}

fn newest_event(shelf: &dyn Shelf) -> Result<Option<WallMillis>, Error> {
    let mut newest = None;
    shelf.events_back(&mut |key, _| {
        newest = event_of(key).map(|(at, _)| at);
        newest.is_none()
    })?;
    Ok(newest)
}

/// Drops the oldest events beyond what is kept, at most `most` of them.
fn trim(
    shelf: &mut dyn Shelf,
    settings: &Settings,
    newest: Option<WallMillis>,
    most: usize,
) -> Result<(), Error> {
    let Some(newest) = newest else { return Ok(()) };
    let kept_since = WallMillis(newest.0.saturating_sub(settings.keep_events_ms));
    for _ in 0..most {
        let Some(oldest) = shelf.oldest_event()? else { return Ok(()) };
        let too_old = event_of(&oldest).is_none_or(|(at, _)| at < kept_since);
        if !too_old && shelf.event_count()? <= settings.keep_events {
            return Ok(());
        }
        shelf.delete_oldest_event()?;
    }
    Ok(())
}
