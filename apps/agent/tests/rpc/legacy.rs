//! Callers who know no tokens.

use persys_agent::app::{Config, RuntimeChoice};
use persys_proto::agent::v1 as wire;
use persys_proto::agent::v1::{ActualState, DesiredState, WorkloadType};
use tonic::Code;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::node::{
    apply, body, config, delete, list, request, sim, start, start_with, status, wait,
};

#[tokio::test]
async fn each_type_is_applied_shown_listed_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, mut client) = start(dir.path(), &sim()).await;
    for kind in [WorkloadType::Container, WorkloadType::Compose, WorkloadType::Vm] {
        let request = wire::ApplyWorkloadRequest {
            r#type: kind.into(),
            spec: Some(body(kind, "nginx:1")),
            ..request("e2e-workload-1", "rev-1", "")
        };
        let answer = apply(&mut client, request).await;
        assert!(answer.applied && !answer.skipped, "{kind:?}: {answer:?}");
        let shown = wait(&mut client, "e2e-workload-1", ActualState::Running).await;
        assert_eq!(shown.id, "e2e-workload-1");
        assert_eq!((shown.r#type(), shown.revision_id.as_str()), (kind, "rev-1"));
        assert_eq!(shown.desired_state(), DesiredState::Running);
        assert_eq!(shown.metadata.get("task_status").map(String::as_str), Some("completed"));
        assert!(shown.metadata.contains_key("task_id") && shown.created_at > 0);
        assert_eq!(list(&mut client, kind).await.len(), 1);
        assert_eq!(list(&mut client, WorkloadType::Unspecified).await.len(), 1);

        let answer = delete(&mut client, "e2e-workload-1").await;
        assert!(answer.success && answer.removed, "{answer:?}");
        let gone = status(&mut client, "e2e-workload-1").await.unwrap_err();
        assert_eq!(gone.code(), Code::Unknown);
        assert_eq!(gone.message(), "status not found: e2e-workload-1");
        assert!(list(&mut client, kind).await.is_empty());
    }
    agent.stop().await;
}

#[tokio::test]
async fn only_what_changes_something_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, mut client) = start(dir.path(), &sim()).await;
    assert!(apply(&mut client, request("web", "rev-1", "nginx:1")).await.applied);
    let first = wait(&mut client, "web", ActualState::Running).await;

    let again = apply(&mut client, request("web", "rev-1", "nginx:1")).await;
    assert!(again.applied && again.skipped, "{again:?}");
    assert_eq!(again.epoch, first.epoch);

    let stop = wire::ApplyWorkloadRequest {
        desired_state: DesiredState::Stopped.into(),
        ..request("web", "rev-1", "nginx:1")
    };
    let stopped = apply(&mut client, stop).await;
    assert!(stopped.applied && !stopped.skipped, "{stopped:?}");
    let rests = wait(&mut client, "web", ActualState::Stopped).await;
    assert_eq!(rests.metadata["container.id"], first.metadata["container.id"], "not made anew");
    assert!(apply(&mut client, request("web", "rev-1", "nginx:1")).await.applied);
    let runs = wait(&mut client, "web", ActualState::Running).await;
    assert_eq!(runs.metadata["container.id"], first.metadata["container.id"], "not made anew");

    let newer = apply(&mut client, request("web", "rev-2", "nginx:2")).await;
    assert!(newer.applied && !newer.skipped, "{newer:?}");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let shown = wait(&mut client, "web", ActualState::Running).await;
        if shown.metadata["container.id"] != first.metadata["container.id"] {
            assert_eq!(shown.revision_id, "rev-2");
            break;
        }
        assert!(std::time::Instant::now() < deadline, "not made anew: {shown:?}");
    }
    agent.stop().await;
}

#[tokio::test]
async fn of_two_same_requests_at_once_one_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, client) = start(dir.path(), &sim()).await;
    let (mut one, mut other) = (client.clone(), client);
    let (first, second) = tokio::join!(
        apply(&mut one, request("web", "rev-1", "nginx:1")),
        apply(&mut other, request("web", "rev-1", "nginx:1")),
    );
    assert!(first.applied && second.applied);
    assert_ne!(first.skipped, second.skipped);
    agent.stop().await;
}

#[tokio::test]
async fn what_failed_says_why_and_is_tried_again_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, mut client) = start(dir.path(), &sim()).await;
    let bad = || request("web", "rev-1", "fail:IMAGE_NOT_FOUND");
    assert!(apply(&mut client, bad()).await.applied);
    let failed = wait(&mut client, "web", ActualState::Failed).await;
    assert_eq!(failed.metadata["failure_reason"], "IMAGE_NOT_FOUND");
    assert_eq!(failed.metadata["retry_terminal"], "true");
    assert_eq!(failed.metadata["task_status"], "failed");
    assert!(failed.message.contains("fail:IMAGE_NOT_FOUND"), "{}", failed.message);
    let again = apply(&mut client, bad()).await;
    assert!(again.applied && !again.skipped && again.epoch > failed.epoch, "{again:?}");
    agent.stop().await;
}

