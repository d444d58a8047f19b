//! A store whose transactions are counted on their way.
//!
//! What a cluster costs is what it writes. Operators see it in the metrics, and a fleet in which
//! nothing changes must write nothing.

use std::sync::Arc;

use persys_cluster::record::{Unit, Write};
use persys_cluster::store::HighWater;
use persys_model::token::{CommitSeq, Term};
use persys_store::{Campaign, Error, History, Loaded, Pairs, Span, Store};
use tokio::sync::watch;

use crate::metrics::Metrics;

/// Counts what goes into another store.
#[derive(Debug)]
pub(crate) struct Counted {
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
}

impl Counted {
    pub(crate) fn new(store: Arc<dyn Store>, metrics: Arc<Metrics>) -> Self {
        Self { store, metrics }
    }
}

#[async_trait::async_trait]
impl Store for Counted {
    async fn campaign(&self, candidate: &Arc<str>, ttl_ms: u64) -> Result<Campaign, Error> {
        self.store.campaign(candidate, ttl_ms).await
    }

    async fn renew(&self, term: Term) -> Result<(), Error> {
        self.store.renew(term).await
    }

    async fn resign(&self, term: Term) -> Result<(), Error> {
        self.store.resign(term).await
    }

    async fn load(&self, term: Term, known: Option<&HighWater>) -> Result<Loaded, Error> {
        self.store.load(term, known).await
    }

    async fn peek(&self) -> Result<Loaded, Error> {
        self.store.peek().await
    }

    async fn commit(&self, term: Term, after: CommitSeq, units: Vec<Unit>) -> Result<(), Error> {
        let writes = || units.iter().flat_map(|unit| &unit.writes);
        let events = writes().filter(|write| is_event(write)).count();
        let records = writes().count().saturating_sub(events);
        let done = self.store.commit(term, after, units).await;
        if done.is_ok() {
            self.metrics.committed(records, events);
        }
        done
    }

    async fn events(&self, span: Span) -> Result<History, Error> {
        self.store.events(span).await
    }

    async fn dump(&self) -> Result<Pairs, Error> {
        self.store.dump().await
    }

    async fn fill(&self, pairs: Pairs) -> Result<(), Error> {
        self.store.fill(pairs).await
    }

    fn watch(&self) -> watch::Receiver<CommitSeq> {
        self.store.watch()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

fn is_event(write: &Write) -> bool {
    match write {
        Write::PutEvent(_) | Write::PutAudit(_) => true,
        Write::PutNode(_)
        | Write::DeleteNode(_)
        | Write::PutWorkload(_)
        | Write::DeleteWorkload(_)
        | Write::PutAssignment(_)
        | Write::DeleteAssignment(_)
        | Write::PutRetry(_)
        | Write::DeleteRetry(_)
        | Write::PutGrave(_)
        | Write::DeleteGrave(..)
        | Write::PutDrift(_)
        | Write::DeleteDrift(..)
        | Write::PutEntry(_)
        | Write::DeleteEntry(_)
        | Write::PutVolume(_)
        | Write::DeleteVolume(_)
        | Write::PutAttachment(_)
        | Write::DeleteAttachment(..) => false,
    }
}
