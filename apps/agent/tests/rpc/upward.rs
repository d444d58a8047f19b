//! The agent and its schedulers.

use std::path::Path;
use std::time::{Duration, Instant};

use persys_agent::app::{self, Config, Reach};
use persys_proto::agent::v1::ActualState;

use crate::node::{apply, config, request, sim, start_with, wait};
use crate::scheduler::{Kind, serve};

fn with(dir: &Path, schedulers: &[std::net::SocketAddr]) -> Config {
    let schedulers = schedulers.iter().map(ToString::to_string).collect();
    Config { schedulers, ..config(dir, &sim()) }
}

async fn until(mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(15);
    while !so() {
        assert!(Instant::now() < deadline, "it did not come to that");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn the_one_that_leads_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (follows, leads) = (serve(Kind::Follows).await, serve(Kind::Leads).await);
    let config = with(dir.path(), &[nobody, follows.address, leads.address]);
    let (agent, mut client) = start_with(config).await;
    {
        let registrations = leads.fake.registrations.lock().unwrap();
        let joined = registrations.first().unwrap();
        assert_eq!(joined.node_id, "node-1");
        assert_eq!(joined.grpc_endpoint, agent.grpc.unwrap().to_string());
        assert_eq!(joined.labels["os"], "linux");
        assert!(!joined.host_id.is_empty() && !joined.incarnation.is_empty());
        let can = joined.capabilities.as_ref().unwrap();
        assert!(can.cpu_total_millicores >= 1000 && can.memory_total_mb > 0);
        assert_eq!(can.supported_workload_types, ["container", "compose", "vm"]);
    }
    assert!(apply(&mut client, request("web", "rev-1", "nginx:1")).await.applied);
    wait(&mut client, "web", ActualState::Running).await;
    until(|| {
        let beats = leads.fake.beats.lock().unwrap();
        beats.iter().flat_map(|beat| &beat.reports).any(|report| report.state == "Running")
    })
    .await;
    agent.stop().await;
}

#[tokio::test]
async fn an_old_scheduler_is_told_what_it_reads() {
    let dir = tempfile::tempdir().unwrap();
    let old = serve(Kind::Old).await;
    let (agent, mut client) = start_with(with(dir.path(), &[old.address])).await;
    assert!(apply(&mut client, request("web", "rev-1", "nginx:1")).await.applied);
    wait(&mut client, "web", ActualState::Running).await;
    until(|| {
        let beats = old.fake.beats.lock().unwrap();
        // Each time, not only when something changed.
        let told = |beat: &&persys_proto::control::v1::HeartbeatRequest| {
            beat.workload_statuses.iter().any(|status| status.state == "Running")
        };
        beats.iter().filter(told).count() >= 2
    })
    .await;
    agent.stop().await;
}

#[tokio::test]
async fn one_that_listens_nowhere_says_so_and_needs_a_scheduler() {
    let dir = tempfile::tempdir().unwrap();
    let nobody = Config { reach: Reach::Stream, ..with(dir.path(), &[]) };
    let refused = app::start(nobody).await.unwrap_err();
    assert!(matches!(refused, app::Error::Nowhere), "{refused}");

    // One that knows no streams takes the address and finds nobody there.
    let old = serve(Kind::Old).await;
    let config = Config {
        reach: Reach::Stream,
        advertise: Some("10.0.0.1:1".to_owned()),
        ..with(dir.path(), &[old.address])
    };
    let agent = app::start(config).await.unwrap();
    assert_eq!(agent.grpc, None);
    until(|| !old.fake.beats.lock().unwrap().is_empty()).await;
    let endpoint = old.fake.registrations.lock().unwrap()[0].grpc_endpoint.clone();
    assert_eq!(endpoint, "stream.invalid:1");
    let begun = Instant::now();
    agent.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(2));
}
