//! How often one source may be wrong.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many refusals one source may collect in [`WINDOW`].
pub(crate) const MOST_REFUSALS: usize = 5;
/// How long a refusal counts.
pub(crate) const WINDOW: Duration = Duration::from_mins(1);
/// Most sources that are remembered; beyond that the oldest are forgotten first.
const MOST_SOURCES: usize = 4096;

/// Refusals by source. Whoever is right is never held up.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<BTreeMap<IpAddr, Vec<Instant>>>);

impl Refusals {
    /// Whether a source has to wait.
    pub(crate) fn exceeded(&self, source: IpAddr, now: Instant) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(times) = all.get_mut(&source) else { return false };
        times.retain(|time| now.duration_since(*time) < WINDOW);
        times.len() >= MOST_REFUSALS
    }

    /// Counts a refusal.
    pub(crate) fn count(&self, source: IpAddr, now: Instant) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST_SOURCES && !all.contains_key(&source) {
            all.retain(|_, times| times.iter().any(|time| now.duration_since(*time) < WINDOW));
            let oldest = all.iter().min_by_key(|(_, times)| times.last().copied());
            if let Some(oldest) = oldest.map(|(source, _)| *source)
                && all.len() >= MOST_SOURCES
            {
                all.remove(&oldest);
            }
        }
        all.entry(source).or_default().push(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_guesses_waits_and_others_do_not() {
        let refusals = Refusals::default();
        let (one, two) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let now = Instant::now();
        for _ in 0..MOST_REFUSALS {
            assert!(!refusals.exceeded(one, now));
            refusals.count(one, now);
        }
        assert!(refusals.exceeded(one, now) && !refusals.exceeded(two, now));
        assert!(!refusals.exceeded(one, now + WINDOW));
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered() {
        let refusals = Refusals::default();
        let now = Instant::now();
        for number in 0..4_300_u32 {
            refusals.count(IpAddr::from(number.to_be_bytes()), now);
        }
        assert!(refusals.0.lock().unwrap().len() <= MOST_SOURCES);
    }
}
