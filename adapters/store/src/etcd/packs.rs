//! Events in etcd: those of one commit share a key.
//!
//! ```text
//!   /events/<time>-<number of the last>  =  {"seq":41,...}
//!                                           {"seq":42,...}
//! ```
//!
//! What etcd does costs by the key, and a workload on its way to running leaves several events. So
//! the events of one commit are the lines of one value. A copy of the store has each under a key of
//! its own, as the other stores do.
//!
//! How many lines there are is not known without reading them. The numbers of events rise by one,
//! so the distance to the key before tells; what comes after a gap is counted as a full key at most.

use std::collections::{BTreeMap, VecDeque};

use persys_etcd::Op;
use persys_model::event::Event;
use persys_model::time::WallMillis;
use persys_model::token::EventSeq;

use crate::chain::lines;
use crate::key::{Keys, event_of};
use crate::record::decode;
use crate::settings::Settings;

/// Most events under one key.
pub(super) const MOST_IN_PACK: u64 = 128;
/// Most bytes under one key, but for an event that is larger by itself.
const MOST_BYTES: usize = 64 * 1024;

/// Time and number of an event, as its key has them.
pub(super) type Mark = (WallMillis, EventSeq);

/// The events of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pack {
    last: Mark,
    count: u64,
}

/// All events of the store, by their keys, oldest first.
#[derive(Debug, Default)]
pub(super) struct Packs {
    packs: VecDeque<Pack>,
    /// How many events there are in all.
    total: u64,
}

impl Packs {
    /// The keys that were found, in their order.
    pub(super) fn found(marks: impl IntoIterator<Item = Mark>) -> Self {
        let mut all = Self::default();
        let mut before: Option<EventSeq> = None;
        for last in marks {
            let distance = before.map_or(1, |before| last.1.0.saturating_sub(before.0));
            all.push(Pack { last, count: distance.clamp(1, MOST_IN_PACK) });
            before = Some(last.1);
        }
        all
    }

    /// When the newest event was, if there is one.
    fn newest(&self) -> Option<WallMillis> {
        self.packs.back().map(|pack| pack.last.0)
    }

    fn push(&mut self, pack: Pack) {
        self.total += pack.count;
        self.packs.push_back(pack);
    }

    fn drop_oldest(&mut self) -> Option<Pack> {
        let oldest = self.packs.pop_front()?;
        self.total = self.total.saturating_sub(oldest.count);
        Some(oldest)
    }

    /// Takes new events in, drops those that are beyond what is kept, and says what that does to
    /// the keys. One operation deletes all that goes; a key goes when none of its events is kept.
    pub(super) fn add(&mut self, new: News, settings: &Settings, keys: &Keys) -> Vec<Op> {
        let mut new = new.events;
        let Some(newest) = new.back().map(|(mark, _)| mark.0).or_else(|| self.newest()) else {
            return Vec::new();
        };
        let kept_since = WallMillis(newest.0.saturating_sub(settings.keep_events_ms));
        let count = |new: &VecDeque<_>| u64::try_from(new.len()).unwrap_or(u64::MAX);
        let mut first_gone = None;
        while let Some(oldest) = self.packs.front().copied() {
            let left = self.total.saturating_sub(oldest.count).saturating_add(count(&new));
            if oldest.last.0 >= kept_since && left < settings.keep_events {
                break;
            }
            first_gone.get_or_insert(oldest.last);
            self.drop_oldest();
        }
        // What would be dropped at once is not even written.
        while self.packs.is_empty()
            && new
                .front()
                .is_some_and(|((at, _), _)| *at < kept_since || count(&new) > settings.keep_events)
        {
            new.pop_front();
        }
        let packed = pack(new);
        let next = self.packs.front().map(|pack| pack.last);
        let next = next.or_else(|| packed.first().map(|(pack, _)| pack.last));
        let end = next.map_or_else(|| keys.folder("events").1, |next| key_of(keys, next));
        // An event that is written again must not stand in what is deleted.
        let clear = packed.iter().all(|(pack, _)| key_of(keys, pack.last) >= end);
        let gone = first_gone.filter(|_| clear).map(|from| key_of(keys, from));
        let mut ops: Vec<Op> = gone.map(|from| Op::DeleteRange(from, end)).into_iter().collect();
        for (pack, bytes) in packed {
            ops.push(Op::put(key_of(keys, pack.last), bytes));
            self.push(pack);
        }
        ops
    }
}

/// Events that are new, in order.
#[derive(Debug)]
pub(super) struct News {
    newest: Option<WallMillis>,
    events: VecDeque<(Mark, Vec<u8>)>,
}

impl News {
    pub(super) fn after(packs: &Packs) -> Self {
        Self { newest: packs.newest(), events: VecDeque::new() }
    }

    /// The clock on the wall may go back; the order of events does not.
    pub(super) fn push(&mut self, event: &Event, bytes: Vec<u8>) {
        let at = self.newest.map_or(event.at, |newest| newest.max(event.at));
        self.newest = Some(at);
        self.events.push_back(((at, event.seq), bytes));
    }
}

