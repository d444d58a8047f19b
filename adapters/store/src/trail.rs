//! The audit log as it is stored: those of one commit under one key, the oldest keys dropped.
//!
//! ```text
//!   /audit/<first>-<last>-<hash of the last>  =  {"seq":41,...}
//!                                                {"seq":42,...}
//!   /meta/audit                               =  where the chain went on after what was dropped
//! ```
//!
//! What etcd does costs by the key, so the records of one commit are the lines of one value. The key
//! tells what is needed to drop it, so that nothing has to be read for that.

use std::collections::VecDeque;
use std::sync::Arc;

use persys_cluster::record::Head;
use persys_model::audit::{AuditHash, AuditHead, AuditRecord};

use crate::chain::lines;
use crate::error::Error;
use crate::key::{Keys, Noun};
use crate::record::{AuditHeadShape, decode, encode};
use crate::store::Pairs;

/// Most records kept.
const MOST_KEPT: u64 = 20_000;
/// Most keys that go with one commit.
const MOST_DROPPED: usize = 4;

/// Which part of the audit log: the last records before a place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Only records with a smaller number.
    pub before: u64,
    /// At most so many, the newest of them.
    pub most: usize,
}

impl Stretch {
    /// The whole of it.
    pub const ALL: Self = Self { before: u64::MAX, most: usize::MAX };
}

/// Goes back over keys until there are enough records under them.
#[derive(Debug)]
pub(crate) struct Back {
    stretch: Stretch,
    found: u64,
}

impl Back {
    pub(crate) fn over(stretch: Stretch) -> Self {
        Self { stretch, found: 0 }
    }

    /// Takes in the next older key; says whether it was the last that is needed.
    pub(crate) fn is_enough(&mut self, key: &str) -> bool {
        // One that cannot be understood is read with the others, and counted there.
        let Some(pack) = read_key(key) else { return false };
        let last = pack.last.seq.min(self.stretch.before.saturating_sub(1));
        let here = last.saturating_add(1).saturating_sub(pack.first);
        self.found = self.found.saturating_add(here);
        usize::try_from(self.found).is_ok_and(|found| found >= self.stretch.most)
    }
}

/// The audit log, or a stretch of it, read from a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trail {
    /// Where the chain ends, as the head of the store says.
    pub head: AuditHead,
    /// Where what is kept begins.
    pub anchor: AuditHead,
    /// What is kept, or the stretch of it that was asked for, in order.
    pub records: Vec<Arc<AuditRecord>>,
    /// Lines that could not be read.
    pub unreadable: u32,
}

/// The records under one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pack {
    first: u64,
    last: AuditHead,
}

/// Which records there are.
#[derive(Debug, Default)]
pub(crate) struct Packs {
    packs: VecDeque<Pack>,
    /// Records that were not written yet.
    new: Vec<Arc<AuditRecord>>,
}

/// What becomes of the keys.
pub(crate) enum Change {
    Put(String, Vec<u8>),
    Delete(String),
}

impl Packs {
    pub(crate) fn clear(&mut self) {
        self.packs.clear();
        self.new.clear();
    }

    /// Takes in a key as it was read; they come in order, but pages of them may not.
    pub(crate) fn found(&mut self, key: &str) {
        if let Some(pack) = read_key(key) {
            let place = self.packs.partition_point(|other| other.first < pack.first);
            self.packs.insert(place, pack);
        }
    }

    pub(crate) fn absorb(&mut self, other: Self) {
        for pack in other.packs {
            let place = self.packs.partition_point(|one| one.first < pack.first);
            self.packs.insert(place, pack);
        }
    }

    /// Notes a record that is to be written.
    pub(crate) fn add(&mut self, record: &Arc<AuditRecord>) {
        self.new.push(Arc::clone(record));
    }

