//! The audit log: who did what, and who was refused.
//!
//! ```text
//!   anchor ◄── record 8 ◄── record 9 ◄── record 10 ◄── head
//!     (each holds the hash of the one before; the head of the store holds that of the last)
//! ```
//!
//! A record that is changed, left out, put in or cut off breaks the chain at a place that can be
//! named. What is dropped by age leaves an anchor: where the chain went on.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::time::WallMillis;

/// One thing somebody did, or was refused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditRecord {
    /// Its place in the chain; no number is skipped.
    pub seq: u64,
    /// When.
    pub at: WallMillis,
    /// Role and name.
    pub who: Arc<str>,
    /// Address of the caller.
    pub source: Arc<str>,
    /// What was asked for: a word, or the method that was refused.
    pub verb: Arc<str>,
    /// About what, `kind/name`.
    pub object: Arc<str>,
    /// In which namespace, if in one.
    pub namespace: Arc<str>,
    /// What ties it to a line in a log.
    pub request: Arc<str>,
    /// Whether it was done.
    pub allowed: bool,
    /// The rule that decided.
    pub rule: Arc<str>,
    /// Revision before, where there is one.
    pub before: Arc<str>,
    /// Revision after, where there is one.
    pub after: Arc<str>,
    /// The reason its author gave.
    pub why: Arc<str>,
    /// Refusals that were left out before this one, because there were too many.
    pub left_out: u64,
    /// The hash of the record before.
    pub previous: AuditHash,
}

/// The hash of a record.
#[derive(Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub struct AuditHash(pub [u8; 32]);

impl fmt::Display for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl AuditHash {
    /// The hash that 64 hex digits mean.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

/// A place in the chain: the number and hash of a record. The first record follows number 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuditHead {
    /// Its number.
    pub seq: u64,
    /// Its hash.
    pub hash: AuditHash,
}

impl AuditRecord {
    /// Its hash: every field, each after its length, so that no two records have the same bytes.
    #[must_use]
    pub fn hash(&self) -> AuditHash {
        let Self { seq, at, who, source, verb, object, namespace, request, .. } = self;
        let Self { allowed, rule, before, after, why, left_out, previous, .. } = self;
        let mut hash = Sha256::new();
        hash.update(b"persys audit 1");
        hash.update(previous.0);
        for number in [*seq, at.0, *left_out, u64::from(*allowed)] {
            hash.update(number.to_le_bytes());
        }
        for text in [who, source, verb, object, namespace, request, rule, before, after, why] {
            hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
            hash.update(text.as_bytes());
        }
        AuditHash(hash.finalize().into())
    }

    /// The place of this record.
    #[must_use]
    pub fn head(&self) -> AuditHead {
        AuditHead { seq: self.seq, hash: self.hash() }
    }
}

/// Where a chain is broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {seq}: {problem}")]
pub struct Broken {
    /// The first number that is not as it was written.
    pub seq: u64,
    /// How it shows.
    pub problem: String,
}

/// Whether `records` follow `anchor` one by one and reach `head`; how many there are. Records that
/// were written after `head` was read may follow it.
pub fn verify(
    anchor: AuditHead,
    records: impl IntoIterator<Item = impl Borrow<AuditRecord>>,
    head: AuditHead,
) -> Result<u64, Broken> {
    let mut last = anchor;
    let mut count = 0;
    let mut reached = last == head;
    for record in records {
        let record = record.borrow();
        let broken = |problem: String| Err(Broken { seq: last.seq + 1, problem });
        if record.seq != last.seq + 1 {
            return broken(format!("is missing; record {} stands in its place", record.seq));
        }
        if record.previous != last.hash {
            let problem = if count == 0 {
                "does not follow the anchor: what came before it was changed or cut off"
            } else {
                "does not follow the one before it: that one was changed, or this one put in"
            };
            return broken(problem.to_owned());
        }
        last = record.head();
        count += 1;
        if last.seq == head.seq && last.hash != head.hash {
            return Err(Broken {
                seq: last.seq,
                problem: "is not the record the head of the store tells of: it was changed".into(),
            });
        }
        reached |= last == head;
    }
    if !reached {
        let problem = format!("is missing: the head of the store tells of {} records", head.seq);
        return Err(Broken { seq: last.seq + 1, problem });
    }
    Ok(count)
}

/// Which refusals are written down: all of them up to a rate, and beyond that only how many there
/// were. A flood can then neither fill the store nor hide what came with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sampler {
    /// When the latest ones were written down.
    written: VecDeque<WallMillis>,
    left_out: u64,
}