fn key_of(keys: &Keys, (at, seq): Mark) -> String {
    keys.event(at, seq)
}

/// Puts events under as few keys as they may have.
fn pack(events: VecDeque<(Mark, Vec<u8>)>) -> Vec<(Pack, Vec<u8>)> {
    let mut packed: Vec<(Pack, Vec<u8>)> = Vec::new();
    for (last, line) in events {
        match packed.last_mut() {
            Some((pack, bytes))
                if pack.count < MOST_IN_PACK && bytes.len() + line.len() < MOST_BYTES =>
            {
                *pack = Pack { last, count: pack.count + 1 };
                bytes.push(b'\n');
                bytes.extend(line);
            }
            _ => packed.push((Pack { last, count: 1 }, line)),
        }
    }
    packed
}

/// Gives each event of `contents` a key of its own. A key with a line that is no event is left as it
/// is: what cannot be read is kept byte for byte.
pub(super) fn apart(keys: &Keys, contents: &mut BTreeMap<String, Vec<u8>>) {
    let (from, to) = keys.folder("events");
    let mut before = WallMillis(0);
    let mut singles = Vec::new();
    for (key, bytes) in contents.range(from..to) {
        let Some((last, _)) = event_of(key) else { continue };
        if lines(bytes).nth(1).is_some() {
            let events: Result<Vec<_>, _> =
                lines(bytes).map(|line| Ok((decode::<Event>(line)?.0, line.to_vec()))).collect();
            let Ok(events): Result<Vec<(Event, Vec<u8>)>, String> = events else { continue };
            let mut own = Vec::new();
            for (event, line) in events {
                before = before.max(event.at).min(last);
                own.push((keys.event(before, event.seq), line));
            }
            singles.push((key.clone(), own));
        }
        before = last;
    }
    for (key, own) in singles {
        contents.remove(&key);
        contents.extend(own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(number: u64) -> Mark {
        (WallMillis(number), EventSeq(number))
    }

    fn news(numbers: &[u64]) -> News {
        let events = numbers.iter().map(|number| (mark(*number), number.to_string().into_bytes()));
        News { newest: None, events: events.collect() }
    }

    fn keys() -> Keys {
        Keys::new("").unwrap()
    }

    /// What `add` does to keys that end with these numbers, and how many events there are then.
    fn added(stored: &[u64], new: &[u64], keep: u64) -> (Vec<Op>, u64) {
        let mut packs = Packs::found(stored.iter().copied().map(mark));
        let settings = Settings { keep_events: keep, keep_events_ms: 1000, ..Settings::default() };
        let ops = packs.add(news(new), &settings, &keys());
        (ops, packs.total)
    }

    fn put(numbers: &[u64]) -> Op {
        let lines: Vec<_> = numbers.iter().map(ToString::to_string).collect();
        let last = *numbers.last().unwrap();
        Op::put(key_of(&keys(), mark(last)), lines.join("\n").into_bytes())
    }

    fn gone(from: u64, to: u64) -> Op {
        Op::DeleteRange(key_of(&keys(), mark(from)), key_of(&keys(), mark(to)))
    }

    #[test]
    fn the_events_of_a_commit_share_a_key() {
        assert_eq!(added(&[], &[1, 2, 3], 10), (vec![put(&[1, 2, 3])], 3));
        let many: Vec<u64> = (1..=MOST_IN_PACK + 1).collect();
        let (ops, total) = added(&[], &many, 1000);
        let (last, full) = many.split_last().unwrap();
        assert_eq!((ops, total), (vec![put(full), put(&[*last])], MOST_IN_PACK + 1));
    }

    #[test]
    fn the_oldest_keys_go_in_one_operation_when_none_of_their_events_is_kept() {
        assert_eq!(added(&[1, 2, 3], &[4], 10), (vec![put(&[4])], 4));
        assert_eq!(added(&[1, 2, 3], &[4, 5], 3), (vec![gone(1, 3), put(&[4, 5])], 3));
        assert_eq!(added(&[1, 4, 7], &[8], 3), (vec![gone(1, 7), put(&[8])], 4), "5 stays with 7");
        assert_eq!(added(&[1, 2], &[3, 4, 5], 2), (vec![gone(1, 5), put(&[4, 5])], 2), "3 is left");
        assert_eq!(added(&[1, 50], &[1020], 10).0, [gone(1, 50), put(&[1020])], "too old");
        assert_eq!(added(&[], &[1, 2], 0), (vec![], 0));
        let (_, end) = keys().folder("events");
        let all = Op::DeleteRange(key_of(&keys(), mark(1)), end);
        assert_eq!(added(&[1], &[2], 0), (vec![all], 0));
    }

    #[test]
    fn a_gap_in_the_numbers_counts_as_one_full_key() {
        let packs = Packs::found([1, 3, 1_000_000, 999_999].map(mark));
        let counts: Vec<_> = packs.packs.iter().map(|pack| pack.count).collect();
        assert_eq!(counts, [1, 2, MOST_IN_PACK, 1]);
        assert_eq!(packs.total, 4 + MOST_IN_PACK);
    }
}
