//! From a scheduler's call to its reply.

use persys_cluster::store::{StoreCall, StoreReply};

use crate::error::Error;
use crate::store::{Campaign, Loaded, Quarantined, Store};

/// A reply, and what the scheduler does not want to know but an operator does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// For the scheduler.
    pub reply: StoreReply,
    /// Why it is not the reply one would wish for.
    pub error: Option<Error>,
    /// What could not be read.
    pub quarantined: Vec<Quarantined>,
}

impl From<StoreReply> for Answered {
    fn from(reply: StoreReply) -> Self {
        Self { reply, error: None, quarantined: Vec::new() }
    }
}

/// Carries out one call. Deadlines are the caller's: one that gives up takes the reply to be
/// `Unknown`.
pub async fn answer(store: &dyn Store, call: StoreCall) -> Answered {
    let answered = match call {
        StoreCall::Campaign { candidate, ttl_ms } => {
            store.campaign(&candidate, ttl_ms).await.map(|campaign| match campaign {
                Campaign::Won(term) => StoreReply::Won(term).into(),
                Campaign::HeldBy(holder, reached) => StoreReply::HeldBy(holder, reached).into(),
            })
        }
        StoreCall::Renew { term } => {
            store.renew(term).await.map(|head| StoreReply::Renewed(head).into())
        }
        StoreCall::Resign { term } => store.resign(term).await.map(|()| StoreReply::Done.into()),
        StoreCall::Load { term, known } => store.load(term, known.as_ref()).await.map(|loaded| {
            let Loaded { snapshot, quarantined } = loaded;
            let reply = StoreReply::Loaded(Box::new(snapshot));
            Answered { reply, error: None, quarantined }
        }),
        StoreCall::Commit { term, after, units } => {
            store.commit(term, after, units).await.map(|()| StoreReply::Committed.into())
        }
    };
    answered.unwrap_or_else(|error| Answered {
        reply: error.reply(),
        error: Some(error),
        quarantined: Vec::new(),
    })
}
