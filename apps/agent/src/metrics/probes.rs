//! Health checks, counted.

use std::time::Duration;

use persys_node::input::ProbeOutcome;

use super::Metrics;

impl Metrics {
    /// A health check was run.
    pub(crate) fn probed(&self, outcome: &ProbeOutcome, took: Duration) {
        let outcome = match outcome {
            ProbeOutcome::Passed => "completed",
            ProbeOutcome::Failed(_) | ProbeOutcome::Unknown => "failed",
        };
        self.work.operations.took(["probe", outcome], took);
    }
}
