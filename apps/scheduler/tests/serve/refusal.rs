//! Bad input changes nothing, and says what is wrong with it.

use persys_identity::Exposure;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::FailureReason;
use persys_scheduler::app::{self, Error, Security};
use tonic::{Code, Status};

use crate::bench::{Bench, Client, config, container, node, old_node};

fn code<T: std::fmt::Debug>(answer: Result<T, Status>) -> Code {
    answer.unwrap_err().code()
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_refused_and_leaves_nothing() {
    let bench = Bench::insecure().await;
    let mut client = bench.operator().await;
    let before = bench.running.handle.read(|world| world.head().clone()).await.unwrap();

    assert_eq!(code(client.apply_workload(container("")).await), Code::InvalidArgument);
    let mut unknown = container("web");
    if let Some(spec) = &mut unknown.spec {
        spec.r#type = "microvm".to_owned();
        spec.resources =
            Some(wire::ResourceRequirements { cpu_millicores: -1, ..Default::default() });
    }
    let answer = client.apply_workload(unknown).await.unwrap().into_inner();
    assert!(!answer.success);
    assert_eq!(answer.failure_reason(), FailureReason::InvalidSpec);
    for path in ["spec.type", "spec.resources.cpu_millicores"] {
        assert!(answer.error_message.contains(path), "{}", answer.error_message);
    }
    let spaced = client.apply_workload(container("../x")).await.unwrap().into_inner();
    assert!(!spaced.success && spaced.error_message.contains("workload_id"));
    let only_state =
        wire::ApplyWorkloadRequest { workload_id: "web".to_owned(), ..Default::default() };
    let answer = client.apply_workload(only_state).await.unwrap().into_inner();
    assert!(!answer.success && answer.error_message.contains("no workload web"));

    let mut large = container("web");
    large.revision_id = "x".repeat(4 * 1024 * 1024);
    assert_eq!(code(client.apply_workload(large).await), Code::OutOfRange);

    for id in ["", "a b"] {
        let workload_id = || id.to_owned();
        let request =
            wire::DeleteWorkloadRequest { workload_id: workload_id(), ..Default::default() };
        assert_eq!(code(client.delete_workload(request).await), Code::InvalidArgument);
        let request = wire::RetryWorkloadRequest { workload_id: workload_id() };
        assert_eq!(code(client.retry_workload(request).await), Code::InvalidArgument);
        let request = wire::GetWorkloadRequest { workload_id: workload_id() };
        assert_eq!(code(client.get_workload(request).await), Code::InvalidArgument);
        let request = wire::GetNodeRequest { node_id: id.to_owned() };
        assert_eq!(code(client.get_node(request).await), Code::InvalidArgument);
        let request = wire::HeartbeatRequest { node_id: id.to_owned(), ..Default::default() };
        assert_eq!(code(client.heartbeat(request).await), Code::InvalidArgument);
        let nobody = node(id, "127.0.0.1:9".parse().unwrap());
        assert_eq!(code(client.register_node(nobody).await), Code::InvalidArgument);
    }
    let request = wire::GetWorkloadRequest { workload_id: "web".to_owned() };
    assert_eq!(code(client.get_workload(request).await), Code::NotFound);
    let request =
        wire::DeleteWorkloadRequest { workload_id: "web".to_owned(), ..Default::default() };
    assert!(!client.delete_workload(request).await.unwrap().into_inner().success);
    let request = wire::RetryWorkloadRequest { workload_id: "web".to_owned() };
    assert!(!client.retry_workload(request).await.unwrap().into_inner().accepted);

    let mut adrift = node("n1", "127.0.0.1:9".parse().unwrap());
    adrift.grpc_endpoint = "no where:1".to_owned();
    assert_eq!(code(client.register_node(adrift).await), Code::InvalidArgument);
    let mut empty = node("n1", "127.0.0.1:9".parse().unwrap());
    empty.capabilities = None;
    let answer = client.register_node(empty).await.unwrap().into_inner();
    assert!(!answer.accepted && answer.reason.contains("capabilities"));

    unknown_states(&mut client).await;
    let request = wire::ListEventsRequest { limit: -1, ..Default::default() };
    assert_eq!(code(client.list_events(request).await), Code::InvalidArgument);
    for key in ["", "a=b", "é"] {
        let (node_id, key) = ("n1".to_owned(), key.to_owned());
        let request = wire::SetNodeLabelRequest { node_id, key, ..Default::default() };
        assert_eq!(code(client.set_node_label(request).await), Code::InvalidArgument);
    }
    let after = bench.running.handle.read(|world| world.head().clone()).await.unwrap();
    assert_eq!(before, after, "something was stored");
}

/// A filter that names no state is a mistake, and not an empty list.
async fn unknown_states(client: &mut Client) {
    let request =
        wire::ListWorkloadsRequest { status: "Runnning".to_owned(), ..Default::default() };
    let refused = client.list_workloads(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("\"Runnning\"; there are Pending, "), "{refused}");
    let request = wire::ListNodesRequest { status: "up".to_owned() };
    assert_eq!(code(client.list_nodes(request).await), Code::InvalidArgument);
    for word in ["updating", "Deleted", "unknown"] {
        let request = wire::ListWorkloadsRequest { status: word.to_owned(), ..Default::default() };
        assert!(
            client.list_workloads(request).await.is_ok(),
            "existing clients may ask for {word}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_says_so() {
    let bench = Bench::insecure().await;
    let mut client = bench.operator().await;
    let refused = client.list_buckets(wire::ListBucketsRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains(' '), "{refused}");
}

/// This host remembers more than the store knows: nothing is written, and callers come again.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_scheduler_asks_to_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), Security::Insecure(Exposure::Loopback));
    std::fs::create_dir_all(&config.state_dir).unwrap();
    let known = config.state_dir.join("known.json");
    std::fs::write(&known, r#"{"cluster":"east-1","incarnation":1,"seq":900}"#).unwrap();
    let running = app::start(config.clone()).await.unwrap();
    let mut standing = running.handle.standing();
    standing.wait_for(|standing| standing.mode.is_some()).await.unwrap();
    let endpoint = format!("http://{}", running.grpc);
    let channel = tonic::transport::Endpoint::from_shared(endpoint).unwrap().connect().await;
    let mut client = wire::agent_control_client::AgentControlClient::new(channel.unwrap());
    let refused = client.apply_workload(container("web")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    assert!(refused.metadata().contains_key("retry-after"));
    running.stop().await;

    std::fs::write(&known, "{").unwrap();
    let refused = app::start(config).await.unwrap_err();
    assert!(matches!(refused, Error::Known(_)), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_another_cluster_or_without_types_is_refused_by_name() {
    let bench = Bench::insecure().await;
    let mut client = bench.operator().await;
    let mut stranger = node("n1", "127.0.0.1:9".parse().unwrap());
    stranger.cluster_id = "other".to_owned();
    let answer = client.register_node(stranger).await.unwrap().into_inner();
    let named = answer.reason.contains("cluster_id") && answer.reason.contains("\"other\"");
    assert!(!answer.accepted && named, "{}", answer.reason);
    let mut idle = old_node("n1", "127.0.0.1:9".parse().unwrap());
    idle.capabilities.as_mut().unwrap().supported_workload_types.clear();
    let answer = client.register_node(idle).await.unwrap().into_inner();
    let named = answer.reason.contains("supported_workload_types: is empty");
    assert!(!answer.accepted && named, "{}", answer.reason);
    let nodes = client.list_nodes(wire::ListNodesRequest::default()).await.unwrap().into_inner();
    assert!(nodes.nodes.is_empty(), "{nodes:?}");
}
