//! The drivers of scheduler and agent, joined: from a submission to something that runs, and back
//! after each of them died.

#![allow(clippy::unwrap_used, reason = "a test may stop")]

use std::sync::Arc;
use std::time::Duration;

use persys_cluster::effects::Reply;
use persys_cluster::input::Ask;
use persys_e2e::cluster::{Cluster, node, workload};
use persys_model::phase::Phase;
use persys_model::resources::Compute;
use persys_store::{Embedded, Memory, Settings, Store};

fn memory() -> Arc<dyn Store> {
    Arc::new(Memory::new(Settings::default()).unwrap())
}

async fn cluster_of(count: usize, store: Arc<dyn Store>) -> Cluster {
    let mut cluster = Cluster::start(store);
    for n in 0..count {
        cluster.start_agent(&node(n), Compute::new(4_000, 4_096)).await;
    }
    cluster
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("w{n}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_submitted_runs_once_and_leaves_nothing_when_deleted() {
    let cluster = cluster_of(3, memory()).await;
    let all = names(30);
    for name in &all {
        let reply = cluster.submit(name, "app", Compute::new(400, 256)).await;
        assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    }
    cluster.wait_phase(&all, Phase::Running).await;
    let running = cluster.running().await;
    let counts: Vec<_> = running.values().map(std::collections::BTreeSet::len).collect();
    assert_eq!(counts, [10, 10, 10], "spread evenly, each once");
    for name in &all {
        cluster.ask(Ask::Delete(workload(name))).await;
    }
    let gone = async {
        while cluster.running().await.values().any(|there| !there.is_empty()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_container_is_back_and_a_finished_one_is_complete() {
    let cluster = cluster_of(1, memory()).await;
    cluster.submit("job", "exit:0", Compute::new(100, 64)).await;
    cluster.wait_phase(&["job".to_owned()], Phase::Completed).await;
    cluster.submit("bad", "fail:IMAGE_NOT_FOUND", Compute::new(100, 64)).await;
    cluster.wait_phase(&["bad".to_owned()], Phase::Failed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_moves_off_a_dead_node_and_back_comes_no_second_copy() {
    let mut cluster = cluster_of(3, memory()).await;
    let all = names(9);
    for name in &all {
        cluster.submit(name, "app", Compute::new(400, 256)).await;
    }
    cluster.wait_phase(&all, Phase::Running).await;
    cluster.wire.set_cut(&node(0), true);
    let moved = async {
        loop {
            let running = cluster.running().await;
            let elsewhere: usize =
                running.iter().filter(|(id, _)| **id != node(0)).map(|(_, w)| w.len()).sum();
            if elsewhere == 9 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(15), moved).await.unwrap();
    cluster.wire.set_cut(&node(0), false);
    let alone = async {
        while !cluster
            .running()
            .await
            .get(&node(0))
            .is_some_and(std::collections::BTreeSet::is_empty)
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(15), alone).await.unwrap();
    cluster.wait_phase(&all, Phase::Running).await;
    cluster.kill_scheduler();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduler_that_died_comes_back_with_everything_it_knew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let open =
        || -> Arc<dyn Store> { Arc::new(Embedded::open(&path, Settings::default()).unwrap()) };
    let store = open();
    let mut cluster = cluster_of(2, Arc::clone(&store)).await;
    let all = names(6);
    for name in &all {
        cluster.submit(name, "app", Compute::new(400, 256)).await;
    }
    cluster.wait_phase(&all, Phase::Running).await;
    let before = cluster.running().await;
    cluster.kill_scheduler();
    store.close().await;
    drop(store);
    cluster.start_scheduler(open());
    cluster.wait_phase(&all, Phase::Running).await;
    assert_eq!(cluster.running().await, before, "nothing moved, nothing started again");
    cluster.kill_agent(&node(0));
    cluster.start_agent(&node(0), Compute::new(4_000, 4_096)).await;
    cluster.submit("more", "app", Compute::new(400, 256)).await;
    cluster.wait_phase(&["more".to_owned()], Phase::Running).await;
    let after = cluster.running().await;
    assert_eq!(after.values().map(std::collections::BTreeSet::len).sum::<usize>(), 7);
}