impl Sampler {
    /// Most refusals written down in [`Self::SPAN_MS`].
    pub const MOST: usize = 30;
    /// The stretch of time they are counted in.
    pub const SPAN_MS: u64 = 60_000;

    /// Whether a refusal at `now` is written down; if so, how many were left out since the last.
    pub fn take(&mut self, now: WallMillis) -> Option<u64> {
        while self.written.front().is_some_and(|at| {
            // A clock that was set back forgets, and a flood begins anew.
            at.0 > now.0 || now.0 - at.0 >= Self::SPAN_MS
        }) {
            self.written.pop_front();
        }
        if self.written.len() >= Self::MOST {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.written.push_back(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(length: u64) -> Vec<AuditRecord> {
        let mut last = AuditHead::default();
        let mut records = Vec::new();
        for seq in 1..=length {
            let who = Arc::from("operator ann");
            let record = AuditRecord { seq, who, previous: last.hash, ..AuditRecord::default() };
            last = record.head();
            records.push(record);
        }
        records
    }

    fn end(records: &[AuditRecord]) -> AuditHead {
        records.last().map(AuditRecord::head).unwrap_or_default()
    }

    #[test]
    fn a_whole_chain_is_whole_from_any_anchor() {
        let records = chain(9);
        assert_eq!(verify(AuditHead::default(), &records, end(&records)), Ok(9));
        assert_eq!(verify(records[3].head(), &records[4..], end(&records)), Ok(5));
        assert_eq!(verify(AuditHead::default(), &records, records[5].head()), Ok(9), "later ones");
        assert_eq!(verify(AuditHead::default(), chain(0), AuditHead::default()), Ok(0));
    }

    #[test]
    fn every_change_is_found_and_named() {
        type Change = fn(&mut AuditRecord);
        let whole = chain(9);
        let broken_at = |records: &[AuditRecord]| {
            verify(AuditHead::default(), records, end(&whole)).map_err(|broken| broken.seq)
        };
        let changes: [Change; 10] = [
            |record| record.at = WallMillis(1),
            |record| record.who = Arc::from("operator bob"),
            |record| record.source = Arc::from("x"),
            |record| record.verb = Arc::from("x"),
            |record| record.object = Arc::from("x"),
            |record| record.allowed = true,
            |record| record.rule = Arc::from("x"),
            |record| record.why = Arc::from("x"),
            |record| record.left_out = 1,
            |record| record.after = Arc::from("x"),
        ];
        for change in changes {
            for at in 0..whole.len() {
                let mut records = whole.clone();
                change(&mut records[at]);
                // The last one shows at itself, by the head; others by who follows them.
                let shows = u64::try_from(at + 2).unwrap().min(9);
                assert_eq!(broken_at(&records), Err(shows));
            }
        }
        for at in 0..whole.len() {
            let mut records = whole.clone();
            records.remove(at);
            assert_eq!(broken_at(&records), Err(u64::try_from(at + 1).unwrap()), "cut {at}");
            let mut records = whole.clone();
            records.insert(at, whole[at].clone());
            assert!(broken_at(&records).is_err(), "twice {at}");
        }
        assert_eq!(broken_at(&[]), Err(1));
    }

    #[test]
    fn texts_cannot_be_moved_between_fields() {
        let one = AuditRecord { who: "ab".into(), source: "c".into(), ..AuditRecord::default() };
        let two = AuditRecord { who: "a".into(), source: "bc".into(), ..AuditRecord::default() };
        assert_ne!(one.hash(), two.hash());
        let text = one.hash().to_string();
        assert_eq!(AuditHash::read(&text), Some(one.hash()));
        assert_eq!(AuditHash::read("00"), None);
    }

    #[test]
    fn a_flood_of_refusals_is_counted_and_not_written() {
        let mut sampler = Sampler::default();
        let taken = (0..1000).filter(|n| sampler.take(WallMillis(*n)).is_some()).count();
        assert_eq!(taken, Sampler::MOST);
        assert_eq!(sampler.take(WallMillis(Sampler::SPAN_MS + 5)), Some(970));
        assert_eq!(sampler.take(WallMillis(Sampler::SPAN_MS + 5)), Some(0));
        let mut back = Sampler::default();
        assert_eq!(back.take(WallMillis(1_000_000)), Some(0));
        assert_eq!(back.take(WallMillis(5)), Some(0), "a clock set back");
    }
}
