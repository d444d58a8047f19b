//! Who leads.
//!
//! The leader key lives by a lease; the number of the last leadership does not, and no leadership
//! begins without raising it in the same transaction. A candidate that finds its own name has lost
//! track and takes a new term. A leader key whose lease is gone, or that never had one, is nobody's
//! and is taken over; that its former owner may not know yet does no harm, for its transactions
//! demand the key as it wrote it.

use std::sync::Arc;

use persys_cluster::store::HighWater;
use persys_etcd::{Compare, KeyValue, LeaseId, Op, Txn};
use persys_model::token::Term;

use super::care::is_full;
use super::{Inner, lock, nth};
use crate::book::Book;
use crate::chain::high_water;
use crate::error::Error;
use crate::record::{Leader, decode, encode};
use crate::store::Campaign;

/// How often a campaign is begun anew because somebody else was quicker.
const TRIES: usize = 3;

/// The leadership of this process, if it has one.
#[derive(Debug, Default)]
pub(super) struct Leadership {
    pub(super) lead: Option<Lead>,
    /// The highest term this process has had: a store that lost its count does not repeat it.
    last: Term,
}

/// One leadership, and how the leader key tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lead {
    pub(super) term: Term,
    lease: LeaseId,
    /// When the leader key was written.
    pub(super) revision: i64,
    /// What was written there.
    pub(super) value: Vec<u8>,
}

impl Inner {
    pub(super) async fn campaign(
        &self,
        candidate: &Arc<str>,
        ttl_ms: u64,
    ) -> Result<Campaign, Error> {
        let (leader_key, term_key) = (self.keys.leader(), self.keys.term());
        let seconds = i64::try_from(ttl_ms.div_ceil(1000)).unwrap_or(i64::MAX).max(1);
        for _ in 0..TRIES {
            let keys = [&leader_key, &term_key, &self.keys.head()].map(|key| Op::Get(key.clone()));
            let look = Txn { then: keys.to_vec(), ..Txn::default() };
            let seen = self.client.look(look).await.map_err(Error::unavailable)?.found;
            let (leader, last) = (nth(&seen, 0), nth(&seen, 1));
            if let Some(kv) = leader
                && let Some(holder) = self.holder(kv, candidate).await?
            {
                // A head that cannot be read is for the leader to tell.
                let head = nth(&seen, 2).map(|kv| &*kv.value);
                let head = Book::new(self.keys.clone()).read_head(head).ok().flatten();
                return Ok(Campaign::HeldBy(holder, head.as_ref().map(high_water)));
            }
            let own_last = lock(&self.leadership).last;
            let counted = self.last_term(last)?.max(own_last);
            // The key may tell more than the count only if somebody meddled with the latter.
            let told = leader.and_then(|kv| decode::<Leader>(&kv.value).ok());
            let term = told.map_or(counted, |(leader, _)| leader.term.max(counted)).next();
            // A lease that nobody uses runs out.
            let lease = self.client.grant(seconds).await.map_err(Error::unavailable)?;
            let value = encode(&Leader { candidate: Arc::clone(candidate), term }, None)
                .map_err(Error::unavailable)?;
            let as_seen = |key: &String, kv: Option<&KeyValue>| {
                Compare::Modified(key.clone(), kv.map_or(0, |kv| kv.mod_revision))
            };
            let txn = Txn {
                when: vec![as_seen(&leader_key, leader), as_seen(&term_key, last)],
                then: vec![
                    Op::Put { key: leader_key.clone(), value: value.clone(), lease: lease.0 },
                    Op::put(term_key.clone(), value.clone()),
                ],
                otherwise: Vec::new(),
            };
            let done = self.client.txn(txn).await.map_err(|error| Error::etcd(&error))?;
            if done.held {
                let lead = Lead { term, lease, revision: done.revision, value };
                let mut leadership = lock(&self.leadership);
                leadership.last = term;
                leadership.lead = Some(lead);
                return Ok(Campaign::Won(term));
            }
        }
        Err(Error::unavailable("others campaign at the same time"))
    }

    /// Who holds the leader key against `candidate`, if anybody does.
    async fn holder(&self, kv: &KeyValue, candidate: &Arc<str>) -> Result<Option<Arc<str>>, Error> {
        let read = decode::<Leader>(&kv.value);
        if read.as_ref().is_ok_and(|(leader, _)| leader.candidate == *candidate) || kv.lease == 0 {
            return Ok(None);
        }
        let left = self.client.time_to_live(LeaseId(kv.lease)).await;
        if left.map_err(Error::unavailable)?.is_none() {
            return Ok(None);
        }
        match read {
            Ok((leader, _)) => Ok(Some(leader.candidate)),
            // It goes with its lease.
            Err(why) => Err(Error::Unreadable { key: self.keys.leader(), why }),
        }
    }

    /// The number of the last leadership. Terms must never count back, so it is not guessed.
    fn last_term(&self, kv: Option<&KeyValue>) -> Result<Term, Error> {
        let Some(kv) = kv else { return Ok(Term(0)) };
        match decode::<Leader>(&kv.value) {
            Ok((leader, _)) => Ok(leader.term),
            Err(why) => Err(Error::Unreadable { key: self.keys.term(), why }),
        }
    }

    pub(super) async fn renew(&self, term: Term) -> Result<Option<HighWater>, Error> {
        self.open()?;
        let lead = self.leads(term)?;
        let alive = self.client.keep_alive(lead.lease).await;
        let alive = alive.map_err(|error| Error::etcd(&error))?;
        // etcd may say yes for a lease that is gone: what counts is the key.
        let keys = [self.keys.leader(), self.keys.head()].map(Op::Get);
        let look = Txn { then: keys.to_vec(), ..Txn::default() };
        let found = tokio::try_join!(self.client.look(look), self.client.status());
        let (seen, status) = found.map_err(|error| Error::etcd(&error))?;
        let (kv, head) = (nth(&seen.found, 0), nth(&seen.found, 1));
        let ours = |kv: &KeyValue| kv.mod_revision == lead.revision && *kv.value == *lead.value;
        if !alive || !kv.is_some_and(ours) {
            self.step_down(&lead);
            return Err(Error::Deposed);
        }
        // Who has nothing to write would not notice that nothing is taken any more.
        if is_full(&status.complaints) {
            return Err(Error::unavailable(persys_etcd::NO_SPACE));
        }
        let head = Book::new(self.keys.clone()).read_head(head.map(|kv| &*kv.value)).ok().flatten();
        Ok(head.as_ref().map(high_water))
    }

    pub(super) async fn resign(&self, term: Term) -> Result<(), Error> {
        self.open()?;
        let lead = self.leads(term)?;
        let txn = Txn {
            when: self.guard(&lead),
            then: vec![Op::Delete(self.keys.leader())],
            otherwise: Vec::new(),
        };
        let done = self.client.txn(txn).await.map_err(|error| Error::etcd(&error))?;
        self.step_down(&lead);
        if !done.held {
            return Err(Error::Deposed);
        }
        // Nothing lives by it any more; if this fails it runs out.
        drop(self.client.revoke(lead.lease).await);
        Ok(())
    }
}
