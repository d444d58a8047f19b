//! The lease of a scheduler that knows no sessions: once it has ended, the node registers again.
//!
//! ```text
//!   accepted ──► runs ──answer in time──► runs (renewed)
//!                  └────answer too late──► ended: register again
//! ```
//!
//! Such a scheduler names the end by its own clock. Only the length of the lease is taken from it, held
//! between bounds in heartbeats, so that clocks that differ neither hide an end nor make one up.
//! Schedulers of ours say themselves when a session is over, and have no part in this.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use persys_model::time::WallMillis;
use tokio::time::Instant;

/// Bounds of a lease, and its length where none is named; in intervals of heartbeats.
const SHORTEST: u32 = 2;
const LONGEST: u32 = 10;
const USUAL: u32 = 3;

/// The present lease, if there is one.
#[derive(Debug, Default)]
pub(super) struct Lease(Mutex<Option<Running>>);

#[derive(Debug, Clone, Copy)]
struct Running {
    beat: Duration,
    until: Instant,
}

/// The end of a lease as the scheduler names it, and the date here when it was heard.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named {
    pub(super) ends: Option<WallMillis>,
    pub(super) heard: WallMillis,
}

impl Named {
    fn length(self, beat: Duration) -> Duration {
        let told = self.ends.and_then(|ends| ends.0.checked_sub(self.heard.0));
        let told = told.map_or(beat * USUAL, Duration::from_millis);
        told.clamp(beat * SHORTEST, beat * LONGEST)
    }
}

impl Lease {
    /// A registration was accepted.
    pub(super) fn begin(&self, beat_ms: u64, named: Named, now: Instant) {
        let beat = Duration::from_millis(beat_ms);
        self.set(Some(Running { beat, until: now + named.length(beat) }));
    }

    /// Another kind of scheduler answers, or the node is to register again.
    pub(super) fn end(&self) {
        self.set(None);
    }

    /// A heartbeat was acknowledged. True if the lease goes on; false if it had ended before.
    pub(super) fn renew(&self, named: Named, now: Instant) -> bool {
        let mut lease = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *lease {
            Some(running) if running.until >= now => {
                running.until = now + named.length(running.beat);
                true
            }
            Some(_) => {
                *lease = None;
                false
            }
            None => true,
        }
    }

    fn set(&self, lease: Option<Running>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = lease;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: WallMillis = WallMillis(1_000_000);

    fn in_seconds(seconds: u64) -> Named {
        Named { ends: Some(WallMillis(HERE.0 + seconds * 1000)), heard: HERE }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_ended_between_two_answers_is_over_once() {
        let (lease, begun) = (Lease::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        lease.begin(1000, in_seconds(5), at(0));
        assert!(lease.renew(in_seconds(5), at(4)) && lease.renew(in_seconds(5), at(9)));
        assert!(!lease.renew(in_seconds(5), at(24)), "it was away for 15 s");
        assert!(lease.renew(in_seconds(5), at(25)), "and is registered with anew");
    }

    #[tokio::test(start_paused = true)]
    async fn clocks_that_differ_change_little() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let behind = Named { ends: Some(WallMillis(1)), heard: HERE };
        let unnamed = Named { ends: None, heard: HERE };
        for (named, good, late) in
            [(behind, 6, 7), (unnamed, 6, 7), (in_seconds(1), 4, 5), (in_seconds(3600), 20, 21)]
        {
            let lease = Lease::default();
            lease.begin(2000, named, at(0));
            assert!(lease.renew(named, at(good)), "{named:?}");
            lease.begin(2000, named, at(0));
            assert!(!lease.renew(named, at(late)), "{named:?}");
        }
    }
}
