//! Signs that a verb goes on, such as parts of an image that arrive. They reach the agent core now
//! and then, so that a long pull is told from one that stands still without filling heartbeats.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use persys_model::id::WorkloadId;
use persys_runtime::runtime::Fetched;
use tokio::sync::mpsc;

/// Shortest time between two signs about one workload.
const BETWEEN: Duration = Duration::from_secs(2);
/// Signs that may wait for the driver; more are left out.
const MOST_WAITING: usize = 64;

/// Passes signs of progress on to the driver.
#[derive(Debug, Clone)]
pub(crate) struct ProgressReports {
    to: mpsc::Sender<(WorkloadId, Fetched)>,
    last: Arc<Mutex<BTreeMap<WorkloadId, (Instant, Fetched)>>>,
}

impl ProgressReports {
    /// The reports, and where the driver hears of them.
    pub(crate) fn new() -> (Self, mpsc::Receiver<(WorkloadId, Fetched)>) {
        let (to, from) = mpsc::channel(MOST_WAITING);
        (Self { to, last: Arc::default() }, from)
    }

    /// So much is there of what `workload` needs. The same amount twice is no progress.
    pub(crate) fn moved(&self, workload: &WorkloadId, fetched: Fetched) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let moved = last.get(workload).is_none_or(|(at, before)| {
            *before != fetched && now.saturating_duration_since(*at) >= BETWEEN
        });
        if moved && self.to.try_send((workload.clone(), fetched)).is_ok() {
            last.insert(workload.clone(), (now, fetched));
        }
    }

    /// Nothing goes on for `workload` any more.
    pub(crate) fn ended(&self, workload: &WorkloadId) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).remove(workload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_amount_is_no_progress_and_signs_are_few() {
        let (reports, mut heard) = ProgressReports::new();
        let web = WorkloadId::new("web").unwrap();
        let fetched = |bytes| Fetched { bytes, ..Fetched::default() };
        reports.moved(&web, fetched(1));
        reports.moved(&web, fetched(1));
        reports.moved(&web, fetched(2));
        assert_eq!(heard.try_recv().ok(), Some((web.clone(), fetched(1))));
        assert!(heard.try_recv().is_err(), "too soon after the first");
        reports.ended(&web);
        reports.moved(&web, fetched(2));
        assert_eq!(heard.try_recv().ok(), Some((web, fetched(2))));
    }
}
