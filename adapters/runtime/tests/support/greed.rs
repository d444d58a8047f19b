//! Workloads that try to have more than they were given, and how it is seen that they do not get it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use persys_model::id::WorkloadId;
use persys_model::resources::Compute;
use persys_runtime::inside::LogRange;
use persys_runtime::{Logs, Start, Usage};

/// Over which stretch processor time is counted.
const STRETCH: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_mins(1);

/// Keeps four processors busy.
pub(crate) const SPINS: &str = "for n in 1 2 3 4; do while :; do :; done & done; wait";
/// Starts processes until it is not allowed to, says so, and goes on.
pub(crate) const FORKS: &str =
    "(while :; do sleep 1000 & done) 2>&1; echo contained; exec sleep 1000";
/// Takes twice the memory it has, again and again.
pub(crate) const EATS: &str = "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done";

/// The same order with so much set aside.
pub(crate) fn within(mut order: Start, millicores: u64, mib: u64) -> Start {
    Arc::make_mut(&mut order.spec).resources.compute = Compute::new(millicores, mib);
    order
}

/// How many cores a workload has at most while it tries to have more; and that it does try.
pub(crate) async fn has_at_most(usage: &dyn Usage, workload: &WorkloadId, cores: f64) {
    let read = async || usage.usage(workload).await.unwrap().expect("it runs");
    let (begun, before) = (Instant::now(), read().await.cpu_nanos);
    tokio::time::sleep(STRETCH).await;
    let used = Duration::from_nanos(read().await.cpu_nanos - before).as_secs_f64();
    let share = used / begun.elapsed().as_secs_f64();
    // A tenth for the edges of the periods it is counted in.
    assert!((0.01..cores * 1.1 + 0.02).contains(&share), "{share} cores of {cores}");
}

/// Waits until a workload has printed all these words.
pub(crate) async fn says(logs: &dyn Logs, workload: &WorkloadId, words: &[&str]) {
    let begun = Instant::now();
    loop {
        let mut output = logs.logs(workload, LogRange::default()).await.unwrap();
        let mut text = String::new();
        while let Some(chunk) = output.next().await {
            text.push_str(&String::from_utf8_lossy(&chunk.unwrap().bytes));
        }
        if words.iter().all(|word| text.contains(word)) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{words:?} are not in {text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// How many processes a container has.
pub(crate) async fn processes(docker: &bollard::Docker, container: &str) -> usize {
    let top = docker.top_processes(container, None).await.unwrap();
    top.processes.unwrap_or_default().len()
}
