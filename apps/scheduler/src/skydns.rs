//! `SkyDNS` records in the etcd of the store, for a `CoreDNS` that reads there.
//!
//! Records are written only in transactions that go through while this process leads, so that a
//! leader that was paused does not bring back names that are gone.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use persys_dns::sink::{Edit, LeaseId};
use persys_dns::skydns::{Ours, ROOT};
use persys_dns::{RecordSink, SinkError};
use persys_etcd::{Error, Kind, Op, Pages, Range, Txn};
use persys_store::Etcd;

/// The etcd of the store.
#[derive(Debug)]
pub(crate) struct EtcdSink(pub(crate) Etcd);

#[async_trait]
impl RecordSink for EtcdSink {
    async fn grant(&self, length: Duration) -> Result<LeaseId, SinkError> {
        let seconds = i64::try_from(length.as_secs()).unwrap_or(i64::MAX).max(1);
        let lease = self.0.client().grant(seconds).await.map_err(|error| told(&error))?;
        Ok(LeaseId(lease.0))
    }

    async fn keep(&self, lease: LeaseId) -> Result<(), SinkError> {
        match self.0.client().keep_alive(persys_etcd::LeaseId(lease.0)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(SinkError::LeaseGone),
            Err(error) => Err(told(&error)),
        }
    }

    async fn revoke(&self, lease: LeaseId) -> Result<(), SinkError> {
        match self.0.client().revoke(persys_etcd::LeaseId(lease.0)).await {
            Err(error) if error.kind() != Kind::NoLease => Err(told(&error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    async fn list(&self, ours: &Ours) -> Result<BTreeSet<String>, SinkError> {
        let mut end = ROOT.trim_end_matches('/').to_owned();
        // What follows `/`.
        end.push('0');
        let range = Range { keys_only: true, ..Range::between(ROOT, end) };
        let client = self.0.client();
        let mut pages = Pages::new(&client, range);
        let mut found = BTreeSet::new();
        while let Some(page) = pages.next().await.map_err(|error| told(&error))? {
            let keys = page.into_iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned());
            found.extend(keys.filter(|key| ours.has(key)));
        }
        Ok(found)
    }

    async fn edit(&self, lease: LeaseId, edits: &[Edit]) -> Result<(), SinkError> {
        let when = self.0.while_leading().ok_or(SinkError::NotLeader)?;
        let then = edits.iter().map(|edit| match edit {
            Edit::Put { key, value } => {
                Op::Put { key: key.clone(), value: value.clone().into_bytes(), lease: lease.0 }
            }
            Edit::Delete { key } => Op::Delete(key.clone()),
        });
        let txn = Txn { when, then: then.collect(), otherwise: Vec::new() };
        let done = self.0.client().txn(txn).await.map_err(|error| told(&error))?;
        if done.held { Ok(()) } else { Err(SinkError::NotLeader) }
    }
}

fn told(error: &Error) -> SinkError {
    if error.kind() == Kind::NoLease {
        SinkError::LeaseGone
    } else {
        SinkError::Unavailable(error.to_string())
    }
}
