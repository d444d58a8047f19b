//! The store in memory keeps the contract, and fails when it is told to.

use std::sync::Arc;
use std::time::Duration;

use persys_cluster::store::{StoreCall, StoreReply};
use persys_model::token::{CommitSeq, Term};
use persys_store::memory::Outage;
use persys_store::{Memory, Settings, Store, answer};

use crate::contract::sample::{Pen, running, workload};
use crate::contract::{Fixture, TTL_MS};

struct InMemory(Memory);

#[async_trait::async_trait]
impl Fixture for InMemory {
    async fn new(settings: Settings) -> Self {
        Self(Memory::new(settings).unwrap())
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.0.clone())
    }

    async fn succeed(&mut self) {
        tokio::time::advance(Duration::from_millis(TTL_MS + 1)).await;
        self.0 = self.0.another();
    }

    async fn put_bytes(&mut self, key: &str, bytes: &[u8]) {
        self.0.put_bytes(key, bytes);
    }

    async fn bytes(&mut self, key: &str) -> Option<Vec<u8>> {
        self.0.bytes(key)
    }
}

suite!(InMemory);

fn campaign(candidate: &str) -> StoreCall {
    StoreCall::Campaign { candidate: Arc::from(candidate), ttl_ms: TTL_MS }
}

#[tokio::test(start_paused = true)]
async fn a_lease_ends_unless_it_is_renewed() {
    let store = Memory::new(Settings::default()).unwrap();
    let other = store.another();
    assert_eq!(answer(&store, campaign("a#1")).await.reply, StoreReply::Won(Term(1)));
    for _ in 0..3 {
        tokio::time::advance(Duration::from_millis(TTL_MS - 1)).await;
        let renew = StoreCall::Renew { term: Term(1) };
        assert_eq!(answer(&store, renew).await.reply, StoreReply::Done);
        let held = StoreReply::HeldBy(Arc::from("a#1"), None);
        assert_eq!(answer(&other, campaign("b#1")).await.reply, held);
    }
    tokio::time::advance(Duration::from_millis(TTL_MS)).await;
    let renew = StoreCall::Renew { term: Term(1) };
    assert_eq!(answer(&store, renew).await.reply, StoreReply::Deposed);
    assert_eq!(answer(&other, campaign("b#1")).await.reply, StoreReply::Won(Term(2)));
    let load = StoreCall::Load { term: Term(2), known: None };
    assert_eq!(answer(&store, load).await.reply, StoreReply::Deposed, "not its own term");
}

/// After every kind of outage, reading again tells what happened.
#[tokio::test(start_paused = true)]
async fn an_outage_is_reported_truthfully() {
    for (outage, reply, happened) in [
        (Outage::Refused, StoreReply::Unavailable, false),
        (Outage::CallLost, StoreReply::Unknown, false),
        (Outage::AnswerLost, StoreReply::Unknown, true),
    ] {
        let store = Memory::new(Settings::default()).unwrap();
        assert_eq!(answer(&store, campaign("a#1")).await.reply, StoreReply::Won(Term(1)));
        let units = vec![Pen::new().unit(running(1, 1))];
        let commit = StoreCall::Commit { term: Term(1), after: CommitSeq(0), units };
        store.fail_next(outage);
        let answered = answer(&store, commit.clone()).await;
        assert_eq!(answered.reply, reply);
        assert!(answered.error.is_some());
        let load = StoreCall::Load { term: Term(1), known: None };
        let StoreReply::Loaded(snapshot) = answer(&store, load).await.reply else {
            panic!("not loaded")
        };
        let expected = if happened { vec![workload(1)] } else { Vec::new() };
        assert_eq!(snapshot.workloads, expected, "{outage:?}");
        let again = if happened { StoreReply::HeadMoved } else { StoreReply::Committed };
        assert_eq!(answer(&store, commit).await.reply, again);
    }
}

/// A wiped store counts its terms anew; the process that led does not lead again by accident.
#[tokio::test(start_paused = true)]
async fn a_term_of_a_wiped_store_is_not_taken_for_another() {
    let store = Memory::new(Settings::default()).unwrap();
    let other = store.another();
    assert_eq!(answer(&store, campaign("a#1")).await.reply, StoreReply::Won(Term(1)));
    store.wipe();
    assert_eq!(answer(&other, campaign("b#1")).await.reply, StoreReply::Won(Term(1)));
    let renew = StoreCall::Renew { term: Term(1) };
    assert_eq!(answer(&store, renew).await.reply, StoreReply::Deposed);
}
