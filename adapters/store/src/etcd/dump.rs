//! Everything out of a store, and into another.

use persys_etcd::{Compare, Op, Range, Txn};

use super::write::MOST_SIZE;
use super::{Inner, nth};
use crate::error::Error;
use crate::record::{Leader, decode};

/// Most keys that are written in one transaction.
const MOST_KEYS: usize = 120;
/// Folders that live by leases or for the moment.
const NOT_KEPT: [&str; 2] = ["meta/journal", "skydns"];

impl Inner {
    pub(super) async fn dump(&self) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let look = Txn { then: self.meta(), ..Txn::default() };
        let seen = self.client.look(look).await.map_err(Error::unavailable)?;
        self.refuse_half_filled(nth(&seen.found, 2))?;
        let steps = match nth(&seen.found, 1) {
            Some(open) => self.read_journal(open).await?,
            None => Vec::new(),
        };
        let everything = vec![self.keys.folder("")];
        let contents = self.overlaid(seen.revision, everything, steps).await?;
        Ok(contents.into_iter().filter(|(key, _)| self.is_kept(key)).collect())
    }

    /// Whether a key is part of what is dumped and filled.
    fn is_kept(&self, key: &str) -> bool {
        let within = |name: &str| {
            let (from, to) = self.keys.folder(name);
            key >= from.as_str() && key < to.as_str()
        };
        within("")
            && key != self.keys.leader()
            && key != self.keys.filling()
            && !NOT_KEPT.into_iter().any(within)
    }

    pub(super) async fn fill(&self, pairs: Vec<(String, Vec<u8>)>) -> Result<(), Error> {
        self.open()?;
        let (leader_key, head_key) = (self.keys.leader(), self.keys.head());
        let (mut head, mut rest) = (None, Vec::new());
        for (key, value) in pairs {
            if key == head_key {
                head = Some(value);
            } else if key == leader_key {
                // Other stores count their terms there; here the count has a key that stays.
                rest.push((self.keys.term(), value));
            } else if self.is_kept(&key) {
                rest.push((key, value));
            } else {
                let why = format!("{key} is not below the root of this store, or is not kept");
                return Err(Error::unavailable(why));
            }
        }
        let (mark, last) = self.begin_filling().await?;
        let counted = |value: &[u8]| decode::<Leader>(value).map(|(leader, _)| leader.term).ok();
        // Terms must not count back.
        rest.retain(|(key, value)| *key != self.keys.term() || counted(value) > last);

        let mut when = vec![Compare::Modified(self.keys.filling(), mark)];
        when.push(Compare::Modified(head_key.clone(), 0));
        let (mut batch, mut size) = (Vec::new(), 0);
        for (key, value) in rest {
            let op = Op::put(key, value);
            if batch.len() == MOST_KEYS || size + op.size() > MOST_SIZE {
                self.fill_batch(when.clone(), std::mem::take(&mut batch)).await?;
                size = 0;
            }
            size += op.size();
            batch.push(op);
        }
        self.fill_batch(when.clone(), batch).await?;
        let mut last = vec![Op::Delete(self.keys.filling())];
        last.extend(head.map(|value| Op::put(head_key, value)));
        self.fill_batch(when, last).await
    }

    async fn fill_batch(&self, when: Vec<Compare>, then: Vec<Op>) -> Result<(), Error> {
        let txn = Txn { when, then, otherwise: Vec::new() };
        let done = self.client.txn(txn).await.map_err(|error| Error::etcd(&error))?;
        if done.held { Ok(()) } else { Err(Error::HeadMoved) }
    }

    /// Marks the store as being filled, if it holds nothing of ours, and says when that was done
    /// and how far its terms have counted.
    async fn begin_filling(&self) -> Result<(i64, Option<persys_model::token::Term>), Error> {
        let filling = self.keys.filling();
        let keys = [filling.clone(), self.keys.term(), self.keys.head()].map(Op::Get);
        let look = Txn { then: keys.into(), ..Txn::default() };
        let seen = self.client.look(look).await.map_err(Error::unavailable)?;
        let begun = nth(&seen.found, 0);
        if begun.is_some() {
            self.clear().await?;
        } else {
            self.refuse_unless_empty().await?;
        }
        let when = vec![
            Compare::Modified(filling.clone(), begun.map_or(0, |kv| kv.mod_revision)),
            Compare::Modified(self.keys.head(), 0),
        ];
        let then = vec![Op::put(filling, b"{\"v\":1}".to_vec())];
        let txn = Txn { when, then, otherwise: Vec::new() };
        let done = self.client.txn(txn).await.map_err(|error| Error::etcd(&error))?;
        if !done.held {
            return Err(Error::unavailable("somebody else writes to this store"));
        }
        let last = nth(&seen.found, 1).and_then(|kv| decode::<Leader>(&kv.value).ok());
        Ok((done.revision, last.map(|(leader, _)| leader.term)))
    }

    async fn refuse_unless_empty(&self) -> Result<(), Error> {
        let (from, to) = self.keys.folder("");
        let skydns = self.keys.folder("skydns");
        for (from, to) in [(from, skydns.0), (skydns.1, to)] {
            // The leader key and the count of terms are there as soon as anybody campaigned.
            let range = Range { limit: 4, keys_only: true, ..Range::between(from, to) };
            let (found, _, _) = self.client.range(range).await.map_err(Error::unavailable)?;
            let keys = found.iter().map(|kv| String::from_utf8_lossy(&kv.key));
            let mut ours = keys.filter(|key| **key != self.keys.term() && self.is_kept(key));
            if let Some(key) = ours.next() {
                let why = format!("it is not empty: {key} is there, and perhaps more");
                return Err(Error::unavailable(why));
            }
        }
        Ok(())
    }

    /// Deletes what a fill that was interrupted has left behind.
    async fn clear(&self) -> Result<(), Error> {
        let (from, to) = self.keys.folder("");
        let (meta, skydns) = (self.keys.folder("meta"), self.keys.folder("skydns"));
        let ranges = [(from, meta.0), (meta.1, skydns.0), (skydns.1, to)];
        let then = ranges.into_iter().map(|(from, to)| Op::DeleteRange(from, to)).collect();
        let txn =
            Txn { when: vec![Compare::Modified(self.keys.head(), 0)], then, ..Txn::default() };
        let done = self.client.txn(txn).await.map_err(|error| Error::etcd(&error))?;
        if done.held { Ok(()) } else { Err(Error::unavailable("it is in use")) }
    }
}