#[tokio::test]
async fn what_ended_badly_shows_how() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, mut client) = start(dir.path(), &sim()).await;
    let mut killed = request("web", "rev-1", "exit:137");
    if let Some(wire::workload_spec::Spec::Container(body)) =
        killed.spec.as_mut().and_then(|spec| spec.spec.as_mut())
    {
        let policy = "no".to_owned();
        body.restart_policy = Some(wire::RestartPolicy { policy, max_retry_count: 0 });
    }
    assert!(apply(&mut client, killed).await.applied);
    let failed = wait(&mut client, "web", ActualState::Failed).await;
    assert_eq!(failed.metadata["container.exit_code"], "137");
    assert_eq!(failed.metadata["container.signal"], "9");
    agent.stop().await;
}

#[tokio::test]
async fn a_bad_request_is_refused_in_the_answer() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, mut client) = start(dir.path(), &sim()).await;
    let bad = [
        request("../etc", "rev-1", "nginx:1"),
        request("web", "rev-1", ""),
        wire::ApplyWorkloadRequest { spec: None, ..request("web", "rev-1", "") },
        wire::ApplyWorkloadRequest { r#type: 99, ..request("web", "rev-1", "nginx:1") },
        wire::ApplyWorkloadRequest { desired_state: 9, ..request("web", "rev-1", "nginx:1") },
    ];
    for request in bad {
        let answer = apply(&mut client, request).await;
        assert!(!answer.applied && !answer.message.is_empty(), "{answer:?}");
    }
    assert!(list(&mut client, WorkloadType::Unspecified).await.is_empty());
    assert!(!delete(&mut client, "../etc").await.success);
    assert!(delete(&mut client, "nobody").await.success, "an unknown one is already gone");
    agent.stop().await;
}

#[tokio::test]
async fn without_docker_the_agent_is_there_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let host = Some(format!("unix://{}", dir.path().join("nobody.sock").display()));
    let runtime = RuntimeChoice::Docker { host };
    let (agent, mut client) = start_with(Config { runtime, ..config(dir.path(), &sim()) }).await;
    let health = client.health_check(wire::HealthCheckRequest {}).await.unwrap().into_inner();
    assert!(health.healthy);
    for kind in ["container", "compose", "vm"] {
        let told = &health.runtime_status[kind];
        assert!(told.starts_with("unhealthy: "), "{kind}: {told}");
    }
    let types = agent.handle.read(|agent, _| agent.facts().types.clone()).await.unwrap();
    assert!(types.is_empty(), "{types:?}");
    agent.stop().await;
}

#[tokio::test]
async fn health_and_actions_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, mut client) = start(dir.path(), &sim()).await;
    let health = client.health_check(wire::HealthCheckRequest {}).await.unwrap().into_inner();
    assert!(health.healthy && !health.version.is_empty());
    for kind in ["container", "compose", "vm"] {
        assert_eq!(health.runtime_status[kind], "healthy");
    }

    let channel = Endpoint::from_shared(format!("http://{}", agent.grpc.unwrap())).unwrap();
    let mut standard = HealthClient::new(channel.connect_lazy());
    let service = "persys.agent.v1.AgentService".to_owned();
    let served = standard.check(HealthCheckRequest { service }).await.unwrap().into_inner();
    assert_eq!(served.status(), ServingStatus::Serving);

    for id in ["a", "b"] {
        apply(&mut client, request(id, "rev-1", "nginx:1")).await;
        wait(&mut client, id, ActualState::Running).await;
    }
    delete(&mut client, "a").await;
    let all = wire::ListActionsRequest { newest_first: true, ..Default::default() };
    let all = client.list_actions(all).await.unwrap().into_inner().actions;
    assert!(all.len() >= 3);
    assert_eq!(all[0].action_type, "delete_workload");
    let some = wire::ListActionsRequest {
        workload_id: "a".to_owned(),
        action_type: "apply_workload".to_owned(),
        status: "completed".to_owned(),
        limit: 1,
        newest_first: false,
    };
    let some = client.list_actions(some).await.unwrap().into_inner().actions;
    assert_eq!(some.len(), 1);
    assert_eq!((some[0].workload_id.as_str(), some[0].status.as_str()), ("a", "completed"));
    assert!(some[0].ended_at >= some[0].started_at && some[0].started_at > 0);
    agent.stop().await;
}

#[tokio::test]
async fn what_exceeds_the_machine_is_refused_at_once_with_the_numbers() {
    let (dir, sim) = (tempfile::tempdir().unwrap(), sim());
    let (agent, mut client) = start(dir.path(), &sim).await;
    let mut greedy = request("web", "rev-1", "nginx:1");
    let spec = greedy.spec.as_mut().and_then(|spec| spec.spec.as_mut()).unwrap();
    let wire::workload_spec::Spec::Container(container) = spec else { panic!("a container") };
    let memory_bytes = 32_i64 << 40;
    container.resources = Some(wire::ResourceLimits { memory_bytes, ..Default::default() });
    let refused = apply(&mut client, greedy).await;
    assert!(!refused.applied, "{refused:?}");
    let said = &refused.message;
    assert!(said.starts_with("INSUFFICIENT_RESOURCES: the node has no room for it"), "{said}");
    assert!(said.contains("it needs 33554432 MiB of memory, and the machine has"), "{said}");
    let unknown = status(&mut client, "web").await.unwrap_err();
    assert!(unknown.message().contains("status not found"), "nothing of it is kept: {unknown}");
    assert!(apply(&mut client, request("web", "rev-1", "nginx:1")).await.applied);
    wait(&mut client, "web", ActualState::Running).await;
    agent.stop().await;
}
