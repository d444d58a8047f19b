//! The fence around exclusive work, kept twice: by the agent, and by a watchdog that outlives it.
//!
//! The deadline is counted from the moment a message was *sent* that the scheduler then answered
//! with a renewal, so it is never later than what the scheduler counts.
//!
//! The watchdog knows two things only: until when the agent was told that its node may run exclusive work,
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

use crate::decide::Leave;
use crate::settings::AgentSettings;

/// The agent's own side of the fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    deadline: Option<Millis>,
    length_ms: u64,
    margin_ms: u64,
    zoo: Zoo,
}

impl Fence {
    /// A fence without a lease: nothing exclusive may start.
    #[must_use]
    pub fn new(settings: &AgentSettings) -> Self {
        Self {
            deadline: None,
            length_ms: settings.fence_ms,
            margin_ms: settings.start_margin_ms,
            zoo: settings.zoo,
        }
    }

    /// A message sent at `sent` was answered with a renewal. Says whether that moved the deadline;
    /// an answer that was overtaken by a later one does not.
    pub fn renew(&mut self, sent: Millis) -> bool {
        let deadline = Some(sent.plus(self.length_ms));
        let moved = deadline > self.deadline;
        self.deadline = self.deadline.max(deadline);
        moved
    }

    /// An earlier life of the same process had a lease until then; that moment still stands.
    pub fn inherit(&mut self, deadline: Option<Millis>) {
        self.deadline = self.deadline.max(deadline);
    }

    /// When exclusive work must be at rest; `None` when this life never had a lease. What an
    /// earlier life left running is then the watchdog's, who knows the deadline of that life.
    #[must_use]
    pub fn deadline(&self) -> Option<Millis> {
        self.deadline
    }

    /// Whether work may run or start now.
    #[must_use]
    pub fn leave(&self, exclusive: bool, now: Millis) -> Leave {
        if !exclusive || self.zoo.has(Bug::NoFence) {
            return Leave::Free;
        }
        match self.deadline {
            None => Leave::Ending,
            Some(deadline) if now >= deadline => Leave::Over,
            Some(deadline) if now.plus(self.margin_ms) >= deadline => Leave::Ending,
            Some(_) => Leave::Granted,
        }
    }

    /// The last moment at which exclusive work may still be started.
    #[must_use]
    pub fn not_after(&self, exclusive: bool) -> Option<Millis> {
        if !exclusive || self.zoo.has(Bug::NoFence) {
            return None;
        }
        self.deadline.map(|deadline| Millis(deadline.0.saturating_sub(self.margin_ms)))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Now {
        Now::at(ms)
    }

    #[test]
    fn the_deadline_counts_from_sending_and_never_goes_back() {
        let settings =
            AgentSettings { fence_ms: 100, start_margin_ms: 20, ..AgentSettings::default() };
        let mut fence = Fence::new(&settings);
        assert_eq!(fence.leave(true, Millis(0)), Leave::Ending, "no lease, no start");
        assert!(fence.renew(Millis(1_000)));
        assert!(!fence.renew(Millis(900)), "an overtaken answer changes nothing");
        assert_eq!(fence.deadline(), Some(Millis(1_100)));
        assert_eq!(fence.not_after(true), Some(Millis(1_080)));
        let rows = [(1_079, Leave::Granted), (1_080, Leave::Ending), (1_099, Leave::Ending)];
        for (now, leave) in rows {
            assert_eq!(fence.leave(true, Millis(now)), leave, "at {now}");
        }
        assert_eq!(fence.leave(true, Millis(1_100)), Leave::Over);
        assert_eq!(fence.leave(false, Millis(1_100)), Leave::Free);
        let mut next = Fence::new(&settings);
        next.inherit(fence.deadline());
        assert_eq!(next.leave(true, Millis(1_100)), Leave::Over, "another life, the same deadline");
        assert_eq!(fence.not_after(false), None);
    }

    #[test]
    fn a_watchdog_stops_everything_exclusive_past_the_deadline_until_it_is_gone() {
        let db = WorkloadId::fixed("db");
        let mut dog = Watchdog::new(Zoo::NONE);
        let lease = |ms| WatchdogInput::Lease { fence_at: Some(Millis(ms)) };
        assert!(dog.step(WatchdogInput::Tick, at(0)).is_empty(), "nothing runs");
        assert!(dog.step(lease(100), at(1)).is_empty());
        assert!(dog.step(WatchdogInput::Seen(vec![db.clone()]), at(99)).is_empty());
        assert_eq!(dog.step(WatchdogInput::Tick, at(100)), vec![db.clone()]);
        assert_eq!(dog.step(WatchdogInput::Tick, at(150)), vec![db.clone()], "again and again");
        assert!(dog.step(lease(300), at(200)).is_empty(), "a longer lease ends it");
        assert_eq!(dog.step(WatchdogInput::Lease { fence_at: None }, at(201)), vec![db]);
        assert!(dog.step(WatchdogInput::Seen(Vec::new()), at(202)).is_empty());
    }
}
