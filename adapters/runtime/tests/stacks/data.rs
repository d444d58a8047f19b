//! What a stack keeps: data through updates, and what did not change.

use persys_model::volume::VolumeKey;
use persys_node::input::Existing;
use persys_runtime::Runtime;

use super::bench::{STAYS, bench, service, stack};
use crate::contract::{listed, start};

/// A database with a volume, something that needs it, and something that needs that.
fn shop(web: &str) -> persys_model::spec::Kind {
    let mut file = "services:\n".to_owned();
    file += &service("db", STAYS, "restart: always\nvolumes: ['data:/data']");
    file += &service("api", STAYS, "restart: always\ndepends_on: [db]");
    file += &service(
        "web",
        STAYS,
        &format!("restart: always\ndepends_on: [api]\nenvironment: {{VERSION: '{web}'}}"),
    );
    stack(&(file + "volumes: {data: {}}\n"))
}

#[tokio::test]
async fn data_outlives_three_updates_and_what_did_not_change_is_not_touched() {
    let bench = bench();
    let first = start("shop", "r1", shop("1"));
    let id = &first.workload;
    bench.compose.start(&first).await.unwrap();
    let (containers, networks, volumes) = bench.ours().await;
    assert_eq!((containers, networks, volumes.len()), (3, 1, 1), "all of it carries our labels");
    bench.say(id, "db", "echo precious > /data/kept").await;
    let before = bench.moments(id).await;
    for version in ["2", "3", "4"] {
        let next = start("shop", &format!("r{version}"), shop(version));
        bench.compose.start(&next).await.unwrap();
        let seen = listed(&bench, id).await.unwrap();
        assert_eq!((seen.revision, seen.state), (next.revision, Existing::Running));
        assert_eq!(bench.say(id, "web", "echo $VERSION").await, version);
        assert_eq!(bench.say(id, "db", "cat /data/kept").await, "precious");
        let after = bench.moments(id).await;
        assert_eq!((&after["db"], &after["api"]), (&before["db"], &before["api"]));
        assert_ne!(after["web"].0, before["web"].0);
    }
    assert_eq!(bench.ours().await.2, volumes, "no volume more, no volume less");

    // A service that is no longer in the file goes; the data of another stays.
    let mut file = "services:\n".to_owned();
    file += &service("db", STAYS, "restart: always\nvolumes: ['data:/data']");
    let small = start("shop", "r5", stack(&(file + "volumes: {data: {}}\n")));
    bench.compose.start(&small).await.unwrap();
    let names: Vec<_> = bench.services(id).await.into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["db"]);
    assert_eq!(bench.say(id, "db", "cat /data/kept").await, "precious");

    bench.compose.remove(id, false).await.unwrap();
    let (containers, networks, left) = bench.ours().await;
    assert_eq!((containers, networks, &left), (0, 0, &volumes), "only data is left");
    bench.compose.start(&small).await.unwrap();
    assert_eq!(bench.say(id, "db", "cat /data/kept").await, "precious", "found again");
    bench.compose.remove(id, true).await.unwrap();
    let (containers, networks, left) = bench.ours().await;
    assert_eq!((containers, networks, left), (0, 0, volumes), "whoever asks, only data is left");

    // Each goes by its own name, and no other with it.
    for (name, count) in [("other", 1), ("data", 0)] {
        let order = VolumeKey::of_stack(id, name).order_id();
        bench.compose.remove(&order, true).await.unwrap();
        assert_eq!(bench.ours().await.2.len(), count, "{name}");
    }
}

#[tokio::test]
async fn a_one_shot_runs_once_and_is_not_run_again_by_a_repair() {
    let bench = bench();
    let mut file = "services:\n".to_owned();
    file += &service("prepare", "echo ran >> /data/log", "volumes: ['data:/data']");
    file += &service(
        "web",
        STAYS,
        "restart: always\nvolumes: ['data:/data']\ndepends_on: {prepare: {condition: \
         service_completed_successfully}}",
    );
    let order = start("jobs", "r1", stack(&(file + "volumes: {data: {}}\n")));
    let id = &order.workload;
    bench.compose.start(&order).await.unwrap();
    bench.until(id, &Existing::Running).await;
    let done = bench.service(id, "prepare").await;
    assert!(done.one_shot && done.state == Existing::Exited { code: 0 }, "{done:?}");
    let web = bench.service(id, "web").await;
    bench
        .raw
        .kill_container(&web.id, None::<bollard::query_parameters::KillContainerOptions>)
        .await
        .unwrap();
    bench.until(id, &Existing::Exited { code: 137 }).await;
    bench.compose.start(&order).await.unwrap();
    bench.until(id, &Existing::Running).await;
    assert_eq!(bench.say(id, "web", "cat /data/log").await, "ran");
    bench.compose.remove(id, true).await.unwrap();
}

#[tokio::test]
async fn a_stack_of_jobs_is_done_when_they_are() {
    let bench = bench();
    let order = start("work", "r1", stack(&format!("services:\n{}", service("job", "exit 0", ""))));
    bench.compose.start(&order).await.unwrap();
    bench.until(&order.workload, &Existing::Exited { code: 0 }).await;
    let bad = start("work", "r2", stack(&format!("services:\n{}", service("job", "exit 4", ""))));
    bench.compose.start(&bad).await.unwrap();
    bench.until(&order.workload, &Existing::Exited { code: 4 }).await;
    bench.compose.remove(&order.workload, true).await.unwrap();
}
