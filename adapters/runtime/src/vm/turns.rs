//! One verb at a time for each workload: several at once would be as many machines.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use persys_model::id::WorkloadId;
use tokio::sync::OwnedMutexGuard;

type Turn = Arc<tokio::sync::Mutex<()>>;

/// Who is at work on what.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<WorkloadId, Turn>>);

impl Turns {
    /// Waits until nobody else works on this workload.
    pub(super) async fn take(&self, workload: &WorkloadId) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that nobody holds or waits for are forgotten.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(workload.clone()).or_default())
        };
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_and_none_is_kept() {
        let turns = Turns::default();
        let (web, db) = (WorkloadId::fixed("web"), WorkloadId::fixed("db"));
        let held = turns.take(&web).await;
        drop(turns.take(&db).await);
        let second = tokio::time::timeout(Duration::from_secs(1), turns.take(&web)).await;
        assert!(second.is_err(), "somebody is at work");
        drop(held);
        drop(turns.take(&web).await);
        drop(turns.take(&db).await);
        assert_eq!(turns.0.lock().unwrap().len(), 1, "only the last is still there");
    }
}
