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
