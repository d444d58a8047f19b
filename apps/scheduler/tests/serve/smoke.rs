//! Everything once, the way clients in the field go about it.

use std::time::{Duration, Instant};

use persys_identity::{Exposure, Role};
use persys_proto::control::v1 as wire;
use persys_scheduler::app::{self, Security};
use tonic::Code;

use crate::agent::FakeAgent;
use crate::bench::{Bench, Client, config, container, leads, node, until};

#[tokio::test(flavor = "multi_thread")]
async fn without_certificates() {
    let bench = Bench::insecure().await;
    everything(&bench).await;
    let mut client = bench.operator().await;
    let all = wire::WatchEventsRequest::default();
    let mut stream = client.watch_events(all).await.unwrap().into_inner();
    let (folder, running) = (bench.folder, bench.running);
    let begun = Instant::now();
    running.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(3), "somebody was waited for");
    let end = loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the stream ended without a word"),
            Err(status) => break status.code(),
        }
    };
    assert_eq!(end, Code::Unavailable);

    // What was acknowledged is there in the next life, on the same files.
    assert!(folder.path().join("state/known.json").exists());
    let running =
        app::start(config(folder.path(), Security::Insecure(Exposure::Loopback))).await.unwrap();
    leads(&running).await;
    let nodes = running.handle.read(|world| world.nodes().count()).await.unwrap();
    assert_eq!(nodes, 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_certificates() {
    let bench = Bench::mtls().await;
    everything(&bench).await;
    bench.running.stop().await;
}

async fn everything(bench: &Bench) {
    let agent = FakeAgent::start(bench.credentials(Role::Agent, "n1")).await;
    let mut as_agent = bench.client(Role::Agent, "n1").await;
    let mut client = bench.operator().await;

    let joined = as_agent.register_node(node("n1", agent.address)).await.unwrap().into_inner();
    assert!(joined.accepted, "{}", joined.reason);
    assert!(joined.session > 0 && joined.lease_ms > 0 && joined.heartbeat_interval_seconds > 0);

    let applied = client.apply_workload(container("web")).await.unwrap().into_inner();
    assert!(applied.success, "{}", applied.error_message);
    let command = agent.notes.applied("web").await;
    until(&mut client, "web", "Scheduled").await;
    let beat = wire::HeartbeatRequest {
        node_id: "n1".to_owned(),
        session: joined.session,
        seq: 1,
        reports: vec![wire::WorkloadReport {
            workload_id: "web".to_owned(),
            epoch: command.epoch.0,
            state: "Running".to_owned(),
            confirmed: true,
            ..wire::WorkloadReport::default()
        }],
        ..wire::HeartbeatRequest::default()
    };
    let heard = as_agent.heartbeat(beat).await.unwrap().into_inner();
    assert!(heard.acknowledged && heard.seq == 1 && heard.lease_ms > 0);
    until(&mut client, "web", "Running").await;

    look(&mut client).await;
    operate(&mut client).await;
    watch(&mut client).await;
    pages(bench).await;
    standard_services(bench).await;

    let retry = wire::RetryWorkloadRequest { workload_id: "web".to_owned() };
    assert!(client.retry_workload(retry).await.unwrap().into_inner().accepted);
    suggest(&mut client).await;
    until(&mut client, "web", "").await;
}

async fn look(client: &mut Client) {
    let all = wire::ListWorkloadsRequest::default();
    let listed = client.list_workloads(all).await.unwrap().into_inner().workloads;
    assert_eq!(listed.len(), 1);
    assert_eq!((&*listed[0].workload_id, &*listed[0].assigned_node_id), ("web", "n1"));
    for (node_id, status, found) in [("n1", "running", 1), ("n1", "failed", 0), ("n2", "", 0)] {
        let request =
            wire::ListWorkloadsRequest { node_id: node_id.to_owned(), status: status.to_owned() };
        let listed = client.list_workloads(request).await.unwrap().into_inner().workloads;
        assert_eq!(listed.len(), found, "{node_id} {status}");
    }
    let request = wire::ListNodesRequest { status: "READY".to_owned() };
    let nodes = client.list_nodes(request).await.unwrap().into_inner().nodes;
    assert_eq!(nodes.len(), 1);
    assert!(nodes[0].last_heartbeat.is_some());
    let request = wire::GetNodeRequest { node_id: "n1".to_owned() };
    let node = client.get_node(request).await.unwrap().into_inner().node.unwrap();
    assert_eq!((&*node.status, node.workloads), ("Ready", 1));
    let summary = client.get_cluster_summary(wire::GetClusterSummaryRequest {}).await.unwrap();
    let summary = summary.into_inner();
    assert_eq!((summary.ready_nodes, summary.running_workloads), (1, 1));
}

async fn operate(client: &mut Client) {
    let node_id = || "n1".to_owned();
    let taint = Some(wire::NodeTaint { key: "gpu".to_owned(), ..Default::default() });
    let request = wire::TaintNodeRequest { node_id: node_id(), taint };
    let tainted = client.taint_node(request).await.unwrap().into_inner();
    assert_eq!(tainted.node.unwrap().taints[0].effect, "NoSchedule");
    let request = wire::UntaintNodeRequest {
        node_id: node_id(),
        key: "gpu".to_owned(),
        ..Default::default()
    };
    let untainted = client.untaint_node(request).await.unwrap().into_inner();
    assert!(untainted.accepted && untainted.node.unwrap().taints.is_empty());
    let (key, value) = ("zone".to_owned(), "b".to_owned());
    let request = wire::SetNodeLabelRequest { node_id: node_id(), key: key.clone(), value };
    let labelled = client.set_node_label(request).await.unwrap().into_inner();
    assert_eq!(labelled.node.unwrap().labels.get("zone").unwrap(), "b");
    let request = wire::DeleteNodeLabelRequest { node_id: node_id(), key };
    let unlabelled = client.delete_node_label(request).await.unwrap().into_inner();
    assert!(unlabelled.node.unwrap().labels.is_empty());
    // A workload nothing else can take stays where it is.
    let request = wire::DrainNodeRequest { node_id: node_id(), reason: "new disk".to_owned() };
    let drained = client.drain_node(request).await.unwrap().into_inner();
    assert!(drained.accepted);
    assert_eq!(drained.node.unwrap().status, "Draining");
    let request = wire::UndrainNodeRequest { node_id: node_id(), ..Default::default() };
    let undrained = client.undrain_node(request).await.unwrap().into_inner();
    assert_eq!(undrained.node.unwrap().status, "Ready");
    let request = wire::UndrainNodeRequest { node_id: "n9".to_owned(), ..Default::default() };
    assert_eq!(client.undrain_node(request).await.unwrap_err().code(), Code::NotFound);
}

async fn watch(client: &mut Client) {
    let all = wire::ListEventsRequest::default();
    let events = client.list_events(all).await.unwrap().into_inner().events;
    assert_eq!(events[0].r#type, "NodeJoined");
    assert!(events.is_sorted_by_key(|event| event.id.clone()));
    let request =
        wire::ListEventsRequest { limit: 1, workload_id: "web".to_owned(), ..Default::default() };
    let of_web = client.list_events(request).await.unwrap().into_inner().events;
    assert_eq!(of_web.len(), 1);
    assert_eq!(of_web[0].workload_id, "web");

    let request =
        wire::WatchEventsRequest { r#type: "NodeTainted".to_owned(), ..Default::default() };
    let mut stream = client.watch_events(request).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap().unwrap().node_id, "n1");
    let taint = Some(wire::NodeTaint {
        key: "later".to_owned(),
        effect: "preferNoSchedule".to_owned(),
        ..Default::default()
    });
    let request = wire::TaintNodeRequest { node_id: "n1".to_owned(), taint };
    client.taint_node(request).await.unwrap();
    let live = stream.message().await.unwrap().unwrap();
    assert_eq!((&*live.r#type, &*live.node_id), ("NodeTainted", "n1"));
    resume(client, &live.id).await;
    audit(client).await;
}

/// Whoever was cut off goes on after the last event it saw, and misses none.
async fn resume(client: &mut Client, seen: &str) {
    let set = wire::SetNodeLabelRequest {
        node_id: "n1".to_owned(),
        key: "rack".to_owned(),
        value: "7".to_owned(),
    };
    client.set_node_label(set).await.unwrap();
    let delete = wire::DeleteNodeLabelRequest { node_id: "n1".to_owned(), key: "rack".to_owned() };
    client.delete_node_label(delete).await.unwrap();
    let request = wire::WatchEventsRequest { after_id: seen.to_owned(), ..Default::default() };
    let mut stream = client.watch_events(request).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap();
    let second = stream.message().await.unwrap().unwrap();
    assert_eq!((&*first.r#type, &*second.r#type), ("NodeLabelSet", "NodeLabelDeleted"));
    let request =
        wire::ListEventsRequest { after_id: seen.to_owned(), limit: 1, ..Default::default() };
    let listed = client.list_events(request).await.unwrap().into_inner().events;
    assert_eq!(listed, [first]);
    let request = wire::WatchEventsRequest { after_id: "soon".to_owned(), ..Default::default() };
    assert_eq!(client.watch_events(request).await.unwrap_err().code(), Code::InvalidArgument);
}

/// Every change somebody asked for says who it was, and why if they said so.
async fn audit(client: &mut Client) {
    let mut request = tonic::Request::new(wire::SetNodeLabelRequest {
        node_id: "n1".to_owned(),
        key: "row".to_owned(),
        value: "3".to_owned(),
    });
    let why = "moved%20to%20row%203".parse().unwrap();
    request.metadata_mut().insert(persys_proto::REASON_HEADER, why);
    client.set_node_label(request).await.unwrap();
    let request = wire::ListEventsRequest { asked: true, ..Default::default() };
    let asked = client.list_events(request).await.unwrap().into_inner().events;
    assert!(asked.iter().all(|event| event.details.contains_key("by")));
    assert!(asked.iter().any(|event| event.r#type == "WorkloadSubmitted"));
    assert!(!asked.iter().any(|event| event.r#type == "NodeJoined"), "nobody asked for that");
    let last = asked.last().unwrap();
    assert_eq!(last.r#type, "NodeLabelSet");
    assert!(last.details["by"].starts_with("operator "), "{last:?}");
    assert_eq!(last.details["because"], "moved to row 3");
}

async fn pages(bench: &Bench) {
    let health = bench.page("/health").await;
    assert!(health.starts_with("HTTP/1.1 200 OK"), "{health}");
    for part in [r#""status":"ok""#, r#""mode":"normal""#, r#""modeChangedAt":"20"#, r#""reason":"#]
    {
        assert!(health.contains(part), "{part} is not in {health}");
    }
    let metrics = bench.page("/metrics").await;
    for line in [
        "persys_scheduler_nodes_status{status=\"ready\"} 1\n",
        "persys_scheduler_nodes_status{status=\"notready\"} 0\n",
        "persys_scheduler_workloads_status{status=\"running\"} 1\n",
        "persys_scheduler_workloads_desired_state{desired_state=\"running\"} 1\n",
        "persys_scheduler_agent_rpc_requests_total{rpc=\"ApplyWorkload\",code=\"OK\"} 1\n",
        "method=\"/persys.control.v1.AgentControl/RegisterNode\",code=\"OK\"} 1\n",
        "method=\"/persys.control.v1.AgentControl/UndrainNode\",code=\"NotFound\"} 1\n",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    assert!(bench.page("/else").await.starts_with("HTTP/1.1 404"));
}

async fn standard_services(bench: &Bench) {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    let channel = bench.channel(Role::Operator, "alice").await;
    let service = "persys.control.v1.AgentControl".to_owned();
    let health = HealthClient::new(channel.clone()).check(HealthCheckRequest { service }).await;
    assert_eq!(health.unwrap().into_inner().status, 1);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::FileContainingSymbol(
            "persys.control.v1.AgentControl".to_owned(),
        )),
    };
    let mut client = ServerReflectionClient::new(channel);
    let request = tokio_stream::once(request);
    let answer = client.server_reflection_info(request).await.unwrap().into_inner().message().await;
    let answer = answer.unwrap().unwrap().message_response.unwrap();
    assert!(format!("{answer:?}").starts_with("FileDescriptorResponse"), "{answer:?}");
}

async fn suggest(client: &mut Client) {
    use wire::AutomationActionType as Action;
    for (action, target, accepted) in [
        (Action::AutomationActionScaleReplicas, "web", false),
        (Action::Unspecified, "web", false),
        (Action::AutomationActionDeleteWorkload, "", false),
        (Action::AutomationActionRetryWorkload, "nobody", false),
        (Action::AutomationActionDeleteWorkload, "web", true),
    ] {
        let suggestion = Some(wire::AutomationSuggestion {
            target_workload: target.to_owned(),
            action_type: action.into(),
            ..Default::default()
        });
        let request = wire::SubmitAutomationSuggestionRequest { suggestion };
        let decided = client.submit_automation_suggestion(request).await.unwrap().into_inner();
        assert_eq!(decided.accepted, accepted, "{action:?} {target}");
        assert_eq!(decided.decision, if accepted { "accepted" } else { "rejected" });
        assert!(!decided.reason.is_empty());
    }
    let request = wire::SubmitAutomationSuggestionRequest { suggestion: None };
    let refused = client.submit_automation_suggestion(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}
