//! An agent commanded by somebody who knows no tokens: its six calls.

use persys_e2e::stack::{Stack, Wire};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::calls::{call, standard_services, until};
use crate::messages::agent as wire;

/// `services: {web: {image: "nginx:1"}}` in base64, as old schedulers send it.
const COMPOSE: &str = "c2VydmljZXM6IHt3ZWI6IHtpbWFnZTogIm5naW54OjEifX0K";

const KINDS: [(i32, &str); 3] = [(1, "container"), (2, "compose"), (3, "vm")];

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_commanded_without_certificates() {
    everything(Wire::Plain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_commanded_with_certificates() {
    everything(Wire::Mtls).await;
}

async fn everything(wire: Wire) {
    let mut stack = Stack::start(wire).await;
    stack.add_lone_agent("lone").await;
    let channel = stack.agent_channel("lone").await;
    health(&channel).await;
    for (kind, word) in KINDS {
        life(&channel, kind, word).await;
    }
    states(&channel).await;
    refusals(&channel).await;
    standard_services(&channel, "persys.agent.v1.AgentService").await;
    stack.stop().await;
}

async fn agent<Q, A>(channel: &Channel, method: &str, request: Q) -> Result<A, Status>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    call(channel, &format!("persys.agent.v1.AgentService/{method}"), request).await
}

fn named(id: &str) -> wire::Named {
    wire::Named { id: id.to_owned() }
}

fn spec(kind: i32, image: &str) -> wire::WorkloadSpec {
    let mut spec = wire::WorkloadSpec::default();
    match kind {
        1 => {
            spec.container =
                Some(wire::ContainerSpec { image: image.to_owned(), command: Vec::new() });
        }
        2 => {
            let compose_yaml = COMPOSE.to_owned();
            spec.compose =
                Some(wire::ComposeSpec { project_name: "shop".to_owned(), compose_yaml });
        }
        _ => {
            spec.vm = Some(wire::VmSpec {
                name: "vm1".to_owned(),
                vcpus: 1,
                memory_mb: 512,
                disks: vec![wire::DiskConfig {
                    path: "/var/lib/persys/vm1.qcow2".to_owned(),
                    device: "vda".to_owned(),
                    format: "qcow2".to_owned(),
                    size_gb: 5,
                    kind: "disk".to_owned(),
                    boot: true,
                }],
            });
        }
    }
    spec
}

fn request(id: &str, kind: i32, revision: &str) -> wire::ApplyWorkloadRequest {
    wire::ApplyWorkloadRequest {
        id: id.to_owned(),
        kind,
        revision_id: revision.to_owned(),
        desired_state: wire::RUNNING,
        spec: Some(spec(kind, "nginx:1")),
    }
}

async fn apply(
    channel: &Channel,
    request: wire::ApplyWorkloadRequest,
) -> wire::ApplyWorkloadResponse {
    agent(channel, "ApplyWorkload", request).await.unwrap()
}

async fn status(channel: &Channel, id: &str) -> Result<wire::WorkloadStatus, Status> {
    let found: wire::GetWorkloadStatusResponse =
        agent(channel, "GetWorkloadStatus", named(id)).await?;
    Ok(found.status.unwrap())
}

async fn state_is(channel: &Channel, id: &str, state: i32) -> wire::WorkloadStatus {
    let look =
        || async { status(channel, id).await.ok().filter(|shown| shown.actual_state == state) };
    until(&format!("{id} is in state {state}"), look).await
}

async fn list(channel: &Channel, kind: i32) -> Vec<wire::WorkloadStatus> {
    let request = wire::ListWorkloadsRequest { kind };
    let listed: wire::ListWorkloadsResponse =
        agent(channel, "ListWorkloads", request).await.unwrap();
    listed.workloads
}

async fn health(channel: &Channel) {
    let health: wire::HealthCheckResponse = agent(channel, "HealthCheck", ()).await.unwrap();
    assert!(health.healthy && !health.version.is_empty());
    for (_, word) in KINDS {
        assert_eq!(health.runtime_status[word], "healthy");
    }
}

async fn life(channel: &Channel, kind: i32, word: &str) {
    let id = format!("e2e-{word}");
    let answer = apply(channel, request(&id, kind, "rev-1")).await;
    assert!(answer.applied && !answer.skipped, "{word}: {answer:?}");
    let shown = state_is(channel, &id, wire::ACTUALLY_RUNNING).await;
    assert_eq!((&*shown.id, shown.kind, &*shown.revision_id), (&*id, kind, "rev-1"));
    assert!(shown.desired_state == wire::RUNNING && shown.created_at > 0);
    assert_eq!(list(channel, kind).await.len(), 1);
    assert!(list(channel, kind % 3 + 1).await.is_empty(), "the filter filters");

    let actions = |status: &str| wire::ListActionsRequest {
        workload_id: id.clone(),
        action_type: "apply_workload".to_owned(),
        status: status.to_owned(),
        limit: 5,
        newest_first: true,
    };
    let done: wire::ListActionsResponse =
        agent(channel, "ListActions", actions("completed")).await.unwrap();
    assert!(!done.actions.is_empty());
    assert!(done.actions.iter().all(|one| one.workload_id == id && !one.task_id.is_empty()));
    let failed: wire::ListActionsResponse =
        agent(channel, "ListActions", actions("failed")).await.unwrap();
    assert!(failed.actions.is_empty(), "{failed:?}");

    let deleted: wire::DeleteWorkloadResponse =
        agent(channel, "DeleteWorkload", named(&id)).await.unwrap();
    assert!(deleted.success, "{}", deleted.message);
    let gone = || async { status(channel, &id).await.err() };
    let gone = until("it is gone", gone).await;
    assert_eq!(gone.code(), Code::Unknown, "old schedulers take exactly this for deleted");
    assert_eq!(gone.message(), format!("status not found: {id}"));
    assert!(list(channel, 0).await.is_empty());
    let again: wire::DeleteWorkloadResponse =
        agent(channel, "DeleteWorkload", named(&id)).await.unwrap();
    assert!(again.success, "an unknown one is already gone");
}

/// The same revision: skipped, stopped, started, and never made anew.
async fn states(channel: &Channel) {
    assert!(apply(channel, request("web", 1, "rev-1")).await.applied);
    state_is(channel, "web", wire::ACTUALLY_RUNNING).await;
    let again = apply(channel, request("web", 1, "rev-1")).await;
    assert!(again.applied && again.skipped, "{again:?}");
    let stop =
        wire::ApplyWorkloadRequest { desired_state: wire::STOPPED, ..request("web", 1, "rev-1") };
    let stopped = apply(channel, stop).await;
    assert!(stopped.applied && !stopped.skipped, "{stopped:?}");
    state_is(channel, "web", wire::ACTUALLY_STOPPED).await;
    assert!(apply(channel, request("web", 1, "rev-1")).await.applied);
    state_is(channel, "web", wire::ACTUALLY_RUNNING).await;
    let newer = apply(channel, request("web", 1, "rev-2")).await;
    assert!(newer.applied && !newer.skipped, "{newer:?}");
    let look = || async {
        status(channel, "web").await.ok().filter(|shown| {
            shown.revision_id == "rev-2" && shown.actual_state == wire::ACTUALLY_RUNNING
        })
    };
    until("the new revision runs", look).await;
    let deleted: wire::DeleteWorkloadResponse =
        agent(channel, "DeleteWorkload", named("web")).await.unwrap();
    assert!(deleted.success);
}

/// Errors are in the message, never in the call.
async fn refusals(channel: &Channel) {
    let without = |edit: &dyn Fn(&mut wire::ApplyWorkloadRequest)| {
        let mut request = request("bad", 1, "rev-1");
        edit(&mut request);
        request
    };
    for bad in [
        without(&|request| request.id.clear()),
        without(&|request| "../etc/passwd".clone_into(&mut request.id)),
        without(&|request| request.kind = 99),
        without(&|request| request.kind = 3),
        without(&|request| request.desired_state = 9),
        without(&|request| request.spec = None),
        without(&|request| request.spec = Some(spec(1, ""))),
    ] {
        let answer = apply(channel, bad.clone()).await;
        assert!(!answer.applied && !answer.message.is_empty(), "{bad:?}: {answer:?}");
    }
    let none = || async { list(channel, 0).await.is_empty().then_some(()) };
    until("nothing is left", none).await;
}
