//! The leader dies in the middle of a restart: the next one ends it, once.

use std::time::{Duration, Instant};

use persys_e2e::engine::Engine;
use persys_e2e::processes::{PATIENCE, Wish};
use persys_etcd_host::Options;
use persys_proto::compute::v1 as compute;

use crate::scene::{Scene, Size};

const PAIR: Size = Size { schedulers: 2, agents: 2, containers: 1 };
/// How long after the request the leader dies; the workload needs longer than that to end.
const INTO_IT: Duration = Duration::from_secs(2);
const SLOW: &str = "trap 'echo ending; sleep 6; exit 0' TERM; echo began; sleep 100000 & wait";

/// What the container of a workload printed, and when it was last started.
async fn told(scene: &Scene, id: &str) -> (String, String) {
    let all = Engine::shared().containers(&scene.stack.cluster).await;
    let of_it: Vec<_> = all.into_iter().filter(|container| container.workload == id).collect();
    assert!(of_it.len() <= 1, "{id} is there twice: {of_it:?}");
    match of_it.first() {
        Some(container) => {
            let printed = Engine::shared().docker(&["logs", &container.id]);
            (printed, Engine::shared().started(&container.id).await.0)
        }
        None => (String::new(), String::new()),
    }
}

#[tokio::test]
async fn a_restart_survives_a_leader_that_is_killed_two_seconds_into_it() {
    let mut scene = Scene::set("restart", Options::new(1), PAIR).await;
    let id = scene.stack.id("slow");
    scene.stack.apply(&Wish::shell(&id, SLOW).request()).await;
    scene.stack.until_status(&id, "Running").await;
    // From then on it ends in its own time when it is asked to.
    let begun = Instant::now();
    while !told(&scene, &id).await.0.contains("began") {
        assert!(begun.elapsed() < PATIENCE, "it does not begin");
    }
    let first = told(&scene, &id).await.1;
    let leader = scene.leader().await;
    let others = scene.stack.schedulers().into_iter().filter(|process| *process != leader);
    let other = others.last().unwrap();

    let mut asks = scene.compute(&leader);
    let (begun, request) = (Instant::now(), compute::RestartRequest { workload_id: id.clone() });
    let asked = tokio::spawn(async move { asks.restart(request).await });
    while begun.elapsed() < INTO_IT || !told(&scene, &id).await.0.contains("ending") {
        assert!(!asked.is_finished(), "{:?}, {:?}", asked.await, told(&scene, &id).await);
        assert!(begun.elapsed() < PATIENCE, "it is not ended: {:?}", told(&scene, &id).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(told(&scene, &id).await.1, first, "it has begun again before the leader dies");
    scene.stack.kill(&leader).await;
    scene.stack.front = other;
    // Nobody is left to answer, or the answer came before.
    drop(asked.await);

    let wanted = |view: &persys_proto::control::v1::WorkloadView| {
        view.status == "Running" && view.desired_state == "Running"
    };
    loop {
        scene.stack.until(&id, wanted).await;
        let (printed, started) = told(&scene, &id).await;
        if !started.is_empty() && started != first && printed.contains("began") {
            break;
        }
        assert!(begun.elapsed() < 2 * PATIENCE, "it does not begin again: {printed}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Once: it stays as it is, also under a leader that comes back.
    let second = told(&scene, &id).await.1;
    scene.stack.start_again(&leader).await;
    scene.until_health(&leader, |health| health.code == 200).await;
    scene.until_quiet().await;
    assert_eq!(told(&scene, &id).await.1, second, "it was restarted again");
    scene.was_untouched(&[&id]).await;
}
