//! What follows from a request after it was answered: an order to an agent, a container that starts,
//! a report. The trail of the request is kept until what was asked for is reached.
//!
//! It is kept in this process alone. What happens to a workload after a restart, or long after anybody
//! asked, begins a trace of its own, and the name of the workload ties them together.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use persys_model::id::WorkloadId;

use super::trail::Trail;

/// Most that are kept; the room is that of a burst, and what finds none begins a trace of its own.
const MOST: usize = 32 * 1024;
/// How long one is kept when what was asked for is never reached.
const LONGEST: Duration = Duration::from_mins(15);

/// The trails of requests, by what they were about.
#[derive(Debug, Default)]
pub struct Trails {
    home: OnceLock<Trail>,
    kept: Mutex<HashMap<WorkloadId, (Trail, Instant)>>,
}

impl Trails {
    /// Where this process writes down. It is said once, before anything is kept.
    pub fn settle(&self, home: &Trail) {
        // The first word counts.
        drop(self.home.set(home.afresh()));
    }

    /// Whether anything is written down.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.home.get().is_some_and(Trail::is_on)
    }

    /// Where what is told of in some other way than a request begins.
    #[must_use]
    pub fn home(&self) -> Trail {
        self.home.get().cloned().unwrap_or_default()
    }

    /// Keeps the trail of what was asked of a workload, in place of an earlier one.
    pub fn keep(&self, workload: &WorkloadId, trail: Trail) {
        if !self.is_on() || !trail.is_on() {
            return;
        }
        let mut kept = self.lock();
        if kept.len() >= MOST {
            kept.retain(|_, (_, since)| since.elapsed() < LONGEST);
        }
        if kept.len() < MOST || kept.contains_key(workload) {
            kept.insert(workload.clone(), (trail, Instant::now()));
        }
    }

    /// The trail of what is done to a workload: that of the request, or a fresh one.
    #[must_use]
    pub fn of(&self, workload: &WorkloadId) -> Trail {
        let Some(home) = self.home.get().filter(|home| home.is_on()) else {
            return Trail::default();
        };
        let kept = self.lock();
        let known = kept.get(workload).filter(|(_, since)| since.elapsed() < LONGEST);
        known.map_or_else(|| home.clone(), |(trail, _)| trail.clone())
    }

    /// What was asked for is reached: its trail, and since when it was kept.
    pub fn reached(&self, workload: &WorkloadId) -> Option<(Trail, Duration)> {
        if !self.is_on() {
            return None;
        }
        let (trail, since) = self.lock().remove(workload)?;
        Some((trail, since.elapsed()))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WorkloadId, (Trail, Instant)>> {
        // A map is never half changed.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
