//! Layers of containers, watched: files are counted for each workload that reserves disk for them, one
//! after the other and seldom. The core decides what follows.

use std::time::Duration;

use crate::handle::Handle;
use crate::runtimes::Runtimes;

/// Pause between two rounds, and between two workloads of one round.
const EVERY: Duration = Duration::from_secs(30);
const BETWEEN: Duration = Duration::from_millis(200);

/// Watches for ever.
pub(crate) async fn watch(runtimes: Runtimes, handle: Handle) {
    loop {
        tokio::time::sleep(EVERY).await;
        look(&runtimes, &handle).await;
    }
}

async fn look(runtimes: &Runtimes, handle: &Handle) {
    let limits = handle.read(|agent, _| agent.layer_limits()).await.unwrap_or_default();
    for (workload, limit) in limits {
        if let Some(bytes) = runtimes.layer_bytes(&workload).await {
            handle.wrote(workload, bytes, limit);
        }
        tokio::time::sleep(BETWEEN).await;
    }
}
