//! The watchdog: stops exclusive work whose lease ran out, whether or not the agent still lives.
//!
//! It knows two things only: until when the agent was told that its node may run exclusive work,
//! and which exclusive work runs. Past the deadline it names all of it, again and again, until it
//! is told that nothing runs any more or that the lease is longer.
//!
//! ```text
//!   agent ── lease file: fence_at ──► watchdog ── stop ──► runtime
//!   (may die, hang, be upgraded)       (a process of its own)
//! ```
//!
//! Invariant: no lease, no exclusive work. A watchdog that was never told a deadline stops
//! everything exclusive it sees; the shell therefore writes the lease before it runs the verbs of
//! the same step.

use persys_model::id::WorkloadId;
use persys_model::time::{Millis, Now};
use persys_model::zoo::{Bug, Zoo};

/// One thing that happens to a watchdog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchdogInput {
    /// The lease file says this; `None` when there is no such file.
    Lease {
        /// When exclusive work must be at rest.
        fence_at: Option<Millis>,
    },
    /// The exclusive work that runs at present.
    Seen(Vec<WorkloadId>),
    /// Time passed.
    Tick,
}

/// The watchdog of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watchdog {
    fence_at: Option<Millis>,
    running: Vec<WorkloadId>,
    zoo: Zoo,
}

impl Watchdog {
    /// A watchdog that knows nothing yet.
    #[must_use]
    pub fn new(zoo: Zoo) -> Self {
        Self { fence_at: None, running: Vec::new(), zoo }
    }

    /// Takes in what happened and says what must be stopped now.
    pub fn step(&mut self, input: WatchdogInput, now: Now) -> Vec<WorkloadId> {
        match input {
            WatchdogInput::Lease { fence_at } => self.fence_at = fence_at,
            WatchdogInput::Seen(running) => self.running = running,
            WatchdogInput::Tick => {}
        }
        let valid = self.fence_at.is_some_and(|deadline| now.mono < deadline);
        if valid || self.zoo.has(Bug::NoFence) { Vec::new() } else { self.running.clone() }
    }

    /// The moment after which it must step again even if nothing happens.
    #[must_use]
    pub fn wake_at(&self) -> Option<Millis> {
        self.fence_at
    }
}
