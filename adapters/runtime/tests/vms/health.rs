//! Health of machines by the agent in the guest.

use persys_model::health::HealthState;
use persys_model::id::WorkloadId;
use persys_runtime::Runtime as _;
use persys_runtime::inside::Console as _;
use tokio::io::AsyncWriteExt as _;

use super::bench::{MachineBench, bench, order, vm};
use super::daemon::until;

async fn told(bench: &MachineBench, id: &WorkloadId) -> Option<HealthState> {
    let list = bench.machines.list().await.unwrap();
    let one = list.into_iter().find(|seen| seen.workload == *id).unwrap();
    one.health.map(|health| health.state)
}

#[tokio::test]
async fn a_machine_is_as_healthy_as_the_agent_in_its_guest() {
    let bench = bench().await;
    let (with, without) = (order("with", "r1", vm("agent")), order("without", "r1", vm("")));
    for order in [&with, &without] {
        bench.machines.start(order).await.unwrap();
        assert_eq!(bench.fact(&order.workload, "ready", 1).await, "yes");
    }
    assert_eq!(told(&bench, &without.workload).await, None, "it has no agent");
    let id = &with.workload;
    until("the agent in the guest answers", async || {
        told(&bench, id).await == Some(HealthState::Healthy)
    })
    .await;
    let mut console = bench.machines.console(id, false).await.unwrap();
    console.input.write_all(b"hush\n").await.unwrap();
    assert_eq!(bench.fact(id, "hush", 1).await, "yes");
    until("its silence is seen", async || told(&bench, id).await == Some(HealthState::Unhealthy))
        .await;
    console.input.write_all(b"agent\n").await.unwrap();
    until("it answers again", async || told(&bench, id).await == Some(HealthState::Healthy)).await;
    assert_eq!(told(&bench, &without.workload).await, None);
    drop(console);
    for order in [&with, &without] {
        bench.machines.remove(&order.workload, true).await.unwrap();
    }
}
