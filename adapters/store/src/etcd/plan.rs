//! What one commit does to the keys of etcd. Nothing here asks etcd anything.

use std::collections::{BTreeMap, VecDeque};

use persys_cluster::record::Unit;
use persys_etcd::Op;
use persys_model::time::WallMillis;
use persys_model::token::CommitSeq;

use super::view::{Mark, View};
use crate::book::{Book, Edit};
use crate::chain;
use crate::error::Error;
use crate::key::Keys;
use crate::settings::Settings;

/// What a commit does.
#[derive(Debug)]
pub(super) struct Plan {
    /// The number of the last unit.
    pub(super) seq: CommitSeq,
    /// Keys whose unreadable bytes are copied aside first.
    pub(super) aside: Vec<String>,
    /// Records, events and the trimming of events; no key stands twice.
    pub(super) ops: Vec<Op>,
    /// The new head.
    pub(super) head: Op,
}

/// What `units` do to the store that `view` shows; `None` for none. The view is then what the store
/// is after it.
pub(super) fn plan(
    view: &mut View,
    book: &mut Book,
    settings: &Settings,
    after: CommitSeq,
    units: &[Unit],
) -> Result<Option<Plan>, Error> {
    let seq = chain::follow(view.head.as_ref(), after, units)?;
    let Some(last) = units.last() else { return Ok(None) };
    // The later of two writes to one key wins; etcd takes no two in one transaction.
    let mut records = BTreeMap::new();
    let mut events = VecDeque::new();
    for edit in book.edits(units)? {
        match edit {
            Edit::Put(key, bytes) => {
                records.insert(key.clone(), Op::put(key, bytes));
            }
            Edit::Delete(key) => {
                records.insert(key.clone(), Op::Delete(key));
            }
            Edit::Event(event, bytes) => {
                // The clock on the wall may go back; the order of events does not.
                let newest = events.back().map(|(mark, _): &(Mark, _)| *mark);
                let newest = newest.or_else(|| view.events.back().copied());
                let at = newest.map_or(event.at, |(newest, _)| newest.max(event.at));
                events.push_back(((at, event.seq), bytes));
            }
        }
    }
    let aside = records.keys().filter(|key| book.was_aside(key)).cloned().collect();
    let mut ops: Vec<Op> = records.into_values().collect();
    ops.extend(trim(&mut view.events, &mut events, settings, &book.keys));
    for (mark, bytes) in events {
        ops.push(Op::put(event_key(&book.keys, mark), bytes));
        view.events.push_back(mark);
    }
    let head = match book.head(&last.head)? {
        Edit::Put(key, bytes) => Op::put(key, bytes),
        Edit::Delete(_) | Edit::Event(..) => return Err(Error::unavailable("no head")),
    };
    view.head = Some(last.head.clone());
    Ok(Some(Plan { seq, aside, ops, head }))
}

fn event_key(keys: &Keys, (at, seq): Mark) -> String {
    keys.event(at, seq)
}

/// Drops the oldest events beyond what is kept, with one operation for all that are stored. New
/// ones that would be dropped at once are not even written.
fn trim(
    stored: &mut VecDeque<Mark>,
    new: &mut VecDeque<(Mark, Vec<u8>)>,
    settings: &Settings,
    keys: &Keys,
) -> Option<Op> {
    let (newest, _) = new.back().map(|(mark, _)| mark).or_else(|| stored.back())?;
    let kept_since = WallMillis(newest.0.saturating_sub(settings.keep_events_ms));
    let most = usize::try_from(settings.keep_events).unwrap_or(usize::MAX);
    let too_old = |(at, _): &Mark| *at < kept_since;
    let mut first_gone = None;
    while let Some(oldest) = stored.front().copied() {
        if !too_old(&oldest) && stored.len() + new.len() <= most {
            break;
        }
        first_gone.get_or_insert(oldest);
        stored.pop_front();
    }
    while stored.is_empty()
        && new.front().is_some_and(|(oldest, _)| too_old(oldest) || new.len() > most)
    {
        new.pop_front();
    }
    let next = stored.front().copied().or_else(|| new.front().map(|(mark, _)| *mark));
    let end = next.map_or_else(|| keys.folder("events").1, |next| event_key(keys, next));
    let from = event_key(keys, first_gone?);
    // An event that is written again must not stand in what is deleted.
    let clear = new.iter().all(|(mark, _)| event_key(keys, *mark) >= end);
    clear.then_some(Op::DeleteRange(from, end))
}

#[cfg(test)]
mod tests {
    use persys_model::token::EventSeq;

    use super::*;

    fn mark(number: u64) -> Mark {
        (WallMillis(number), EventSeq(number))
    }

    fn trimmed(stored: &[u64], new: &[u64], keep: u64) -> (Option<Op>, Vec<u64>) {
        let mut stored: VecDeque<_> = stored.iter().copied().map(mark).collect();
        let mut new: VecDeque<_> = new.iter().map(|number| (mark(*number), Vec::new())).collect();
        let settings = Settings { keep_events: keep, keep_events_ms: 100, ..Settings::default() };
        let op = trim(&mut stored, &mut new, &settings, &Keys::new("").unwrap());
        let rest = stored.iter().chain(new.iter().map(|(mark, _)| mark)).map(|(_, seq)| seq.0);
        (op, rest.collect())
    }

    #[test]
    fn the_oldest_events_go_in_one_operation() {
        let keys = Keys::new("").unwrap();
        let range = |from, to| {
            Some(Op::DeleteRange(event_key(&keys, mark(from)), event_key(&keys, mark(to))))
        };
        assert_eq!(trimmed(&[1, 2, 3], &[4], 10), (None, vec![1, 2, 3, 4]));
        assert_eq!(trimmed(&[1, 2, 3], &[4, 5], 3), (range(1, 3), vec![3, 4, 5]));
        assert_eq!(trimmed(&[1, 2], &[3, 4, 5], 2), (range(1, 4), vec![4, 5]), "3 is not written");
        assert_eq!(trimmed(&[1, 50], &[120], 10), (range(1, 50), vec![50, 120]), "too old");
        assert_eq!(trimmed(&[], &[1, 2], 0), (None, vec![]));
        let (_, end) = keys.folder("events");
        let all = Op::DeleteRange(event_key(&keys, mark(1)), end);
        assert_eq!(trimmed(&[1], &[2], 0), (Some(all), vec![]));
    }
}
