//! Workloads that are not there: the answers of ours to others, and of others to ours.

use persys_cluster::input::Ask;
use persys_e2e::stack::{Stack, Wire};
use persys_identity::Role;
use persys_model::id::WorkloadId;
use persys_model::phase::Phase;
use persys_proto::compute::v1 as compute;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::calls::{call, until};
use crate::messages::{agent as agent_wire, control};
use crate::their_agent::{self, Missing};

async fn refusal<Q: prost::Message + 'static>(
    channel: &Channel,
    method: &str,
    request: Q,
) -> Status {
    let answer: Result<(), Status> = call(channel, method, request).await;
    answer.expect_err(method)
}

async fn apply(operator: &Channel, id: &str) {
    let request = control::ApplyWorkloadRequest {
        workload_id: id.to_owned(),
        revision_id: "r1".to_owned(),
        desired_state: "Running".to_owned(),
        spec: Some(control::WorkloadSpec {
            kind: "container".to_owned(),
            container: Some(control::ContainerSpec {
                image: "nginx:1".to_owned(),
                restart_policy: "always".to_owned(),
                ..control::ContainerSpec::default()
            }),
            ..control::WorkloadSpec::default()
        }),
    };
    let method = "persys.control.v1.AgentControl/ApplyWorkload";
    let answer: control::ApplyWorkloadResponse = call(operator, method, request).await.unwrap();
    assert!(answer.success, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_workload_is_not_found_at_our_scheduler() {
    let stack = Stack::start(Wire::Mtls).await;
    let operator = stack.channel(Role::Operator, "alice").await;
    let named = control::Named { name: "nobody".to_owned() };
    let found = refusal(&operator, "persys.control.v1.AgentControl/GetWorkload", named).await;
    assert_eq!(found.code(), Code::NotFound, "{found:?}");
    assert!(found.message().contains("nobody"), "{found:?}");
    // The first field of each is the name of the workload.
    let named = || compute::RestartRequest { workload_id: "nobody".to_owned() };
    for method in ["Why", "Describe", "Restart", "Pause", "Resume", "Logs"] {
        let found =
            refusal(&operator, &format!("persys.compute.v1.Compute/{method}"), named()).await;
        assert_eq!(found.code(), Code::NotFound, "{method}: {found:?}");
    }
    stack.stop().await;
}

/// The status of the contract keeps the code and the words that schedulers of the field look for; every
/// call of ours says `NotFound`.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_workload_is_not_found_at_our_agent() {
    let mut stack = Stack::start(Wire::Mtls).await;
    stack.add_lone_agent("lone").await;
    let channel = stack.agent_channel("lone").await;
    let named = agent_wire::Named { id: "nobody".to_owned() };
    let method = "persys.agent.v1.AgentService/GetWorkloadStatus";
    let found = refusal(&channel, method, named).await;
    assert_eq!((found.code(), found.message()), (Code::Unknown, "status not found: nobody"));
    let named = || compute::RestartRequest { workload_id: "nobody".to_owned() };
    for method in ["Inspect", "Logs"] {
        let method = format!("persys.compute.v1.Inside/{method}");
        let found = refusal(&channel, &method, named()).await;
        assert_eq!(found.code(), Code::NotFound, "{method}: {found:?}");
    }
    stack.stop().await;
}

/// Each way in which an agent of the contract says that it has nothing counts as gone.
#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_say_that_nothing_is_there_ends_a_delete() {
    let stack = their_agent::stack(Wire::Plain).await;
    let agent = their_agent::start(&stack, "old-1").await;
    let operator = stack.channel(Role::Operator, "alice").await;
    let handle = &stack.scheduler.handle;
    let phase_of = |id: &WorkloadId| {
        let id = id.clone();
        async move {
            let look = move |world: &persys_cluster::world::World| {
                world.workload(&id).map(|view| view.assignment.phase)
            };
            handle.read(look).await.unwrap()
        }
    };
    for (number, missing) in
        [Missing::Words, Missing::Code, Missing::FailedStatus].into_iter().enumerate()
    {
        let id = WorkloadId::new(&format!("gone-{number}")).unwrap();
        apply(&operator, id.as_str()).await;
        let runs = || async { (phase_of(&id).await == Some(Phase::Running)).then_some(()) };
        until("it runs", runs).await;
        agent.inside(|inside| {
            inside.missing = missing;
            inside.has.remove(id.as_str());
        });
        handle.ask(Ask::Delete(id.clone())).await.unwrap();
        let gone = || async { phase_of(&id).await.is_none().then_some(()) };
        until(&format!("{missing:?} counts as gone"), gone).await;
    }
    stack.stop().await;
}
