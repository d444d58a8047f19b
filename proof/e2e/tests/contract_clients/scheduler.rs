//! What the smoke client and the end-to-end runner of the field do, in their order.

use persys_e2e::stack::{Stack, Wire};
use persys_identity::Role;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::calls::{call, standard_services, until};
use crate::messages::control as wire;

const ID: &str = "e2e-workload-1";
const INSUFFICIENT_RESOURCES: i32 = 3;
const INVALID_SPEC: i32 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn the_smoke_client_works_without_certificates() {
    everything(Wire::Plain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_smoke_client_works_with_certificates() {
    everything(Wire::Mtls).await;
}

async fn everything(wire: Wire) {
    let mut stack = Stack::start(wire).await;
    stack.add_agent("n1").await;
    let operator = stack.channel(Role::Operator, "alice").await;
    workloads(&operator).await;
    vm(&operator).await;
    in_band(&operator).await;
    standard_services(&operator, "persys.control.v1.AgentControl").await;
    let agent = stack.channel(Role::Agent, "smoke-node").await;
    nodes(&operator, &agent).await;
    stack.stop().await;
}

async fn control<Q, A>(channel: &Channel, method: &str, request: Q) -> Result<A, Status>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    call(channel, &format!("persys.control.v1.AgentControl/{method}"), request).await
}

fn named(name: &str) -> wire::Named {
    wire::Named { name: name.to_owned() }
}

fn container(id: &str, revision: &str) -> wire::ApplyWorkloadRequest {
    let command = ["sh", "-c", "sleep 60"].map(str::to_owned).into();
    wire::ApplyWorkloadRequest {
        workload_id: id.to_owned(),
        revision_id: revision.to_owned(),
        desired_state: "Running".to_owned(),
        spec: Some(wire::WorkloadSpec {
            kind: "container".to_owned(),
            resources: Some(wire::ResourceRequirements {
                cpu_millicores: 100,
                memory_mb: 128,
                disk_gb: 1,
            }),
            container: Some(wire::ContainerSpec {
                image: "busybox".to_owned(),
                command,
                restart_policy: "always".to_owned(),
            }),
            ..wire::WorkloadSpec::default()
        }),
    }
}

async fn summary(channel: &Channel) -> wire::GetClusterSummaryResponse {
    control(channel, "GetClusterSummary", ()).await.unwrap()
}

async fn get(channel: &Channel, id: &str) -> Result<wire::WorkloadView, Status> {
    let found: wire::GetWorkloadResponse = control(channel, "GetWorkload", named(id)).await?;
    Ok(found.workload.unwrap())
}

async fn apply(
    channel: &Channel,
    request: wire::ApplyWorkloadRequest,
) -> wire::ApplyWorkloadResponse {
    control(channel, "ApplyWorkload", request).await.unwrap()
}

async fn status_is(channel: &Channel, id: &str, word: &str) -> wire::WorkloadView {
    let look = || async { get(channel, id).await.ok().filter(|view| view.status == word) };
    until(&format!("{id} is {word}"), look).await
}

async fn workloads(channel: &Channel) {
    let first = summary(channel).await;
    assert!(first.total_nodes >= 1 && first.ready_nodes >= 1 && first.generated_at.is_some());

    let applied = apply(channel, container(ID, "r1")).await;
    assert!(applied.success, "{}", applied.error_message);
    assert_eq!((applied.failure_reason, &*applied.error_message), (0, ""));
    let view = status_is(channel, ID, "Running").await;
    assert_eq!((&*view.kind, &*view.desired_state), ("container", "Running"));
    assert_eq!((&*view.revision_id, &*view.assigned_node_id), ("r1", "n1"));
    assert!(view.failure_reason.is_empty() && view.last_updated.is_some());
    assert!(view.reason.is_some_and(|reason| !reason.code.is_empty()));

    for (node_id, status, found) in
        [("", "", true), ("n1", "Running", true), ("", "running", true), ("", "Failed", false)]
    {
        let request =
            wire::ListWorkloadsRequest { node_id: node_id.to_owned(), status: status.to_owned() };
        let listed: wire::ListWorkloadsResponse =
            control(channel, "ListWorkloads", request).await.unwrap();
        let there = listed.workloads.iter().any(|one| one.workload_id == ID);
        assert_eq!(there, found, "{node_id:?} {status:?}");
    }
    let counted = summary(channel).await;
    assert!(counted.total_workloads >= 1 && counted.running_workloads >= 1, "{counted:?}");

    // The same once more changes nothing; a new revision is taken; a state alone needs no spec.
    assert!(apply(channel, container(ID, "r1")).await.success);
    assert!(apply(channel, container(ID, "r2")).await.success);
    assert_eq!(status_is(channel, ID, "Running").await.revision_id, "r2");
    for (word, status) in [("Stopped", "Stopped"), ("RUNNING", "Running")] {
        let request = wire::ApplyWorkloadRequest {
            workload_id: ID.to_owned(),
            desired_state: word.to_owned(),
            ..wire::ApplyWorkloadRequest::default()
        };
        let answer = apply(channel, request).await;
        assert!(answer.success, "{word}: {}", answer.error_message);
        status_is(channel, ID, status).await;
    }
    let retried: wire::RetryWorkloadResponse =
        control(channel, "RetryWorkload", named(ID)).await.unwrap();
    assert!(retried.accepted);

    let deleted: wire::DeleteWorkloadResponse =
        control(channel, "DeleteWorkload", named(ID)).await.unwrap();
    assert!(deleted.success, "{}", deleted.error_message);
    match get(channel, ID).await {
        Ok(view) => assert!(["Deleting", "Deleted"].contains(&&*view.status), "{view:?}"),
        Err(status) => assert_eq!(status.code(), Code::NotFound),
    }
    let gone = || async { get(channel, ID).await.err().map(|status| status.code()) };
    assert_eq!(until("it is gone", gone).await, Code::NotFound);
}

/// No node here has the pool the smoke client asks for.
async fn vm(channel: &Channel) {
    let request = wire::ApplyWorkloadRequest {
        workload_id: "smoke-vm".to_owned(),
        revision_id: "r1".to_owned(),
        desired_state: "Running".to_owned(),
        spec: Some(wire::WorkloadSpec {
            kind: "vm".to_owned(),
            resources: Some(wire::ResourceRequirements {
                cpu_millicores: 250,
                memory_mb: 256,
                disk_gb: 2,
            }),
            vm: Some(wire::VmSpec {
                vcpus: 2,
                memory_mb: 2048,
                disks: vec![wire::DiskConfig { pool_name: "fast".to_owned(), size_gb: 20 }],
                networks: vec![wire::NetworkConfig { bridge: "br0".to_owned(), dhcp: true }],
                os_image: "ubuntu-24.04".to_owned(),
            }),
            ..wire::WorkloadSpec::default()
        }),
    };
    let answer = apply(channel, request).await;
    assert!(answer.success, "{}", answer.error_message);
    let view = get(channel, "smoke-vm").await.unwrap();
    assert_eq!((&*view.kind, &*view.status, &*view.assigned_node_id), ("vm", "Pending", ""));
    let reason = view.reason.unwrap();
    assert!(!reason.code.is_empty() && !reason.message.is_empty(), "{reason:?}");
    assert!(reason.retryable && reason.last_transition.is_some());
    let counted = summary(channel).await;
    assert!(counted.pending_workloads >= 1, "{counted:?}");
    let deleted: wire::DeleteWorkloadResponse =
        control(channel, "DeleteWorkload", named("smoke-vm")).await.unwrap();
    assert!(deleted.success);
}

/// What goes wrong with a request that can be read is in its answer, not in the call.
async fn in_band(channel: &Channel) {
    let mut wrong = container("wrong", "r1");
    "balloon".clone_into(&mut wrong.spec.as_mut().unwrap().kind);
    let answer = apply(channel, wrong).await;
    assert!(!answer.success && answer.error_message.contains("type"), "{answer:?}");
    assert_eq!(answer.failure_reason, INVALID_SPEC);
    let mut huge = container("huge", "r1");
    huge.spec.as_mut().unwrap().resources.as_mut().unwrap().cpu_millicores = 900_000;
    let answer = apply(channel, huge).await;
    if answer.success {
        let view = get(channel, "huge").await.unwrap();
        assert_eq!((&*view.status, &*view.assigned_node_id), ("Pending", ""));
        let deleted: wire::DeleteWorkloadResponse =
            control(channel, "DeleteWorkload", named("huge")).await.unwrap();
        assert!(deleted.success);
    } else {
        assert!([INSUFFICIENT_RESOURCES, INVALID_SPEC].contains(&answer.failure_reason));
    }
    let deleted: wire::DeleteWorkloadResponse =
        control(channel, "DeleteWorkload", named("nobody")).await.unwrap();
    assert!(!deleted.success && !deleted.error_message.is_empty());
    let retried: wire::RetryWorkloadResponse =
        control(channel, "RetryWorkload", named("nobody")).await.unwrap();
    assert!(!retried.accepted);

    for method in ["GetWorkload", "GetNode"] {
        for (name, code) in [("", Code::InvalidArgument), ("nobody", Code::NotFound)] {
            let answer: Result<(), Status> = control(channel, method, named(name)).await;
            assert_eq!(answer.unwrap_err().code(), code, "{method} {name:?}");
        }
    }
    let stream: Result<(), Status> = control(channel, "ListBuckets", ()).await;
    assert_eq!(stream.unwrap_err().code(), Code::Unimplemented);
}

fn register(endpoint: &str) -> wire::RegisterNodeRequest {
    wire::RegisterNodeRequest {
        node_id: "smoke-node".to_owned(),
        capabilities: Some(wire::NodeCapabilities {
            cpu_total_millicores: 4_000,
            memory_total_mb: 8_192,
            supported_workload_types: vec!["container".to_owned(), "compose".to_owned()],
            ..wire::NodeCapabilities::default()
        }),
        labels: [("zone".to_owned(), "b".to_owned())].into(),
        agent_version: "smoke".to_owned(),
        grpc_endpoint: endpoint.to_owned(),
        cluster_id: "default".to_owned(),
        timestamp: None,
    }
}

fn beat() -> wire::HeartbeatRequest {
    wire::HeartbeatRequest {
        node_id: "smoke-node".to_owned(),
        usage: Some(wire::NodeUsage {
            cpu_allocated_millicores: 1_000,
            cpu_used_millicores: 400,
            memory_allocated_mb: 1_024,
            memory_used_mb: 512,
            disk_allocated_gb: 10,
            disk_used_gb: 3,
        }),
        workload_statuses: Vec::new(),
        timestamp: None,
    }
}

async fn nodes(operator: &Channel, agent: &Channel) {
    let early: Result<(), Status> = control(agent, "Heartbeat", beat()).await;
    assert_eq!(early.unwrap_err().code(), Code::NotFound, "not registered yet");
    let nowhere: Result<(), Status> = control(agent, "RegisterNode", register("")).await;
    assert_eq!(nowhere.unwrap_err().code(), Code::InvalidArgument);

    let joined: wire::RegisterNodeResponse =
        control(agent, "RegisterNode", register("127.0.0.1:50051")).await.unwrap();
    assert!(joined.accepted, "{}", joined.reason);
    assert!(joined.heartbeat_interval_seconds > 0 && joined.lease_expires_at.is_some());
    let heard: wire::HeartbeatResponse = control(agent, "Heartbeat", beat()).await.unwrap();
    assert!(heard.acknowledged && !heard.drain_node && heard.lease_expires_at.is_some());

    for (filter, all) in [("", true), ("ready", true), ("Draining", false)] {
        let listed: wire::ListNodesResponse =
            control(operator, "ListNodes", named(filter)).await.unwrap();
        let names: Vec<_> = listed.nodes.iter().map(|node| node.node_id.as_str()).collect();
        let expected: &[&str] = if all { &["n1", "smoke-node"] } else { &[] };
        assert_eq!(names, expected, "{filter:?}");
    }
    let found: wire::GetNodeResponse =
        control(operator, "GetNode", named("smoke-node")).await.unwrap();
    let node = found.node.unwrap();
    assert_eq!((&*node.status, &*node.grpc_endpoint), ("Ready", "127.0.0.1:50051"));
    assert!((node.total_cpu_cores - 4.0).abs() < 1e-9, "{node:?}");
    assert!((node.available_cpu_cores - 4.0).abs() < 1e-9, "what it uses is not what is promised");
    assert_eq!((node.total_memory_mb, node.available_memory_mb), (8_192, 8_192));
    assert_eq!(node.labels["zone"], "b");
    assert!(node.last_heartbeat.is_some());
    assert!(node.supported_workload_types.contains(&"compose".to_owned()));
    assert_eq!(summary(operator).await.total_nodes, 2);
}
