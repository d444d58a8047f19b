//! How much one source may ask for over UDP, where a source can be forged.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Answers in full that a source gets in a second. Beyond that it is sent to TCP, which cannot be
/// forged; the answer that says so is no larger than the question.
const IN_FULL: u32 = 1_000;
/// Answers of any kind that a source gets in a second.
const AT_ALL: u32 = 4_000;
/// Sources that are told apart; those that fall together share.
const SOURCES: usize = 1_024;

/// What a source gets now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    Full,
    Short,
    Nothing,
}

/// Counts answers.
#[derive(Debug)]
pub(crate) struct Meter {
    counts: Vec<u32>,
    since: Instant,
    /// Nobody outside knows who shares with whom.
    hasher: RandomState,
}

impl Meter {
    pub(crate) fn new(now: Instant) -> Self {
        Self { counts: vec![0; SOURCES], since: now, hasher: RandomState::new() }
    }

    pub(crate) fn share(&mut self, source: IpAddr, now: Instant) -> Share {
        if now.duration_since(self.since) >= Duration::from_secs(1) {
            self.since = now;
            self.counts.fill(0);
        }
        let hash = self.hasher.hash_one(network(source));
        let at = usize::try_from(hash).unwrap_or_default() % SOURCES;
        let Some(count) = self.counts.get_mut(at) else { return Share::Nothing };
        *count = count.saturating_add(1);
        if *count <= IN_FULL {
            Share::Full
        } else if *count <= AT_ALL {
            Share::Short
        } else {
            Share::Nothing
        }
    }
}

/// Whoever has one IPv6 address has the whole network.
fn network(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_answered_ever_shorter_and_forgotten_after_a_second() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        let source = IpAddr::from([192, 0, 2, 1]);
        let shares: Vec<_> = (0..=AT_ALL).map(|_| meter.share(source, start)).collect();
        let count = |share| shares.iter().filter(|found| **found == share).count();
        assert_eq!(
            (count(Share::Full), count(Share::Short), count(Share::Nothing)),
            (1_000, 3_000, 1)
        );
        assert_eq!(meter.share(source, start + Duration::from_secs(1)), Share::Full);
    }
}
