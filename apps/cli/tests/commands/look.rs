//! Looking: tables, JSON, YAML, watching, settings.

use crate::rig::{Rig, tell};

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_numbers_in_every_form() {
    let rig = Rig::start().await;
    rig.types("run web --name web").await.ended(0);
    let told = rig.types("list").await.ended(0);
    assert!(
        told.out
            .starts_with("ID   TYPE       STATUS   NODE  AGE  WHY\nweb  container  Running  n1"),
        "{told:?}"
    );
    let json = rig.types("list --status running --node n1 -o json").await.ended(0).json();
    assert_eq!(json[0]["workload_id"], "web");
    let told = rig.types("list -o yaml").await.ended(0);
    assert!(told.out.contains("workload_id: web"), "{told:?}");
    assert_eq!(rig.types("list --status Failed -o json").await.ended(0).out, "[]\n");
    let told = rig.types("summary").await.ended(0);
    assert!(
        told.out.starts_with("nodes      1 (1 ready)\nworkloads  1\nrunning    1\n"),
        "{told:?}"
    );
    let json = rig.types("summary -o json").await.ended(0).json();
    assert_eq!(json["running_workloads"], 1);
    let told = rig.types("get web").await.ended(0);
    assert!(
        told.out.starts_with("id          web\ntype        container\nstatus      Running\n"),
        "{told:?}"
    );
    let json = rig.types("status -o json").await.ended(0).json();
    assert_eq!(json["mode"], "normal");
    let told = rig.types("events --workload web").await.ended(0);
    assert!(told.out.contains("WorkloadRunning       web on n1: "), "{told:?}");
    let json =
        rig.types("events --workload web --type WorkloadRunning -o json").await.ended(0).json();
    assert_eq!(json.as_array().map(Vec::len), Some(1));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watching_shows_what_changes_until_interrupted() {
    let rig = Rig::start().await;
    let world = rig.world("");
    let watching = tell(&world, "list --watch");
    let change = async {
        while world.printed().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        rig.types("run web --name web").await.ended(0);
        while !world.printed().contains("Running") {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        world.interrupt();
    };
    let (told, ()) = tokio::join!(watching, change);
    let told = told.ended(0);
    assert!(told.out.starts_with("there are no workloads\n"), "{told:?}");
    let world = rig.world("");
    let following = tell(&world, "events -f --workload web -o json");
    let enough = async {
        while !world.printed().contains("WorkloadRunning") {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        world.interrupt();
    };
    let (told, ()) = tokio::join!(following, enough);
    let told = told.ended(0);
    let first: serde_json::Value = serde_json::from_str(told.out.lines().next().unwrap()).unwrap();
    assert_eq!(first["workload_id"], "web");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_say_where_they_come_from() {
    let rig = Rig::start().await;
    let told = rig.types("config").await.ended(0);
    assert!(told.out.contains(&format!("endpoint     {}", rig.endpoint)), "{told:?}");
    assert!(told.out.contains("contexts/dev.yaml"), "{told:?}");
    let json = rig.types("config -o json --endpoint h:1").await.ended(0).json();
    assert_eq!(json["endpoint"]["from"], "flag --endpoint");
    let told = rig.types("config use prod").await.ended(1);
    assert!(told.err.contains("there are dev"), "{told:?}");
    rig.types("config use dev").await.ended(0);
    let json = rig.types("config -o json").await.ended(0).json();
    assert!(json["context"]["from"].as_str().unwrap().contains("current_context"), "{json}");
    rig.stop().await;
}
