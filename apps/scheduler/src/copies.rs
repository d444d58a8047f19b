//! What a process that does not lead reads from: its own copy of the cluster.
//!
//! A copy is read when somebody wants to look and the one at hand is old, never otherwise: a process
//! that nobody asks reads nothing. Everybody who asks meanwhile waits for the same reading. However
//! large the cluster is, a tenth of the time at most goes into reading it; and when the store does not
//! answer, the old copy is served, which says how old it is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use persys_cluster::settings::Settings;
use persys_cluster::world::{ReadCopy, World};
use persys_model::time::{Millis, Now};
use persys_store::Store;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::clock::Clock;
use crate::handle::Known;

/// A copy this old is read anew before it is served, if that is not too soon.
const FRESH_MS: u64 = 2_000;
/// So many times as long as the last reading took, nothing is read again.
const REST_TIMES: u64 = 10;
/// How long one who has an old copy waits for a new one.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long one waits who has none.
const FIRST_PATIENCE: Duration = Duration::from_secs(8);
/// Longest reading.
const READING: Duration = Duration::from_secs(30);

/// The copy at hand, and how it is renewed.
pub(crate) struct Copies {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    state: Mutex<State>,
    /// Counts readings that ended, well or not.
    ended: watch::Sender<u64>,
    /// Where the records of a copy go that requests are judged by.
    entries: watch::Sender<Known>,
}

#[derive(Default)]
struct State {
    copy: Option<Arc<ReadCopy>>,
    reading: bool,
    /// Not before this is the store read again.
    rest_until: Millis,
}

impl std::fmt::Debug for Copies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copies").finish_non_exhaustive()
    }
}

impl Copies {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: Settings,
        entries: watch::Sender<Known>,
    ) -> Self {
        let (state, ended) = (Mutex::default(), watch::Sender::new(0));
        Self { store, clock, settings, state, ended, entries }
    }

    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }

    /// How old the copy at hand is, in milliseconds.
    pub(crate) fn age(&self) -> Option<u64> {
        let read_at = self.state().copy.as_ref()?.read_at();
        Some(self.now().mono.since(read_at))
    }

    /// The copy at hand, however old; nothing is read for it.
    pub(crate) fn at_hand(&self) -> Option<Arc<ReadCopy>> {
        self.state().copy.clone()
    }

    /// Whether there is a copy that was read after this moment.
    pub(crate) fn is_after(&self, moment: Millis) -> bool {
        self.state().copy.as_ref().is_some_and(|copy| copy.read_at() > moment)
    }

    /// Forgets the copy: whoever leads knows better.
    pub(crate) fn forget(&self) {
        self.state().copy = None;
    }

    /// A copy as fresh as can be had without asking too much of the store; none when the store has
    /// never answered.
    pub(crate) async fn get(self: &Arc<Self>) -> Option<Arc<ReadCopy>> {
        let mut ended = self.ended.subscribe();
        let (copy, reading) = self.renew();
        if !reading {
            return copy;
        }
        let patience = if copy.is_some() { PATIENCE } else { FIRST_PATIENCE };
        // Whether it ended or not, what is at hand then is the best there is.
        drop(timeout(patience, ended.changed()).await);
        self.state().copy.clone()
    }

    /// Begins to read if the copy is old and that is not too soon. Says whether a reading is worth
    /// waiting for.
    pub(crate) fn renew(self: &Arc<Self>) -> (Option<Arc<ReadCopy>>, bool) {
        let now = self.now();
        let mut state = self.state();
        let copy = state.copy.clone();
        let fresh = copy.as_ref().is_some_and(|copy| now.mono.since(copy.read_at()) < FRESH_MS);
        if fresh {
            return (copy, false);
        }
        if !state.reading && now.mono >= state.rest_until {
            state.reading = true;
            tokio::spawn(Arc::clone(self).read(now));
        }
        (copy, state.reading)
    }

    async fn read(self: Arc<Self>, asked_at: Now) {
        let found = timeout(READING, self.store.peek()).await;
        let copy = match found {
            Ok(Ok(loaded)) => {
                let settings = self.settings.clone();
                let build = move || World::copy_of(settings, loaded.snapshot, asked_at);
                // It takes a while to put a hundred thousand workloads in order.
                tokio::task::spawn_blocking(build).await.ok()
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "the store cannot be read; an old copy is served");
                None
            }
            Err(_) => None,
        };
        let took = self.now().mono.since(asked_at.mono);
        let mut state = self.state();
        state.reading = false;
        let rest = if copy.is_some() { FRESH_MS.max(took.saturating_mul(REST_TIMES)) } else { 200 };
        state.rest_until = asked_at.mono.plus(rest);
        if let Some(copy) = copy {
            let read = Arc::clone(copy.world().entries());
            // Whoever leads by now knows better.
            self.entries.send_if_modified(|known| {
                let news = !known.leading && known.entries != read;
                if news {
                    known.entries = read;
                }
                news
            });
            state.copy = Some(Arc::new(copy));
        }
        drop(state);
        self.ended.send_modify(|ended| *ended = ended.wrapping_add(1));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
