//! Somebody else's hands on the same container at the same moment.

use std::time::Duration;

use bollard::query_parameters::RemoveContainerOptionsBuilder;
use persys_node::input::Existing;
use persys_runtime::Runtime;

use super::bench::bench;
use crate::contract::{start, state};

/// An operator removes a running container: it ends, and an agent that is told so starts it again
/// while it is still being removed. That is no failure of the workload: another one is made.
#[tokio::test]
async fn a_start_outlives_a_removal() {
    let bench = bench();
    let order = start("torn", "r1", bench.runs());
    for round in 0..10_u64 {
        bench.docker.start(&order).await.unwrap();
        let name = bench.name("torn");
        let options = RemoveContainerOptionsBuilder::default().force(true).build();
        let removal = bench.raw.remove_container(&name, Some(options));
        let again = async {
            tokio::time::sleep(Duration::from_millis(round * 10)).await;
            bench.docker.start(&order).await
        };
        let (removed, started) = tokio::join!(removal, again);
        removed.unwrap();
        started.unwrap_or_else(|error| panic!("round {round}: {error}"));
        // One that still ran when it was looked at was not started: the next look finds it gone.
        bench.docker.start(&order).await.unwrap();
        assert_eq!(state(&bench, &order.workload).await, Some(Existing::Running));
    }
    bench.docker.remove(&order.workload, true).await.unwrap();
}
