//! No scheduler: the node is commanded directly, with `persysctl` or by an operator's tool.
//!
//! An agent acts only within a session. Here it gives itself one, in the leadership it last heard
//! of, so that a scheduler it joins later finds nothing newer than itself. Nobody else can start
//! what this node runs, so exclusive work keeps its lease.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use persys_model::link::{Beat, BeatAnswer, Registration, RegistrationAnswer};
use persys_model::time::WallMillis;
use persys_model::token::{Session, Term};

use super::{Scheduler, Unreachable};
use crate::handle::Handle;
use crate::rpc::legacy::held_again;

/// How often it is looked for what nobody confirmed.
const CONFIRM_EVERY: Duration = Duration::from_secs(1);
const BEAT_MS: u64 = 2_000;
const LEASE_MS: u64 = 6_000;

/// Sessions that no scheduler of ours gave, in the leadership the agent last heard of.
#[derive(Debug)]
pub(super) struct Sessions {
    next: AtomicU64,
    term: AtomicU64,
}

impl Sessions {
    /// Counted from the date, so that the next life of the agent begins higher.
    pub(super) fn since(now: WallMillis) -> Self {
        Self { next: AtomicU64::new(now.0), term: AtomicU64::new(1) }
    }

    /// A session begins.
    pub(super) fn accept(&self, known: Term, beat_ms: u64) -> RegistrationAnswer {
        let session = Session(self.next.fetch_add(1, Ordering::Relaxed));
        let term = known.max(Term(1));
        self.term.store(term.0, Ordering::Relaxed);
        RegistrationAnswer::Accepted { term, session, beat_ms, lease_ms: LEASE_MS }
    }

    /// A session goes on.
    pub(super) fn heard(&self, beat: &Beat, renewed: bool, drain: bool) -> BeatAnswer {
        let term = Term(self.term.load(Ordering::Relaxed));
        let (session, seq) = (beat.session, beat.seq);
        let (hold, want_inventory, beat_ms) = (false, false, 0);
        let removals = Vec::new();
        BeatAnswer::Heard {
            term,
            session,
            seq,
            renewed,
            hold,
            drain,
            want_inventory,
            beat_ms,
            removals,
            mark: None,
        }
    }
}

/// No scheduler.
#[derive(Debug)]
pub struct Alone {
    sessions: Sessions,
}

impl Alone {
    /// From now on.
    #[must_use]
    pub fn since(now: WallMillis) -> Self {
        Self { sessions: Sessions::since(now) }
    }
}

#[async_trait::async_trait]
impl Scheduler for Alone {
    async fn register(
        &self,
        registration: Registration,
    ) -> Result<RegistrationAnswer, Unreachable> {
        Ok(self.sessions.accept(registration.term, BEAT_MS))
    }

    async fn beat(&self, beat: Beat) -> Result<BeatAnswer, Unreachable> {
        Ok(self.sessions.heard(&beat, true, false))
    }
}

/// Confirms what the ledger holds, for ever: with no scheduler the ledger is the only one to know
/// what is wanted. What was only found running stays as it is.
pub async fn confirm(handle: Handle) {
    loop {
        let unconfirmed = handle.read(|agent, _| {
            let (term, session) = (agent.term(), agent.session()?);
            let intents = agent.intents().iter();
            let open = intents.filter(|(workload, _)| !agent.confirmed(workload));
            let orders =
                open.filter_map(|(workload, held)| held_again(term, session, workload, held));
            Some(orders.collect::<Vec<_>>())
        });
        for order in unconfirmed.await.ok().flatten().unwrap_or_default() {
            let workload = order.workload.clone();
            match handle.command(order).await {
                Ok(answer) => tracing::debug!(%workload, ?answer, "confirmed"),
                Err(error) => tracing::warn!(%workload, %error, "not confirmed"),
            }
        }
        tokio::time::sleep(CONFIRM_EVERY).await;
    }
}
