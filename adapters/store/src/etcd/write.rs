//! Commits.

use persys_cluster::record::Unit;
use persys_etcd::{Compare, KeyValue, MOST_BYTES, MOST_OPERATIONS, Op, Txn};
use persys_model::token::{CommitSeq, Term};

use super::lead::Lead;
use super::plan::{Plan, plan};
use super::view::View;
use super::{Inner, nth};
use crate::error::Error;

/// Bytes of a request that are left for what stands around the operations.
pub(super) const ROOM: usize = 64 * 1024;
/// Most bytes of operations in one transaction.
pub(super) const MOST_SIZE: usize = MOST_BYTES - ROOM;

impl Inner {
    pub(super) async fn commit(
        &self,
        term: Term,
        after: CommitSeq,
        units: &[Unit],
    ) -> Result<(), Error> {
        self.open()?;
        let lead = self.leads(term)?;
        let mut desk = self.desk.lock().await;
        // Taken out: whatever goes wrong from here on, the next one looks for itself.
        let known = desk.view.take().filter(|view| view.lead == lead.revision);
        let mut view = match known {
            Some(view) => view,
            None => self.look(&lead, &desk.book).await?,
        };
        let planned = plan(&mut view, &mut desk.book, &self.settings, after, units)?;
        if let Some(plan) = planned {
            let seq = plan.seq;
            view.head_revision = self.carry_out(&lead, &view, plan).await?;
            self.head.send_replace(seq);
        }
        desk.view = Some(view);
        Ok(())
    }

    /// Does what was planned, all or nothing, and says when the head was written.
    async fn carry_out(&self, lead: &Lead, view: &View, plan: Plan) -> Result<i64, Error> {
        let mut when = self.guard(lead);
        when.push(Compare::Modified(self.keys.head(), view.head_revision));
        if !plan.aside.is_empty() {
            when.extend(self.copy_aside(&when, lead, &plan).await?);
        }
        let size: usize = plan.ops.iter().chain([&plan.head]).map(Op::size).sum();
        if plan.ops.len() + 1 > MOST_OPERATIONS || size > MOST_SIZE {
            return self.commit_by_journal(lead, when, plan).await;
        }
        let mut then = plan.ops;
        then.push(plan.head);
        Ok(self.guarded(lead, when, then).await?.0)
    }

    /// Copies what cannot be read to where nobody writes. The commit itself then demands that the
    /// originals are still the same.
    async fn copy_aside(
        &self,
        guard: &[Compare],
        lead: &Lead,
        plan: &Plan,
    ) -> Result<Vec<Compare>, Error> {
        let mut unchanged = Vec::new();
        for key in &plan.aside {
            let kv = self.client.get(key).await.map_err(Error::unavailable)?;
            let Some(KeyValue { mod_revision, value, .. }) = kv else { continue };
            let copy = Op::put(self.keys.quarantine(key, plan.seq), value.to_vec());
            self.guarded(lead, guard.to_vec(), vec![copy]).await?;
            unchanged.push(Compare::Modified(key.clone(), mod_revision));
        }
        // The list of demands has a limit too.
        unchanged.truncate(MOST_OPERATIONS / 2);
        Ok(unchanged)
    }

    /// One transaction; says at which revision it was done, and what it read.
    pub(super) async fn guarded(
        &self,
        lead: &Lead,
        when: Vec<Compare>,
        then: Vec<Op>,
    ) -> Result<(i64, Option<KeyValue>), Error> {
        let txn = Txn { when, then, otherwise: self.instead() };
        let done = self.client.txn(txn).await.map_err(|error| Error::etcd(&error))?;
        if !done.held {
            return Err(self.refusal(lead, &done.found));
        }
        Ok((done.revision, nth(&done.found, 0).cloned()))
    }

    /// A closed store does nothing, whoever leads.
    pub(super) fn open(&self) -> Result<(), Error> {
        if self.client.is_closed() { Err(Error::unavailable("it was closed")) } else { Ok(()) }
    }
}
