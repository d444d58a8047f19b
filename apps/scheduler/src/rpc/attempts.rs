//! Those who try tokens that are none: after a few, a source is not listened to for a while.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use persys_model::time::Millis;

/// So many bad tokens from one address within [`WINDOW_MS`].
const MOST_BAD: u32 = 20;
const WINDOW_MS: u64 = 60_000;
/// So many addresses are remembered; beyond that the oldest are forgotten.
const MOST_SOURCES: usize = 4096;

/// Bad tokens by their source.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<Sources>);

#[derive(Debug, Default)]
struct Sources {
    by_address: BTreeMap<IpAddr, (Millis, u32)>,
    /// When those were last taken out whose time is over.
    swept: Millis,
}

impl Attempts {
    /// Whether a source has tried too often lately.
    pub(super) fn too_many(&self, source: IpAddr, now: Millis) -> bool {
        let sources = self.sources();
        sources
            .by_address
            .get(&source)
            .is_some_and(|(since, bad)| now.since(*since) < WINDOW_MS && *bad >= MOST_BAD)
    }

    /// A source has tried a token that is none.
    pub(super) fn bad(&self, source: IpAddr, now: Millis) {
        let mut sources = self.sources();
        let Sources { by_address, swept } = &mut *sources;
        if by_address.len() >= MOST_SOURCES && !by_address.contains_key(&source) {
            // Not with every one of them: that would make a flood dear.
            if now.since(*swept) >= WINDOW_MS {
                by_address.retain(|_, (since, _)| now.since(*since) < WINDOW_MS);
                *swept = now;
            }
            if by_address.len() >= MOST_SOURCES {
                by_address.pop_first();
            }
        }
        let (since, bad) = by_address.entry(source).or_insert((now, 0));
        if now.since(*since) >= WINDOW_MS {
            (*since, *bad) = (now, 0);
        }
        *bad = bad.saturating_add(1);
    }

    fn sources(&self) -> MutexGuard<'_, Sources> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_tries_too_often_waits_and_others_do_not() {
        let attempts = Attempts::default();
        let (bad, good): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        for at in 0..u64::from(MOST_BAD) {
            assert!(!attempts.too_many(bad, Millis(at)));
            attempts.bad(bad, Millis(at));
        }
        assert!(attempts.too_many(bad, Millis(100)) && !attempts.too_many(good, Millis(100)));
        assert!(!attempts.too_many(bad, Millis(WINDOW_MS + 1)));
        for last in 0..=u16::MAX {
            let [high, low] = last.to_be_bytes();
            attempts.bad([10, 1, high, low].into(), Millis(200));
        }
        assert!(attempts.sources().by_address.len() <= MOST_SOURCES);
    }
}
