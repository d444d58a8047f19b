//! What each machine believes the time is.
//!
//! Virtual time is the truth only the checker knows. A machine's own clock starts when it boots,
//! runs up to a tenth too fast or too slow, and its wall clock may jump.

use persys_model::time::{Millis, Now, WallMillis};

/// The clock of one machine.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    /// The virtual moment at which the monotonic clock read `start`.
    booted: u64,
    /// What it read then.
    start: u64,
    /// Own milliseconds per virtual second.
    rate: u64,
    /// How far the wall clock is ahead, modulo jumps.
    wall: u64,
}

impl Clock {
    /// The slowest and the fastest clock, in own milliseconds per virtual second.
    pub(crate) const RATES: (u64, u64) = (900, 1100);

    /// A clock that read `start` at the virtual moment 0.
    pub(crate) fn new(start: u64, rate: u64, wall: u64) -> Self {
        Self { booted: 0, start, rate: rate.max(1), wall }
    }

    /// What a process on this machine is told at the virtual moment `at`.
    pub(crate) fn now(&self, at: u64) -> Now {
        let mono = self.start + at.saturating_sub(self.booted) * self.rate / 1000;
        Now { mono: Millis(mono), wall: WallMillis(self.wall.saturating_add(at)) }
    }

    /// The first virtual moment at which this clock reads `own` or more.
    pub(crate) fn when(&self, own: Millis) -> u64 {
        let ahead = own.0.saturating_sub(self.start);
        self.booted.saturating_add(ahead.saturating_mul(1000).div_ceil(self.rate))
    }

    /// The machine was switched on again: its monotonic clock starts anew.
    pub(crate) fn reboot(&mut self, at: u64, start: u64) {
        self.booted = at;
        self.start = start;
    }

    /// The wall clock is set to another time; nothing may depend on it.
    pub(crate) fn jump(&mut self, wall: u64) {
        self.wall = wall;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_met_at_the_first_moment_it_has_passed() {
        for rate in [900, 1000, 1037, 1100] {
            let clock = Clock::new(123, rate, 0);
            for own in [123, 124, 500, 12_345] {
                let at = clock.when(Millis(own));
                assert!(clock.now(at).mono >= Millis(own), "rate {rate}, own {own}");
                assert!(at == 0 || clock.now(at - 1).mono < Millis(own), "rate {rate}, own {own}");
            }
        }
    }

    #[test]
    fn a_jump_of_the_wall_clock_leaves_the_other_alone() {
        let mut clock = Clock::new(0, 1000, 50);
        let before = clock.now(1000);
        clock.jump(999_999);
        let after = clock.now(1000);
        assert_eq!(before.mono, after.mono);
        assert_ne!(before.wall, after.wall);
    }
}
