//! The way to one agent while that comes and goes.

use std::time::{Duration, Instant};

use persys_cluster::input::Probe;
use persys_identity::Role;
use persys_model::command::{Answer, Command, Order};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::token::{Epoch, Session, Term};
use persys_scheduler::links::Links;
use persys_scheduler::links::grpc::{GrpcLinks, Way};
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

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_restarts_is_found_again() {
    let links = GrpcLinks::new(Way::Plain);
    let node = NodeId::new("n1").unwrap();
    let agent = FakeAgent::start(None).await;
    let (at, endpoint) = (agent.address, agent.address.to_string());
    assert_eq!(links.probe(&node, &endpoint).await, Probe::Answered);
    let answer = links.order(&node, &endpoint, removal(7)).await.unwrap();
    assert_eq!(answer, Answer::Removed { epoch: Epoch(7) });

    agent.stop().await;
    assert_eq!(links.probe(&node, &endpoint).await, Probe::Refused);
    let refused = links.order(&node, &endpoint, removal(8)).await.unwrap_err();
    assert!(refused.to_string().contains("nobody listens"), "{refused}");

    let _again = FakeAgent::start_at(at, None).await;
    links.order(&node, &endpoint, removal(8)).await.unwrap();
    assert_eq!(links.probe(&node, &endpoint).await, Probe::Answered);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_says_nothing_is_silent() {
    let links = GrpcLinks::new(Way::Plain);
    let node = NodeId::new("n1").unwrap();
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = mute.local_addr().unwrap().to_string();
    let begun = Instant::now();
    assert_eq!(links.probe(&node, &endpoint).await, Probe::Silent);
    assert!(begun.elapsed() < Duration::from_secs(5));
}

/// Another agent at the same address is not the one that was meant.
#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_agent_is_not_obeyed() {
    let bench = Bench::mtls().await;
    let agent = FakeAgent::start(bench.credentials(Role::Agent, "n2")).await;
    let endpoint = agent.address.to_string();
    let links = GrpcLinks::new(Way::Tls(bench.credentials(Role::Scheduler, "s1").unwrap()));
    let (n1, n2) = (NodeId::new("n1").unwrap(), NodeId::new("n2").unwrap());
    assert_eq!(links.probe(&n1, &endpoint).await, Probe::Silent);
    assert!(links.order(&n1, &endpoint, removal(1)).await.is_err());
    assert!(agent.notes.commands.lock().unwrap().is_empty());
    assert_eq!(links.probe(&n2, &endpoint).await, Probe::Answered);
}
