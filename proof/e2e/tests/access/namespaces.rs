//! Namespaces: what is seen, what is changed, and what workloads may have of their nodes.

use persys_e2e::stack::{Stack, Wire};
use persys_identity::Role;
use persys_model::entry::UserRole;
use persys_model::spec::NAMESPACE_KEY;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use persys_proto::control::v1::workload_spec::Workload;
use tonic::Code;
use tonic::transport::Channel;

use crate::call::{WEB, bind, namespace};

fn container(id: &str, namespace: &str) -> wire::ApplyWorkloadRequest {
    let container = wire::ContainerSpec { image: "alpine".to_owned(), ..Default::default() };
    let spec = wire::WorkloadSpec {
        workload: Some(Workload::Container(container)),
        metadata: [(NAMESPACE_KEY.to_owned(), namespace.to_owned())].into(),
        ..Default::default()
    };
    wire::ApplyWorkloadRequest {
        workload_id: id.to_owned(),
        spec: Some(spec),
        ..Default::default()
    }
}

fn privileged(mut request: wire::ApplyWorkloadRequest) -> wire::ApplyWorkloadRequest {
    if let Some(Workload::Container(container)) =
        request.spec.as_mut().and_then(|spec| spec.workload.as_mut())
    {
        container.privileged = true;
    }
    request
}

async fn control(stack: &Stack, role: Role, name: &str) -> AgentControlClient<Channel> {
    AgentControlClient::new(stack.channel(role, name).await)
}

async fn listed(client: &mut AgentControlClient<Channel>) -> Vec<String> {
    let all = client.list_workloads(wire::ListWorkloadsRequest::default()).await.unwrap();
    all.into_inner().workloads.into_iter().map(|one| one.workload_id).collect()
}

async fn told(client: &mut AgentControlClient<Channel>) -> Vec<String> {
    let all = client.list_events(wire::ListEventsRequest::default()).await.unwrap();
    let mut about: Vec<_> =
        all.into_inner().events.into_iter().map(|event| event.workload_id).collect();
    about.sort();
    about.dedup();
    about
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_is_all_that_its_people_see_and_change() {
    let stack = Stack::start(Wire::Mtls).await;
    for name in [WEB, "db"] {
        namespace(&stack, name).await;
    }
    bind(&stack, "olga", UserRole::Operator, &[WEB]).await;
    bind(&stack, "vic", UserRole::Viewer, &["db"]).await;
    let mut alice = control(&stack, Role::Operator, "alice").await;
    let mut olga = control(&stack, Role::User, "olga").await;
    let mut vic = control(&stack, Role::User, "vic").await;

    for (id, at) in [("plain", "default"), ("shop", WEB), ("data", "db")] {
        let applied = alice.apply_workload(container(id, at)).await.unwrap().into_inner();
        assert!(applied.success, "{applied:?}");
    }
    assert_eq!(listed(&mut alice).await, ["data", "plain", "shop"]);
    assert_eq!(listed(&mut olga).await, ["shop"]);
    assert_eq!(listed(&mut vic).await, ["data"]);
    assert_eq!(told(&mut olga).await, ["shop"]);
    assert_eq!(told(&mut vic).await, ["data"]);

    // What is elsewhere is not there; what is here and only to be seen is refused.
    let get = |id: &str| wire::GetWorkloadRequest { workload_id: id.to_owned() };
    let missing = olga.get_workload(get("data")).await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    let delete =
        |id: &str| wire::DeleteWorkloadRequest { workload_id: id.to_owned(), volumes: false };
    let answer = olga.delete_workload(delete("data")).await.unwrap().into_inner();
    assert_eq!((answer.success, &*answer.error_message), (false, "there is no workload data"));
    assert_eq!(
        vic.delete_workload(delete("data")).await.unwrap_err().code(),
        Code::PermissionDenied
    );

    // The namespace of what is stored counts, not what a request says.
    let taken = olga.apply_workload(container("data", WEB)).await.unwrap().into_inner();
    assert_eq!((taken.success, &*taken.error_message), (false, "the name data is taken"));
    let elsewhere = olga.apply_workload(container("mine", "db")).await.unwrap_err();
    assert_eq!(elsewhere.code(), Code::PermissionDenied);
    let moved = alice.apply_workload(container("data", WEB)).await.unwrap().into_inner();
    assert!(!moved.success && moved.error_message.contains("does not move"), "{moved:?}");
    let nowhere = alice.apply_workload(container("x", "no-such")).await.unwrap().into_inner();
    assert!(!nowhere.success && nowhere.error_message.contains("no namespace no-such"));
    let nonsense = alice.apply_workload(container("x", "No Such")).await.unwrap().into_inner();
    assert!(!nonsense.success && nonsense.error_message.contains(NAMESPACE_KEY), "{nonsense:?}");

    let own = olga.apply_workload(container("mine", WEB)).await.unwrap().into_inner();
    assert!(own.success, "{own:?}");
    assert_eq!(listed(&mut olga).await, ["mine", "shop"]);
    assert!(olga.delete_workload(delete("mine")).await.unwrap().into_inner().success);

    // What is allowed is the namespace's word, whoever asks: on apply and on update.
    for id in ["root", "shop"] {
        for client in [&mut olga, &mut alice] {
            let refused = client.apply_workload(privileged(container(id, WEB))).await.unwrap_err();
            assert_eq!(refused.code(), Code::PermissionDenied);
            assert!(refused.message().contains("persys namespace set web --allow-privileged"));
        }
    }
    let applied = alice.apply_workload(privileged(container("root", "default"))).await.unwrap();
    assert!(applied.into_inner().success, "as it always was");
    stack.stop().await;
}
