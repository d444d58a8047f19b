//! Who may do what.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use persys_identity::{
    Authority, ClusterName, Exposure, Grant, Name, Role, Source, TrustDomain, Validity,
};
use persys_proto::control::v1 as wire;
use persys_scheduler::app::{self, Error, Security};
use tonic::Code;

use crate::bench::{Bench, config, container, node};

fn somewhere() -> SocketAddr {
    "127.0.0.1:9".parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_speaks_for_its_own_node_and_does_nothing_else() {
    let bench = Bench::mtls().await;
    let mut agent = bench.client(Role::Agent, "n1").await;
    let refused = agent.register_node(node("n2", somewhere())).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let beat = wire::HeartbeatRequest { node_id: "n2".to_owned(), ..Default::default() };
    assert_eq!(agent.heartbeat(beat).await.unwrap_err().code(), Code::PermissionDenied);
    let refused = agent.apply_workload(container("web")).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let all = wire::ListNodesRequest::default();
    assert_eq!(agent.list_nodes(all).await.unwrap_err().code(), Code::PermissionDenied);
    assert!(agent.register_node(node("n1", somewhere())).await.unwrap().into_inner().accepted);
    let seen = bench.running.handle.read(|world| {
        let nodes: Vec<_> = world.nodes().map(|view| view.node.facts.id.to_string()).collect();
        (nodes, world.workloads().count())
    });
    assert_eq!(seen.await.unwrap(), (vec!["n1".to_owned()], 0));
    assert!(
        bench.page("/metrics").await.contains("method=\"refused\",code=\"PermissionDenied\"} 2")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn others_are_not_agents() {
    let bench = Bench::mtls().await;
    for role in [Role::Operator, Role::Gateway, Role::User, Role::Metrics, Role::Scheduler] {
        let mut client = bench.client(role, "n1").await;
        let refused = client.register_node(node("n1", somewhere())).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{role}");
    }
}

#[tokio::test]
async fn a_scheduler_starts_only_as_itself_and_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (domain, cluster) = (TrustDomain::new("example.org"), ClusterName::new("east"));
    let (domain, cluster, now) = (domain.unwrap(), cluster.unwrap(), SystemTime::now());
    let authority = Authority::open_or_create(folder.path(), &domain, &cluster, now).unwrap();
    let validity = Validity { now, lifetime: Duration::from_hours(1) };
    let issued = authority.issue(&Grant::new(Role::Agent, Name::fixed("n1")), validity).unwrap();
    let source = Source::Bundle(folder.path().join("agent.pem"));
    source.save(&issued).unwrap();
    let refused = app::start(config(folder.path(), Security::Mtls(source))).await.unwrap_err();
    assert!(matches!(refused, Error::WrongIdentity { .. }), "{refused}");

    let mut open = config(folder.path(), Security::Insecure(Exposure::Loopback));
    open.grpc = "0.0.0.0:0".parse().unwrap();
    let refused = app::start(open).await.unwrap_err();
    assert!(matches!(refused, Error::Exposed(_)), "{refused}");

    let first =
        app::start(config(folder.path(), Security::Insecure(Exposure::Loopback))).await.unwrap();
    let refused = app::start(config(folder.path(), Security::Insecure(Exposure::Loopback)))
        .await
        .unwrap_err();
    assert!(matches!(refused, Error::Store(_)), "{refused}");
    first.stop().await;
}
