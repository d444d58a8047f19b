//! The way to one agent while that comes and goes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use persys_cluster::input::Probe;
use persys_identity::Role;
use persys_model::command::{Answer, Command, Order};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::token::{Epoch, Session, Term};
use persys_scheduler::links::grpc::{GrpcLinks, Way};
use persys_scheduler::links::{Links, Target};
use tokio::net::TcpListener;

use crate::agent::FakeAgent;
use crate::bench::Bench;

pub(crate) fn removal(epoch: u64) -> Command {
    Command {
        term: Term(1),
        session: Session(1),
        epoch: Epoch(epoch),
        workload: WorkloadId::new("web").unwrap(),
        order: Order::Remove { purge: true },
    }
}

fn target(node: &str, at: SocketAddr) -> Target {
    let (endpoint, host) = (Arc::from(at.to_string()), Arc::from("host-1"));
    Target { node: NodeId::new(node).unwrap(), endpoint, host, context: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_restarts_is_found_again() {
    let links = GrpcLinks::new(Way::Plain);
    let agent = FakeAgent::start(None).await;
    let (at, node) = (agent.address, target("n1", agent.address));
    assert_eq!(links.probe(&node).await, Probe::Answered);
    let answer = links.order(&node, removal(7)).await.unwrap();
    assert_eq!(answer, Answer::Removed { epoch: Epoch(7) }.into());

    agent.stop().await;
    // The first answer may still be that of the connection that broke.
    let begun = Instant::now();
    while links.probe(&node).await != Probe::Refused {
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody listens there");
    }
    let refused = links.order(&node, removal(8)).await.unwrap_err();
    assert!(refused.to_string().contains("nobody listens"), "{refused}");

    let _again = FakeAgent::start_at(at, None).await;
    links.order(&node, removal(8)).await.unwrap();
    assert_eq!(links.probe(&node).await, Probe::Answered);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_says_nothing_is_silent() {
    let links = GrpcLinks::new(Way::Plain);
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = target("n1", mute.local_addr().unwrap());
    let begun = Instant::now();
    assert_eq!(links.probe(&node).await, Probe::Silent);
    assert!(begun.elapsed() < Duration::from_secs(5));
}

/// Another agent at the same address is not the one that was meant.
#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_agent_is_not_obeyed() {
    let bench = Bench::mtls().await;
    let agent = FakeAgent::start(bench.credentials(Role::Agent, "n2")).await;
    let links = GrpcLinks::new(Way::Tls(bench.credentials(Role::Scheduler, "s1").unwrap()));
    let (n1, n2) = (target("n1", agent.address), target("n2", agent.address));
    assert_eq!(links.probe(&n1).await, Probe::Silent);
    assert!(links.order(&n1, removal(1)).await.is_err());
    assert!(agent.notes.commands.lock().unwrap().is_empty());
    assert_eq!(links.probe(&n2).await, Probe::Answered);
}
