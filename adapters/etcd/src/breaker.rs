//! Stops asking an etcd that does not answer, and finds out by one call at a time when it does again.
//!
//! ```text
//!   Closed ── several failures in a row ──► Open ── its time is over ──► Probing ── failed ──► Open
//!      ▲                                                                    │
//!      └───────────────────────────── went well ───────────────────────────┘
//! ```

use std::time::Duration;

use tokio::time::Instant;

/// So many failures in a row open the circuit.
const FAILURES: u32 = 3;
/// How long it stays open.
const REST: Duration = Duration::from_millis(500);
/// A probe of which nothing is heard for so long does not keep others from trying.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether calls may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Breaker {
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant },
    Probing { since: Instant },
}

impl Default for State {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl Breaker {
    /// Whether a call may be made now.
    pub(crate) fn enter(&mut self, now: Instant) -> bool {
        match self.state {
            State::Closed { .. } => return true,
            State::Open { until } if now < until => return false,
            State::Probing { since } if now < since + PATIENCE => return false,
            State::Open { .. } | State::Probing { .. } => {}
        }
        self.state = State::Probing { since: now };
        true
    }

    /// A call ended: well, or with trouble on the way.
    pub(crate) fn leave(&mut self, well: bool, now: Instant) {
        self.state = match self.state {
            _ if well => State::default(),
            State::Closed { failures } if failures + 1 < FAILURES => {
                State::Closed { failures: failures + 1 }
            }
            State::Closed { .. } | State::Open { .. } | State::Probing { .. } => {
                State::Open { until: now + REST }
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_probes_and_closes() {
        let (mut breaker, mut now) = (Breaker::default(), Instant::now());
        for _ in 0..FAILURES {
            assert!(breaker.enter(now));
            breaker.leave(false, now);
        }
        assert!(!breaker.enter(now), "open");
        now += REST;
        assert!(breaker.enter(now), "one probe");
        assert!(!breaker.enter(now), "and no second");
        breaker.leave(false, now);
        assert!(!breaker.enter(now), "open again");
        now += REST;
        assert!(breaker.enter(now));
        breaker.leave(true, now);
        assert!(breaker.enter(now) && breaker.enter(now), "closed");
    }

    #[test]
    fn a_success_between_keeps_it_closed_and_a_lost_probe_does_not_last() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..10 {
            breaker.leave(false, now);
            breaker.leave(false, now);
            breaker.leave(true, now);
        }
        assert!(breaker.enter(now));
        for _ in 0..FAILURES {
            breaker.leave(false, now);
        }
        assert!(breaker.enter(now + REST));
        assert!(!breaker.enter(now + REST + PATIENCE / 2));
        assert!(breaker.enter(now + REST + PATIENCE));
    }
}
