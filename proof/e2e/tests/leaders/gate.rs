//! A way to a store that can be shut, for one process alone.

use std::sync::Arc;

use persys_cluster::record::Unit;
use persys_cluster::store::HighWater;
use persys_model::token::{CommitSeq, Term};
use persys_store::{Campaign, Error, History, Loaded, Pairs, Span, Store};
use tokio::sync::watch;

/// How the store is for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// It answers.
    Open,
    /// It refuses at once.
    Refuses,
    /// It answers nothing until it is open again; what was asked is not carried out.
    Hangs,
}

#[derive(Debug)]
pub(crate) struct Gate {
    store: Arc<dyn Store>,
    way: watch::Receiver<Way>,
}

impl Gate {
    pub(crate) fn new(store: Arc<dyn Store>, way: watch::Receiver<Way>) -> Self {
        Self { store, way }
    }

    async fn pass(&self) -> Result<(), Error> {
        let now = *self.way.borrow();
        match now {
            Way::Open => Ok(()),
            Way::Refuses => Err(Error::Unavailable { why: "nobody listens".to_owned() }),
            Way::Hangs => {
                let mut way = self.way.clone();
                drop(way.wait_for(|way| *way != Way::Hangs).await);
                Err(Error::Unavailable { why: "it was away".to_owned() })
            }
        }
    }
}

#[async_trait::async_trait]
impl Store for Gate {
    async fn campaign(&self, candidate: &Arc<str>, ttl_ms: u64) -> Result<Campaign, Error> {
        self.pass().await?;
        self.store.campaign(candidate, ttl_ms).await
    }

    async fn renew(&self, term: Term) -> Result<Option<HighWater>, Error> {
        self.pass().await?;
        self.store.renew(term).await
    }

    async fn resign(&self, term: Term) -> Result<(), Error> {
        self.pass().await?;
        self.store.resign(term).await
    }

    async fn load(&self, term: Term, known: Option<&HighWater>) -> Result<Loaded, Error> {
        self.pass().await?;
        self.store.load(term, known).await
    }

    async fn peek(&self) -> Result<Loaded, Error> {
        self.pass().await?;
        self.store.peek().await
    }

    async fn commit(&self, term: Term, after: CommitSeq, units: Vec<Unit>) -> Result<(), Error> {
        self.pass().await?;
        self.store.commit(term, after, units).await
    }

    async fn events(&self, span: Span) -> Result<History, Error> {
        self.pass().await?;
        self.store.events(span).await
    }

    async fn dump(&self) -> Result<Pairs, Error> {
        self.pass().await?;
        self.store.dump().await
    }

    async fn fill(&self, pairs: Pairs) -> Result<(), Error> {
        self.pass().await?;
        self.store.fill(pairs).await
    }

    fn watch(&self) -> watch::Receiver<CommitSeq> {
        self.store.watch()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}
