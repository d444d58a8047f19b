//! An agent from before the fenced fields: classic calls out, classic statuses in.

use persys_identity::Role;
use persys_proto::control::v1 as wire;
use tonic::Code;

use crate::agent::FakeAgent;
use crate::bench::{Bench, container, node, old_node, status, until};

fn beat(node: &str, statuses: &[(&str, &str)]) -> wire::HeartbeatRequest {
    let status = |(id, state): &(&str, &str)| wire::WorkloadStatus {
        workload_id: (*id).to_owned(),
        state: (*state).to_owned(),
        ..wire::WorkloadStatus::default()
    };
    wire::HeartbeatRequest {
        node_id: node.to_owned(),
        workload_statuses: statuses.iter().map(status).collect(),
        ..wire::HeartbeatRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_agent_runs_and_removes_a_workload() {
    let bench = Bench::mtls().await;
    let agent = FakeAgent::start(bench.credentials(Role::Agent, "old")).await;
    let mut as_agent = bench.client(Role::Agent, "old").await;
    let mut client = bench.operator().await;

    let unknown = as_agent.heartbeat(beat("old", &[])).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    let joined = as_agent.register_node(old_node("old", agent.address)).await.unwrap().into_inner();
    assert!(joined.accepted && joined.heartbeat_interval_seconds > 0, "{}", joined.reason);

    assert!(client.apply_workload(container("web")).await.unwrap().into_inner().success);
    until(&mut client, "web", "Scheduled").await;
    agent.notes.has("web").await;
    let says = [("web", "Running"), ("else", "Running")];
    while status(&mut client, "web").await == "Scheduled" {
        let heard = as_agent.heartbeat(beat("old", &says)).await.unwrap().into_inner();
        assert!(heard.acknowledged && !heard.drain_node && heard.lease_expires_at.is_some());
    }
    until(&mut client, "web", "Running").await;
    assert!(agent.notes.old.lock().unwrap().contains("web"));
    assert!(agent.notes.commands.lock().unwrap().is_empty(), "it was given tokens");

    let request = wire::DrainNodeRequest { node_id: "old".to_owned(), ..Default::default() };
    client.drain_node(request).await.unwrap();
    assert!(as_agent.heartbeat(beat("old", &[])).await.unwrap().into_inner().drain_node);

    let request = wire::DeleteWorkloadRequest { workload_id: "web".to_owned(), volumes: false };
    assert!(client.delete_workload(request).await.unwrap().into_inner().success);
    until(&mut client, "web", "").await;
    assert!(agent.notes.old.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_speaks_for_a_node_of_ours_without_its_session() {
    let bench = Bench::insecure().await;
    let mut client = bench.operator().await;
    client.register_node(node("n1", "127.0.0.1:9".parse().unwrap())).await.unwrap();
    let refused = client.heartbeat(beat("n1", &[("web", "Running")])).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
}

/// What it runs from before is not what it was told now, as long as that has not reached it.
#[tokio::test(flavor = "multi_thread")]
async fn a_status_from_before_the_order_does_not_count() {
    let bench = Bench::insecure().await;
    let mut client = bench.operator().await;
    client.register_node(old_node("old", "127.0.0.1:9".parse().unwrap())).await.unwrap();
    assert!(client.apply_workload(container("web")).await.unwrap().into_inner().success);
    until(&mut client, "web", "Scheduled").await;
    let heard = client.heartbeat(beat("old", &[("web", "Running")])).await.unwrap().into_inner();
    assert!(heard.acknowledged);
    assert_eq!(status(&mut client, "web").await, "Scheduled");
}
