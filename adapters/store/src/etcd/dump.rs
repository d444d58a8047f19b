//! Everything out of a store, and into another.

use std::collections::BTreeMap;

use persys_etcd::{Compare, Op, Pages, Range, Txn};

use super::write::MOST_SIZE;
use super::{Inner, nth, packs};
use crate::error::Error;
use crate::store::Pairs;

/// Most keys that are written in one transaction.
const MOST_KEYS: usize = 120;

impl Inner {
    pub(super) async fn dump(&self) -> Result<Pairs, Error> {
        self.part(vec![self.keys.folder("")]).await
    }

    /// What is in these folders at one moment.
    pub(super) async fn part(&self, folders: Vec<(String, String)>) -> Result<Pairs, Error> {
        let look = Txn { then: self.meta(), ..Txn::default() };
        let seen = self.client.look(look).await.map_err(Error::unavailable)?;
        self.refuse_half_filled(nth(&seen.found, 2))?;
        let steps = match nth(&seen.found, 1) {
            Some(open) => self.read_journal(open).await?,
            None => Vec::new(),
        };
        let mut contents = self.overlaid(seen.revision, folders, steps).await?;
        packs::apart(&self.keys, &mut contents);
        let kept = contents.into_iter().filter(|(key, _)| self.is_kept(key));
        let below =
            kept.filter_map(|(key, bytes)| Some((self.keys.lasting(&key)?.to_owned(), bytes)));
        Ok(below.collect())
    }

    /// Whether a key is part of what is dumped and filled: not what this store keeps for itself, nor
    /// what is made anew wherever a store comes to life.
    fn is_kept(&self, key: &str) -> bool {
        let (from, to) = self.keys.folder("meta/journal");
        let own = [self.keys.filling(), self.keys.term()];
        self.keys.lasting(key).is_some()
            && !own.iter().any(|own| own == key)
            && !(key >= from.as_str() && key < to.as_str())
    }

    pub(super) async fn fill(&self, pairs: Pairs) -> Result<(), Error> {
        self.open()?;
        let head_key = self.keys.head();
        let (mut head, mut rest) = (None, BTreeMap::new());
        for (below, value) in pairs {
            let key = self.keys.below_root(&below);
            if key == head_key {
                head = Some(value);
            } else if self.is_kept(&key) {
                rest.insert(key, value);
            } else {
                let why = format!("{below} belongs into no copy of a store");
                return Err(Error::unavailable(why));
            }
        }
        let mark = self.begin_filling(&rest).await?;

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

    /// Marks the store as being filled, if it holds nothing but a part of `pairs`, and says when that
    /// was done.
    async fn begin_filling(&self, pairs: &BTreeMap<String, Vec<u8>>) -> Result<i64, Error> {
        let filling = self.keys.filling();
        let keys = [filling.clone(), self.keys.head()].map(Op::Get);
        let look = Txn { then: keys.into(), ..Txn::default() };
        let seen = self.client.look(look).await.map_err(Error::unavailable)?;
        let begun = nth(&seen.found, 0);
        if begun.is_some() {
            self.clear().await?;
        } else {
            self.refuse_strangers(pairs).await?;
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
        Ok(done.revision)
    }

    /// A store that holds a head, or anything that is not in `pairs` as it is, is not filled.
    async fn refuse_strangers(&self, pairs: &BTreeMap<String, Vec<u8>>) -> Result<(), Error> {
        let (from, to) = self.keys.folder("");
        let mut pages = Pages::new(&self.client, Range::between(from, to));
        while let Some(page) = pages.next().await.map_err(Error::unavailable)? {
            for kv in page {
                let key = String::from_utf8_lossy(&kv.key).into_owned();
                let part = pairs.get(&key).is_some_and(|bytes| *bytes == *kv.value);
                if !part && self.is_kept(&key) {
                    return Err(Error::NotEmpty { key });
                }
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