    /// What the records that were noted do to the keys.
    pub(crate) fn settle(&mut self, keys: &Keys) -> Result<Vec<Change>, Error> {
        let new = std::mem::take(&mut self.new);
        let (Some(first), Some(last)) = (new.first(), new.last()) else { return Ok(Vec::new()) };
        let pack = Pack { first: first.seq, last: last.head() };
        let mut value = Vec::new();
        for record in &new {
            if !value.is_empty() {
                value.push(b'\n');
            }
            value.extend(encode(&**record, None).map_err(Error::unavailable)?);
        }
        self.packs.push_back(pack);
        let mut changes = vec![Change::Put(key_of(keys, pack), value)];
        let mut anchor = None;
        for _ in 0..MOST_DROPPED {
            let Some(oldest) = self.packs.front().copied() else { break };
            if pack.last.seq.saturating_sub(oldest.last.seq) < MOST_KEPT {
                break;
            }
            self.packs.pop_front();
            changes.push(Change::Delete(key_of(keys, oldest)));
            anchor = Some(oldest.last);
        }
        if let Some(anchor) = anchor {
            let shape = AuditHeadShape::from(anchor);
            let bytes = serde_json::to_vec(&shape).map_err(Error::unavailable)?;
            changes.push(Change::Put(keys.audit_anchor(), bytes));
        }
        Ok(changes)
    }
}

fn key_of(keys: &Keys, Pack { first, last }: Pack) -> String {
    keys.audit(first, last.seq, &last.hash.to_string())
}

fn read_key(key: &str) -> Option<Pack> {
    let mut parts = key.rsplit('/').next()?.splitn(3, '-');
    let first = parts.next()?.parse().ok()?;
    let seq = parts.next()?.parse().ok()?;
    let hash = AuditHash::read(parts.next()?)?;
    Some(Pack { first, last: AuditHead { seq, hash } })
}

impl Trail {
    /// The audit log in a copy of a store.
    #[must_use]
    pub fn within(pairs: &Pairs) -> Self {
        let keys = Keys::bare();
        let find = |wanted: String| pairs.iter().find(|(key, _)| *key == wanted);
        let head = find(keys.head()).and_then(|(_, bytes)| decode::<Head>(bytes).ok());
        let head = head.map(|(head, _)| head.audit).unwrap_or_default();
        let anchor = find(keys.audit_anchor()).map(|(_, bytes)| bytes.as_slice());
        let values = pairs.iter().filter(|(key, _)| keys.noun(key) == Noun::Audit);
        Self::read(head, anchor, values.map(|(_, bytes)| bytes.as_slice()))
    }

    /// Leaves out what is not in a stretch.
    #[must_use]
    pub fn cut(mut self, stretch: Stretch) -> Self {
        let end = self.records.partition_point(|record| record.seq < stretch.before);
        self.records.truncate(end);
        self.records.drain(..end.saturating_sub(stretch.most));
        self
    }

    /// Reads the values of `/audit/...`, in the order of their keys.
    fn read(
        head: AuditHead,
        anchor: Option<&[u8]>,
        values: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Self {
        let anchor = anchor.and_then(|bytes| serde_json::from_slice(bytes).ok());
        let anchor = anchor.and_then(|shape: AuditHeadShape| shape.read().ok());
        let mut trail = Self { head, anchor: anchor.unwrap_or_default(), ..Self::default() };
        for value in values {
            for line in lines(value.as_ref()) {
                match decode::<AuditRecord>(line) {
                    Ok((record, _)) => trail.records.push(Arc::new(record)),
                    Err(_) => trail.unreadable += 1,
                }
            }
        }
        trail
    }
}

#[cfg(test)]
mod tests {
    use persys_model::audit::verify;

    use super::*;

    /// The keys of a store after commits of so many records each.
    fn stored(commits: &[u64]) -> (std::collections::BTreeMap<String, Vec<u8>>, AuditHead) {
        let keys = Keys::bare();
        let (mut packs, mut last) = (Packs::default(), AuditHead::default());
        let mut store = std::collections::BTreeMap::new();
        for count in commits {
            for _ in 0..*count {
                let record =
                    AuditRecord { seq: last.seq + 1, previous: last.hash, ..Default::default() };
                last = record.head();
                packs.add(&Arc::new(record));
            }
            for change in packs.settle(&keys).unwrap() {
                match change {
                    Change::Put(key, bytes) => drop(store.insert(key, bytes)),
                    Change::Delete(key) => assert!(store.remove(&key).is_some(), "{key}"),
                }
            }
        }
        (store, last)
    }

