//! A store whose transactions are counted on their way.
//!
//! What a cluster costs is what it writes. Operators see it in the metrics, and a fleet in which
//! nothing changes must write nothing.

use std::sync::Arc;
use std::time::Instant;

use persys_cluster::record::Unit;
use persys_cluster::store::HighWater;
use persys_model::id::WorkloadId;
use persys_model::token::{CommitSeq, Term};
use persys_store::{
    Campaign, Error, History, Loaded, Pairs, Revisions, Span, Store, Stretch, Trail,
};
use tokio::sync::watch;

use crate::metrics::{Batch, Metrics};

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

    async fn counted<T>(
        &self,
        call: &'static str,
        calling: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let answer = calling.await;
        self.metrics.stored.called(call, answer.is_ok());
        answer
    }
}

#[async_trait::async_trait]
impl Store for Counted {
    async fn campaign(&self, candidate: &Arc<str>, ttl_ms: u64) -> Result<Campaign, Error> {
        self.counted("campaign", self.store.campaign(candidate, ttl_ms)).await
    }

    async fn renew(&self, term: Term) -> Result<Option<HighWater>, Error> {
        self.counted("renew", self.store.renew(term)).await
    }

    async fn resign(&self, term: Term) -> Result<(), Error> {
        self.counted("resign", self.store.resign(term)).await
    }

    async fn load(&self, term: Term, known: Option<&HighWater>) -> Result<Loaded, Error> {
        self.counted("load", self.store.load(term, known)).await
    }

    async fn peek(&self) -> Result<Loaded, Error> {
        self.counted("peek", self.store.peek()).await
    }

    async fn commit(&self, term: Term, after: CommitSeq, units: Vec<Unit>) -> Result<(), Error> {
        let (batch, began) = (Batch::of(&units), Instant::now());
        let done = self.counted("commit", self.store.commit(term, after, units)).await;
        if done.is_ok() {
            self.metrics.stored.committed(&batch, began.elapsed());
        }
        done
    }

    async fn events(&self, span: Span) -> Result<History, Error> {
        self.store.events(span).await
    }

    // Not left to what any store can do: that reads everything there is.
    async fn audit(&self, stretch: Stretch) -> Result<Trail, Error> {
        self.store.audit(stretch).await
    }

    async fn revisions(&self, workload: &WorkloadId) -> Result<Revisions, Error> {
        self.store.revisions(workload).await
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
