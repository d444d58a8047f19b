//! Those who follow: what they answer, and what they pass on.

use persys_agent::app::Reach;
use persys_cluster::settings::Settings;
use persys_identity::Role;
use persys_proto::compute::v1 as api;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use tokio_stream::StreamExt as _;
use tonic::Code;

use crate::gate::Way;
use crate::rig::{Rig, apply, container, until};

fn age(metadata: &tonic::metadata::MetadataMap) -> Option<u64> {
    metadata.get("persys-copy-age-ms")?.to_str().unwrap().parse().ok()
}

/// Agents and clients know followers only, with and without certificates.
async fn everything_works_through_a_follower(certificates: bool) {
    let mut rig = Rig::start(3, certificates, Settings::default()).await;
    assert_eq!(rig.leader(), Some(0), "the first one leads");
    let (called, hidden) = (rig.addresses(1)[..1].to_vec(), rig.addresses(2)[..1].to_vec());
    rig.add_agent("called", Reach::Called, called).await;
    rig.add_agent("hidden", Reach::Stream, hidden).await;

    let mut client = rig.operator(1).await;
    for n in 0..8 {
        let id = format!("w{n}");
        apply(&mut client, &id).await;
        // Whoever changed something sees it at once, wherever the answer comes from.
        let request = wire::GetWorkloadRequest { workload_id: id.clone() };
        client.get_workload(request).await.unwrap();
    }
    for n in 0..8 {
        until(&mut client, &format!("w{n}"), "Running").await;
    }
    let made = rig.made().await;
    assert_eq!(made.len(), 8);
    assert!(made.values().all(|copies| copies.len() == 1), "{made:?}");
    for sim in ["called", "hidden"] {
        let there = made.values().flatten().filter(|(node, ..)| node.as_str() == sim).count();
        assert_eq!(there, 4, "orders reach {sim}");
    }

    // Streams go through as well, both ways and for as long as they last.
    let request = wire::WatchEventsRequest::default();
    let mut events = client.watch_events(request).await.unwrap().into_inner();
    assert!(events.next().await.unwrap().is_ok());
    let mut compute = rig.compute(2).await;
    let request = api::LogsRequest { workload_id: "w0".to_owned(), ..Default::default() };
    let mut logs = compute.logs(request).await.unwrap().into_inner();
    while let Some(chunk) = logs.next().await {
        chunk.unwrap();
    }

    // A refusal comes back as it was said.
    let request = wire::TaintNodeRequest { node_id: "nobody".to_owned(), ..Default::default() };
    assert_eq!(client.taint_node(request).await.unwrap_err().code(), Code::InvalidArgument);
    let request = wire::DrainNodeRequest { node_id: "nobody".to_owned(), ..Default::default() };
    assert_eq!(client.drain_node(request).await.unwrap_err().code(), Code::NotFound);

    if certificates {
        // An agent speaks for its own node alone, also when it is passed on.
        let channel = rig.channel(rig.schedulers[1].grpc, Role::Agent, "called").await;
        let mut agent = AgentControlClient::new(channel);
        let beat = wire::HeartbeatRequest { node_id: "hidden".to_owned(), ..Default::default() };
        assert_eq!(agent.heartbeat(beat).await.unwrap_err().code(), Code::PermissionDenied);
        let refused = agent.apply_workload(container("mine")).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_works_through_a_follower_without_certificates() {
    everything_works_through_a_follower(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_works_through_a_follower_with_certificates() {
    everything_works_through_a_follower(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_reads_from_its_copy_and_says_how_old_it_is() {
    let mut rig = Rig::start(2, false, Settings::default()).await;
    rig.add_agent("n1", Reach::Called, rig.addresses(0)).await;
    let (mut leader, mut follower) = (rig.operator(0).await, rig.operator(1).await);
    apply(&mut leader, "web").await;
    until(&mut leader, "web", "Running").await;
    let all = wire::ListWorkloadsRequest::default;
    let present = leader.list_workloads(all()).await.unwrap();
    assert_eq!(age(present.metadata()), None, "the leader shows the present");

    let copy = follower.list_workloads(all()).await.unwrap();
    assert_eq!(copy.metadata().get("persys-role").unwrap(), "follower");
    assert!(age(copy.metadata()).unwrap() < 3_000);
    assert_eq!(copy.into_inner().workloads.len(), 1);
    let nodes = follower.list_nodes(wire::ListNodesRequest::default()).await.unwrap();
    assert_eq!(nodes.into_inner().nodes[0].node_id, "n1");

    // The store is away for this process alone: the copy is served on, and grows older.
    rig.schedulers[1].store.send_replace(Way::Hangs);
    tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
    let copy = follower.list_workloads(all()).await.unwrap();
    let old = age(copy.metadata()).unwrap();
    assert!(old >= 2_500, "{old}");
    assert_eq!(copy.into_inner().workloads.len(), 1);
    let counted = follower.get_cluster_summary(wire::GetClusterSummaryRequest {}).await.unwrap();
    assert!(counted.get_ref().copy_age_ms >= 2_500);
    assert_eq!(counted.get_ref().running_workloads, 1);

    rig.schedulers[1].store.send_replace(Way::Open);
    apply(&mut leader, "more").await;
    until(&mut follower, "more", "Running").await;
    let standing = rig.compute(1).await.standing(api::StandingRequest {}).await.unwrap();
    let standing = standing.into_inner();
    let leads = rig.schedulers[0].grpc.to_string();
    assert_eq!((standing.role.as_str(), standing.mode.as_str()), ("follower", "normal"));
    assert_eq!(standing.leader, leads);
    assert!(standing.copy_age_ms > 0);
    let page = rig.schedulers[1].page("/health").await;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    for part in ["\"mode\":\"normal\"", "\"role\":\"follower\"", "\"modeChangedAt\":", &leads] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let page = rig.schedulers[0].page("/health").await;
    assert!(page.contains("\"role\":\"leader\""), "{page}");
}