    fn trail((store, head): &(std::collections::BTreeMap<String, Vec<u8>>, AuditHead)) -> Trail {
        let anchor = store.get("/meta/audit").map(Vec::as_slice);
        let values = store.iter().filter(|(key, _)| key.starts_with("/audit/"));
        Trail::read(*head, anchor, values.map(|(_, bytes)| bytes.as_slice()))
    }

    #[test]
    fn the_records_of_a_commit_share_a_key_and_form_a_chain() {
        let stored = stored(&[1, 3, 0, 2]);
        assert_eq!(stored.0.len(), 3);
        let trail = trail(&stored);
        let records = trail.records.iter().map(|record| &**record);
        assert_eq!(verify(trail.anchor, records, trail.head), Ok(6));
        let mut again = Packs::default();
        stored.0.keys().for_each(|key| again.found(key));
        assert_eq!(again.packs.len(), 3);
    }

    #[test]
    fn stretches_follow_each_other_and_miss_nothing_and_read_little() {
        let stored = stored(&[1, 3, 40, 2, 1, 1, 1, 7]);
        let whole = trail(&stored);
        for most in [1, 2, 3, 5, 39, 41, 56, 100] {
            let (mut before, mut pages) = (u64::MAX, Vec::new());
            loop {
                let stretch = Stretch { before, most };
                // As stores do it: back over the keys, and only those are read.
                let end = Keys::bare().of_audit(before)[0].1.clone();
                let (mut back, mut values) = (Back::over(stretch), Vec::new());
                for (key, bytes) in stored.0.range(..end).rev() {
                    values.push(bytes.as_slice());
                    if back.is_enough(key) {
                        break;
                    }
                }
                values.reverse();
                let read = Trail::read(stored.1, None, values);
                // Of the packs it ends and begins in, the largest has 40, only a part may be wanted.
                assert!(read.records.len() < most + 2 * 40, "a pack too many was read");
                let page = read.cut(stretch);
                assert_eq!(page.records, whole.clone().cut(stretch).records, "{stretch:?}");
                let Some(oldest) = page.records.first() else { break };
                before = oldest.seq;
                pages.push(page.records);
            }
            let all: Vec<_> = pages.into_iter().rev().flatten().collect();
            assert_eq!(all, whole.records, "in pages of {most}");
        }
    }

    /// What a change costs more for being written down: one key for each commit, and this many bytes.
    #[test]
    fn a_record_costs_about_half_a_kilobyte_and_a_commit_one_key() {
        let record = |seq| AuditRecord {
            seq,
            at: persys_model::time::WallMillis(1_800_000_000_000),
            who: "operator alice@example.org".into(),
            source: "10.11.12.13".into(),
            verb: "apply".into(),
            object: format!("workload shop-frontend-{seq}").into(),
            namespace: "default".into(),
            request: "0123456789abcdef".into(),
            allowed: true,
            rule: "operators, in their namespaces".into(),
            before: "0123456789abcdef".into(),
            after: "fedcba9876543210".into(),
            ..AuditRecord::default()
        };
        for count in [1, 100] {
            let (mut packs, keys) = (Packs::default(), Keys::bare());
            (0..count).for_each(|seq| packs.add(&Arc::new(record(seq))));
            let changes = packs.settle(&keys).unwrap();
            let [Change::Put(key, value)] = changes.as_slice() else { panic!("more than one key") };
            let bytes = (key.len() + value.len()) / usize::try_from(count).unwrap();
            assert!((300..640).contains(&bytes), "{count} in a commit: {bytes} bytes each");
        }
    }

    #[test]
    fn old_records_go_and_the_chain_still_begins_somewhere() {
        let many = vec![100; usize::try_from(MOST_KEPT / 100).unwrap() + 50];
        let trail = trail(&stored(&many));
        assert_eq!(trail.anchor.seq, 5000);
        let records = trail.records.iter().map(|record| &**record);
        assert_eq!(verify(trail.anchor, records, trail.head), Ok(MOST_KEPT));
        let cut = trail.records.iter().skip(1).map(|record| &**record);
        assert_eq!(verify(trail.anchor, cut, trail.head).unwrap_err().seq, 5001);
    }
}
