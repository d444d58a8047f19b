//! For whom a request is passed on: only a scheduler's word counts, and only once.

use persys_agent::app::Reach;
use persys_cluster::settings::Settings;
use persys_identity::Role;
use persys_proto::control::v1 as wire;
use tonic::{Code, Request};

use crate::rig::{Client, Rig, container};

const HEADER: &str = "persys-on-behalf-of";

fn said<T>(message: T, for_whom: &'static str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().append(HEADER, for_whom.parse().unwrap());
    // Saying it twice does not help either.
    request.metadata_mut().append(HEADER, for_whom.parse().unwrap());
    request
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_no_scheduler_gains_nothing_by_naming_another() {
    let mut rig = Rig::start(2, true, Settings::default()).await;
    rig.add_agent("n1", Reach::Called, rig.addresses(0)).await;
    for scheduler in &rig.schedulers {
        let at = scheduler.grpc;
        let others = [Role::Agent, Role::User, Role::Gateway, Role::Metrics];
        for role in others {
            let mut client = Client::new(rig.channel(at, role, "n1").await);
            let refused = client.apply_workload(said(container("web"), "operator/alice")).await;
            assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied, "{role}");
            let all = said(wire::ListNodesRequest::default(), "operator/alice");
            let refused = client.list_nodes(all).await.unwrap_err();
            assert_eq!(refused.code(), Code::PermissionDenied, "{role}");
        }
        // An agent for another node, and an operator as an agent.
        let beat = || wire::HeartbeatRequest { node_id: "n1".to_owned(), ..Default::default() };
        let mut agent = Client::new(rig.channel(at, Role::Agent, "n2").await);
        let refused = agent.heartbeat(said(beat(), "agent/n1")).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied);
        let mut operator = Client::new(rig.channel(at, Role::Operator, "alice").await);
        let refused = operator.heartbeat(said(beat(), "agent/n1")).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied);
        // What they may do they still may.
        let all = said(wire::ListNodesRequest::default(), "agent/n1");
        assert_eq!(operator.list_nodes(all).await.unwrap().into_inner().nodes.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedulers_word_is_taken_for_whom_it_names_and_passed_on_once() {
    let rig = Rig::start(2, true, Settings::default()).await;
    let (leader, follower) = (rig.schedulers[0].grpc, rig.schedulers[1].grpc);
    let mut peer = Client::new(rig.channel(leader, Role::Scheduler, "s9").await);
    // A scheduler itself may do nothing here; the operator it names may, an agent it names not.
    let refused = peer.apply_workload(container("web")).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let refused = peer.apply_workload(said(container("web"), "agent/n1")).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    for nonsense in ["operator", "king/arthur", "operator/a b"] {
        let refused = peer.apply_workload(said(container("web"), nonsense)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{nonsense}");
    }
    let done = peer.apply_workload(said(container("web"), "operator/alice")).await.unwrap();
    assert!(done.into_inner().success);

    // To one that does not lead: it is not passed on a second time.
    let mut peer = Client::new(rig.channel(follower, Role::Scheduler, "s9").await);
    let refused = peer.apply_workload(said(container("two"), "operator/alice")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("passed on"), "{}", refused.message());
    assert!(refused.message().contains(&leader.to_string()), "{}", refused.message());
    assert!(refused.metadata().contains_key("retry-after"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_certificates_too_nothing_is_passed_on_twice() {
    let rig = Rig::start(2, false, Settings::default()).await;
    let mut client = rig.operator(1).await;
    let refused = client.apply_workload(said(container("web"), "operator/alice")).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
    assert!(client.apply_workload(container("web")).await.unwrap().into_inner().success);
}
