//! Events tell to look; whoever looks then must see.

use bollard::query_parameters::KillContainerOptionsBuilder;
use futures::StreamExt;
use persys_node::input::Existing;
use persys_runtime::inside::Wakeup;
use persys_runtime::{Runtime, Wakeups};

use super::bench::bench;
use crate::contract::start;

/// The daemon tells of an end before its lists show it; the listener must not.
#[tokio::test]
async fn an_end_that_was_told_is_listed() {
    let bench = bench();
    let mut wakeups = bench.docker.wakeups();
    assert_eq!(wakeups.next().await, Some(Wakeup::Everything));
    let order = start("ends", "r1", bench.runs());
    let told = Some(Wakeup::Workload(order.workload.clone()));
    for round in 0..10 {
        bench.docker.start(&order).await.unwrap();
        let events = if round == 0 { ["create", "start"].as_slice() } else { &["start"] };
        for event in events {
            assert_eq!(wakeups.next().await, told, "{event}");
        }
        let options = KillContainerOptionsBuilder::default().signal("KILL").build();
        bench.raw.kill_container(&bench.name("ends"), Some(options)).await.unwrap();
        assert_eq!(wakeups.next().await, told, "die");
        let states: Vec<_> =
            bench.docker.list().await.unwrap().into_iter().map(|seen| seen.state).collect();
        assert_eq!(states, [Existing::Exited { code: 137 }], "in round {round}");
    }
    bench.docker.remove(&order.workload, true).await.unwrap();
}
