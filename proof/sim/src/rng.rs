//! Chance, one stream per concern: a draw more in one never reshuffles another.

/// What a stream of chance is used for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Concern {
    /// Sizes, timers and the mix of faults of a seed.
    Setup = 1,
    /// Loss, delay, duplication.
    Network = 2,
    /// Which fault, where and when.
    Nemesis = 3,
    /// What users ask for.
    Users = 4,
    /// Clock rates, restart delays, durations of disk writes.
    Timing = 5,
    /// Latency and failures of the store.
    Store = 6,
    /// How runtime verbs go.
    Runtime = 7,
}

/// One stream (`SplitMix64`: tiny, fast, and good enough to choose faults with).
#[derive(Debug, Clone)]
pub(crate) struct Rng {
    state: u64,
}

impl Rng {
    /// The stream of `concern` under `seed`.
    pub(crate) fn new(seed: u64, concern: Concern) -> Self {
        #[expect(clippy::as_conversions, reason = "the discriminant of a small enum")]
        let salt = concern as u64;
        let mut rng = Self { state: seed ^ salt.wrapping_mul(0xa076_1d64_78bd_642f) };
        // Neighbouring seeds start from neighbouring states; a few draws part them.
        for _ in 0..3 {
            rng.next();
        }
        rng
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `end`; 0 when `end` is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        let drawn = self.next();
        drawn.checked_rem(end).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// Whether something of probability `per_mille` happens.
    pub(crate) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// An index below `len`; 0 when there is nothing to choose from.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        let end = u64::try_from(len).unwrap_or(u64::MAX);
        usize::try_from(self.below(end)).unwrap_or(0)
    }

    /// One of `choices`.
    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        let at = self.index(choices.len());
        choices.get(at)
    }

    /// A waiting time around `mean`, often shorter and sometimes several times longer.
    pub(crate) fn gap(&mut self, mean: u64) -> u64 {
        let quarter = mean / 4;
        match self.below(10) {
            0..=5 => self.between(quarter, mean),
            6..=8 => self.between(mean, mean.saturating_mul(2)),
            _ => self.between(mean, mean.saturating_mul(5)),
        }
    }
}

/// Spreads the bits of `x` over the whole word.
pub(crate) fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_are_independent_and_repeatable() {
        let draw = |seed, concern| {
            let mut rng = Rng::new(seed, concern);
            [rng.next(), rng.next(), rng.next()]
        };
        assert_eq!(draw(7, Concern::Network), draw(7, Concern::Network));
        assert_ne!(draw(7, Concern::Network), draw(7, Concern::Store));
        assert_ne!(draw(7, Concern::Network), draw(8, Concern::Network));
    }

    #[test]
    fn ranges_include_both_ends_and_nothing_else() {
        let mut rng = Rng::new(1, Concern::Setup);
        let mut seen = [false; 4];
        for _ in 0..200 {
            let drawn = rng.between(3, 6);
            seen[usize::try_from(drawn - 3).unwrap()] = true;
        }
        assert_eq!(seen, [true; 4]);
        assert_eq!(rng.below(0), 0);
    }
}
