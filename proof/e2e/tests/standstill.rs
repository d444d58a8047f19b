//! What stands still on a node: shown, recorded as a drift, repaired by its agent, and left alone where
//! its user paused it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop")]

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_cluster::effects::Reply;
use persys_cluster::input::Ask;
use persys_e2e::cluster::{Cluster, node, workload};
use persys_model::drift::DriftKind;
use persys_model::id::RevisionId;
use persys_model::phase::Phase;
use persys_model::resources::{Compute, Disk, Resources};
use persys_model::spec::container::RestartPolicy;
use persys_model::spec::{ContainerSpec, Kind, Placement, Spec};
use persys_model::workload::Desired;
use persys_node::input::Existing;
use persys_runtime::Runtime;
use persys_runtime::sim::Sim;
use persys_store::{Memory, Settings};

async fn running() -> (Cluster, Sim, Vec<String>) {
    let mut cluster = Cluster::start(Arc::new(Memory::new(Settings::default()).unwrap()));
    cluster.start_agent(&node(0), Compute::new(4_000, 4_096)).await;
    let names = vec!["web".to_owned()];
    let container = ContainerSpec {
        image: Arc::from("app"),
        restart: RestartPolicy::Always,
        ..ContainerSpec::default()
    };
    let spec = Spec {
        kind: Kind::Container(container),
        resources: Resources { compute: Compute::new(100, 64), disk: Disk::none() },
        placement: Placement::default(),
        metadata: BTreeMap::new(),
        secrets: Vec::new(),
        stop_grace_ms: None,
        health: persys_model::spec::health::HealthChecks::default(),
    };
    let ask = Ask::Apply {
        workload: workload("web"),
        spec: Some(Arc::new(spec)),
        revision: RevisionId::new("r1").ok(),
        desired: Desired::Running,
    };
    cluster.ask(ask).await;
    cluster.wait_phase(&names, Phase::Running).await;
    let runtime = cluster.runtimes[&node(0)].clone();
    (cluster, runtime, names)
}

async fn drifts(cluster: &Cluster) -> Vec<DriftKind> {
    let read = |world: &persys_cluster::world::World| {
        world.drifts().map(|view| view.drift.kind).collect::<Vec<_>>()
    };
    cluster.scheduler().read(read).await.unwrap()
}

async fn restarts(cluster: &Cluster) -> u32 {
    let read = |world: &persys_cluster::world::World| {
        world.workload(&workload("web")).and_then(|view| view.seen.map(|report| report.restarts))
    };
    cluster.scheduler().read(read).await.unwrap().unwrap_or_default()
}

#[tokio::test]
async fn what_somebody_paused_is_shown_and_resumed() {
    let (cluster, runtime, names) = running().await;
    runtime.freeze(&workload("web"), None);
    cluster.wait_phase(&names, Phase::Paused).await;
    assert_eq!(drifts(&cluster).await, [DriftKind::StateMismatch]);
    cluster.wait_phase(&names, Phase::Running).await;
    assert_eq!(drifts(&cluster).await, []);
    assert_eq!(restarts(&cluster).await, 0);
}

#[tokio::test]
async fn what_is_stuck_is_shown_and_started_again() {
    let (cluster, runtime, names) = running().await;
    runtime.stick(&workload("web"), "its main process is in state D");
    cluster.wait_phase(&names, Phase::Unresponsive).await;
    assert_eq!(drifts(&cluster).await, [DriftKind::StateMismatch]);
    cluster.wait_phase(&names, Phase::Running).await;
    assert_eq!((drifts(&cluster).await, restarts(&cluster).await), (vec![], 1));
}

#[tokio::test]
async fn what_is_stuck_and_cannot_be_ended_is_never_started_twice() {
    let (cluster, runtime, names) = running().await;
    let id = workload("web");
    let before = runtime.inspect(&id).await.unwrap().unwrap().id;
    runtime.hold(&id, Some("it does not die"));
    runtime.stick(&id, "its main process is in state D");
    cluster.wait_phase(&names, Phase::Unresponsive).await;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let read = |world: &persys_cluster::world::World| {
            let view = world.workload(&workload("web"))?;
            Some(view.seen?.trouble.as_ref()?.message.to_string())
        };
        let trouble = cluster.scheduler().read(read).await.unwrap().unwrap_or_default();
        if trouble.contains("it does not die") {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "nobody tells that it cannot be ended");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let thing = runtime.inspect(&id).await.unwrap().unwrap();
    assert_eq!(thing.id, before);
    assert!(matches!(thing.seen.state, Existing::Stuck { .. }));
    runtime.hold(&id, None);
    cluster.wait_phase(&names, Phase::Running).await;
    assert_eq!(runtime.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_its_user_paused_stays_paused_over_a_new_life_of_its_agent() {
    let (mut cluster, runtime, names) = running().await;
    let id = workload("web");
    let ask =
        Ask::Apply { workload: id.clone(), spec: None, revision: None, desired: Desired::Paused };
    assert!(matches!(cluster.ask(ask).await, Reply::Done { .. }));
    cluster.wait_phase(&names, Phase::Paused).await;
    cluster.kill_agent(&node(0));
    cluster.start_agent(&node(0), Compute::new(4_000, 4_096)).await;
    let more = vec!["mark".to_owned()];
    cluster.submit("mark", "app", Compute::new(100, 64)).await;
    cluster.wait_phase(&more, Phase::Running).await;
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    assert_eq!(runtime.inspect(&id).await.unwrap().unwrap().seen.state, Existing::PAUSED);
    assert_eq!(drifts(&cluster).await, []);
    assert!(matches!(cluster.ask(Ask::Resume(id.clone())).await, Reply::Done { .. }));
    cluster.wait_phase(&names, Phase::Running).await;
    assert_eq!(runtime.inspect(&id).await.unwrap().unwrap().seen.state, Existing::Running);
}
