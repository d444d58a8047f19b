//! Whether this process leads, and what it may do at present: for probes and dashboards.

use std::sync::Arc;

use persys_cluster::world::World;
use persys_model::mode::Mode;
use persys_model::time::WallMillis;

/// How a scheduler process stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its mode; `None` while it does not lead.
    pub mode: Option<Mode>,
    /// Why.
    pub why: Arc<str>,
    /// Since when.
    pub since: WallMillis,
}

/// What is said of a process that does not lead.
const NOT_LEADING: &str = "this scheduler does not lead at present";

impl Standing {
    pub(crate) fn new(now: WallMillis) -> Self {
        Self { mode: None, why: Arc::from(NOT_LEADING), since: now }
    }

    /// Whether requests are served in full.
    #[must_use]
    pub fn is_normal(&self) -> bool {
        self.mode == Some(Mode::Normal)
    }

    /// The word for it in `/health`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.mode.map_or("standby", Mode::word)
    }

    /// Takes over how it is now. Says whether anything changed.
    pub(crate) fn follow(
        &mut self,
        world: Option<&World>,
        trouble: Option<&str>,
        now: WallMillis,
    ) -> bool {
        let found = world.map(World::mode);
        let mode = found.map(|(mode, _)| mode);
        let why = match (found, trouble) {
            (Some((_, why)), _) => why.to_owned(),
            (None, Some(trouble)) => format!("{NOT_LEADING}: {trouble}"),
            (None, None) => NOT_LEADING.to_owned(),
        };
        if mode == self.mode && *why == *self.why {
            return false;
        }
        if mode != self.mode {
            self.since = now;
        }
        self.mode = mode;
        self.why = Arc::from(why);
        true
    }
}
