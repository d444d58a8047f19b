//! The clock that deadlines of exclusive work are measured on.

use std::sync::Arc;

use persys_model::time::Millis;
use rustix::time::{ClockId, clock_gettime};

/// Tells the moment a start must be judged by. It has to be the clock the agent core is stepped
/// with, or `not_after` means nothing.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Millis + Send + Sync>);

impl Clock {
    /// A clock that asks `now`.
    pub fn new(now: impl Fn() -> Millis + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Milliseconds since the machine started. It counts suspend: a lease that ran out while the
    /// machine slept has run out.
    #[must_use]
    pub fn since_boot() -> Self {
        Self::new(|| {
            let time = clock_gettime(ClockId::Boottime);
            let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
            let millis = u64::try_from(time.tv_nsec).unwrap_or_default() / 1_000_000;
            Millis(seconds.saturating_mul(1000).saturating_add(millis))
        })
    }

    /// The moment.
    #[must_use]
    pub fn now(&self) -> Millis {
        (self.0)()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Clock({})", self.now().0)
    }
}
