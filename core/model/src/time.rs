//! Time as an argument.

/// Milliseconds on the receiver's own clock, which never goes back and counts suspend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub u64);

impl Millis {
    /// Later by `ms`; stays at the end of time rather than wrapping.
    #[must_use]
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// How long after `earlier` this is; zero when it is not after.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Milliseconds since 1970 as the host believes. Shown to people, never decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WallMillis(pub u64);

impl WallMillis {
    /// The moment in UTC, as RFC 3339 has it. Days are counted as in the proleptic Gregorian calendar,
    /// from a March 1st so that leap days come last.
    #[must_use]
    pub fn rfc3339(self) -> String {
        let (seconds, ms) = (self.0 / 1000, self.0 % 1000);
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        let shifted = days.saturating_add(719_468);
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        let (hour, minute, second) = (second / 3_600, second % 3_600 / 60, second % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

/// The moment a step happens at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// What every deadline is measured in.
    pub mono: Millis,
    /// What is written beside a record for people to read.
    pub wall: WallMillis,
}

impl Now {
    /// A moment at which both clocks read the same; handy where only one matters.
    #[must_use]
    pub fn at(ms: u64) -> Self {
        Self { mono: Millis(ms), wall: WallMillis(ms) }
    }
}
