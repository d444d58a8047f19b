//! The agent and its schedulers.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use persys_agent::app::{self, Config, Reach};
use persys_proto::agent::v1 as wire;
use persys_proto::agent::v1::ActualState;

use crate::node::{apply, config, delete, request, sim, start_with, wait};
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
        assert_eq!(joined.cluster_id, "test");
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
async fn all_six_amounts_of_usage_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let old = serve(Kind::Old).await;
    let (agent, mut client) = start_with(with(dir.path(), &[old.address])).await;
    let mut big = request("web", "rev-1", "nginx:1");
    let spec = big.spec.as_mut().and_then(|spec| spec.spec.as_mut()).unwrap();
    let wire::workload_spec::Spec::Container(container) = spec else { panic!("a container") };
    container.resources = Some(wire::ResourceLimits {
        cpu_shares: 250,
        memory_bytes: 64 << 20,
        ..wire::ResourceLimits::default()
    });
    container.managed_volumes = vec![wire::ManagedVolumeSpec {
        name: "data".to_owned(),
        size_gb: 2,
        mount_path: "/data".to_owned(),
        ..wire::ManagedVolumeSpec::default()
    }];
    let applied = apply(&mut client, big).await;
    assert!(applied.applied, "{}", applied.message);
    until(|| {
        let beats = old.fake.beats.lock().unwrap();
        beats.iter().filter_map(|beat| beat.usage).any(|usage| {
            usage.cpu_allocated_millicores == 250
                && usage.memory_allocated_mb == 64
                && usage.disk_allocated_gb == 2
                && usage.memory_used_mb > 0
                && usage.disk_used_gb > 0
                && usage.cpu_used_millicores >= 0
        })
    })
    .await;
    agent.stop().await;
}

#[tokio::test]
async fn a_lease_that_ended_while_an_old_scheduler_was_away_is_asked_for_again() {
    let dir = tempfile::tempdir().unwrap();
    let old = serve(Kind::Old).await;
    let (agent, _client) = start_with(with(dir.path(), &[old.address])).await;
    let registered = || old.fake.registrations.lock().unwrap().len();
    until(|| old.fake.beats.lock().unwrap().len() >= 2).await;
    assert_eq!(registered(), 1, "a lease that is kept needs no second registration");
    // Its beats are a second apart, so a lease without a date is three.
    old.fake.away.store(true, Ordering::SeqCst);
    until(|| old.fake.missed.load(Ordering::SeqCst) >= 4).await;
    assert_eq!(registered(), 1);
    old.fake.away.store(false, Ordering::SeqCst);
    until(|| registered() == 2).await;
    agent.stop().await;
}

#[tokio::test]
async fn a_node_that_an_old_scheduler_drains_starts_nothing_and_can_be_emptied() {
    let dir = tempfile::tempdir().unwrap();
    let old = serve(Kind::Old).await;
    let (agent, mut client) = start_with(with(dir.path(), &[old.address])).await;
    for id in ["web", "db"] {
        assert!(apply(&mut client, request(id, "rev-1", "nginx:1")).await.applied);
        wait(&mut client, id, ActualState::Running).await;
    }
    old.fake.drains.store(true, Ordering::SeqCst);
    let handle = agent.handle.clone();
    while !handle.read(|agent, _| agent.draining()).await.unwrap() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let refused = apply(&mut client, request("new", "rev-1", "nginx:1")).await;
    assert!(!refused.applied && refused.message.contains("is being drained"), "{refused:?}");
    let mut stopped = request("db", "rev-1", "nginx:1");
    stopped.desired_state = wire::DesiredState::Stopped.into();
    let stopped = apply(&mut client, stopped).await;
    assert!(stopped.applied, "{}", stopped.message);
    wait(&mut client, "db", ActualState::Stopped).await;
    for id in ["web", "db"] {
        let deleted = delete(&mut client, id).await;
        assert!(deleted.success, "{}", deleted.message);
    }
    let empty = move || {
        let handle = handle.clone();
        async move { handle.read(|agent, _| agent.intents().is_empty()).await.unwrap() }
    };
    while !empty().await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
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
