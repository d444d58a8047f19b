//! Health of what runs, as its checks say.
//!
//! ```text
//!   started ──► Starting ── a check passes ──► Healthy ◄──────────────┐
//!                  │                              │ `retries` failures in a row
//!                  │ the start period is over,    ▼                   │ a check passes
//!                  └─ `retries` failures ────► Unhealthy ─────────────┘
//! ```
//!
//! Health stands beside the phase: what is unhealthy runs. Workloads without a check have no health.

use std::sync::Arc;

use crate::failure::clip;
use crate::time::WallMillis;
use crate::token::Epoch;

/// Verdict of the checks of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The verdict.
    pub state: HealthState,
    /// The last failed check, with its output; empty unless unhealthy.
    pub detail: Arc<str>,
}

/// Verdict of the checks of a workload, as a word. There is one word for each on the wire, in lists,
/// explanations, events, metrics, the dashboard and the manuals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HealthState {
    /// No check has passed since it was started, and it still has time.
    Starting,
    /// The last check passed, or too few in a row have failed since.
    Healthy,
    /// Several checks in a row failed.
    Unhealthy,
}

impl HealthState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Starting, Self::Healthy, Self::Unhealthy];

    /// The word on the wire and in metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Starting => "Starting",
            Self::Healthy => "Healthy",
            Self::Unhealthy => "Unhealthy",
        }
    }

    /// The same for people, as it stands beside a status.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
        }
    }
}

impl Health {
    /// Most bytes of a failed check that are kept.
    pub const DETAIL_LIMIT: usize = 512;
    /// No verdict yet.
    #[must_use]
    pub fn starting() -> Self {
        Self { state: HealthState::Starting, detail: Arc::from("") }
    }

    /// A check passed.
    #[must_use]
    pub fn healthy() -> Self {
        Self { state: HealthState::Healthy, detail: Arc::from("") }
    }

    /// Several checks in a row failed; `detail` tells of the last one.
    #[must_use]
    pub fn unhealthy(detail: &str) -> Self {
        let detail = Arc::from(clip(detail, Self::DETAIL_LIMIT));
        Self { state: HealthState::Unhealthy, detail }
    }

    /// The worse of the two: a stack is as healthy as its worst service.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        match (self.state, other.state) {
            (HealthState::Unhealthy, _) => self,
            (_, HealthState::Unhealthy) => other,
            (HealthState::Starting, _) => self,
            (HealthState::Healthy, _) => other,
        }
    }
}

/// The health of a workload as the scheduler stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthRecord {
    /// The verdict.
    pub health: Health,
    /// Time of the last change of the verdict.
    pub since: WallMillis,
    /// The decision under which it was told.
    pub epoch: Epoch,
    /// Restarts under that decision at the time: after another one a verdict begins anew.
    pub restarts: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_as_healthy_as_its_worst_service() {
        let (good, new) = (Health::healthy(), Health::starting());
        let bad = Health::unhealthy("db: exit code 1");
        assert_eq!(good.clone().worse(new.clone()), new);
        assert_eq!(new.clone().worse(good.clone()), new);
        assert_eq!(new.clone().worse(bad.clone()), bad);
        assert_eq!(bad.clone().worse(Health::unhealthy("other")), bad, "the first is told");
        assert_eq!(good.clone().worse(good.clone()), good);
    }
}
