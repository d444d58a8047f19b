//! The clocks of the host, read in one place.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use persys_model::time::{Millis, Now, WallMillis};

/// Tells the moment a step happens at.
pub trait Clock: Send + Sync {
    /// The moment.
    fn now(&self) -> Now;
}

/// The host's own clocks.
#[derive(Debug)]
pub struct HostClock {
    start: Instant,
}

impl HostClock {
    /// A clock that begins now; its milliseconds mean nothing to anybody else.
    #[must_use]
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for HostClock {
    fn now(&self) -> Now {
        let mono = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        // A little head start, so that "never" and "at the start" differ.
        Now {
            mono: Millis(mono.saturating_add(1_000)),
            wall: WallMillis(u64::try_from(wall).unwrap_or(u64::MAX)),
        }
    }
}
