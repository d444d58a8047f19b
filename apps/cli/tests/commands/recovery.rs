//! Ways out of recovery, what nobody knows, and the other words of an operator.

use crate::rig::{Rig, tell};

/// Everything in the store is lost; what the host remembers is not.
async fn lose_store(rig: &mut Rig) {
    rig.stop_scheduler().await;
    std::fs::remove_file(rig.path("scheduler/store.redb")).unwrap();
    rig.start_scheduler("scheduler").await;
    in_recovery(rig).await;
}

/// The scheduler is in recovery and has heard the node.
async fn in_recovery(rig: &Rig) {
    rig.until("status -o json", |told| {
        let heard = |told: &crate::rig::Told| told.json()["heard"].as_array().map(Vec::len);
        told.code == 0 && told.json()["mode"] == "recovery" && heard(told) == Some(1)
    })
    .await;
}

async fn normal_with_node(rig: &Rig) {
    rig.until("status -o json", |told| told.code == 0 && told.json()["mode"] == "normal").await;
    rig.until("nodes -o json", |told| told.code == 0 && told.json()[0]["status"] == "Ready").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_store_is_rebuilt_from_agents_after_a_look_at_the_plan() {
    let mut rig = Rig::start().await;
    let told = rig.types("recover --from-agents --yes").await.ended(1);
    assert!(told.err.contains("there is nothing to recover"), "{told:?}");
    assert!(told.err.contains("next: "), "{told:?}");
    rig.types("run web --name one").await.ended(0);
    rig.types("run web --name two").await.ended(0);
    let inside = rig.types("get one -o json").await.json()["inside"]["runtime_id"].clone();
    assert!(inside.is_string(), "{inside}");
    lose_store(&mut rig).await;
    rig.types("run web --name three").await.ended(1);

    // Nobody confirms: only the plan.
    for line in ["recover --from-agents", "recover --from-agents --dry-run"] {
        let told = rig.types(line).await.ended(0);
        assert!(told.out.contains("nodes heard:\n  n1\n"), "{told:?}");
        assert!(told.out.contains("2 are restored:\n  one from n1\n  two from n1\n"), "{told:?}");
        assert!(told.out.ends_with("this does it:\n  persys recover --from-agents --yes\n"));
    }
    let json = rig.types("recover --accept-empty -o json").await.ended(0).json();
    assert_eq!(json["plan"]["orphans"].as_array().map(Vec::len), Some(2), "{json}");
    assert_eq!(rig.types("status -o json").await.json()["mode"], "recovery");

    // Somebody at a terminal says no, then yes.
    for (typed, mode) in [("no\n", "recovery"), ("yes\n", "normal")] {
        let mut world = rig.world(typed);
        (world.in_terminal, world.out_terminal) = (true, true);
        let told = tell(&world, "recover --from-agents").await.ended(0);
        assert!(told.err.contains("Type yes to do this: "), "{told:?}");
        assert_eq!(rig.types("status -o json").await.json()["mode"], mode, "{told:?}");
    }
    normal_with_node(&rig).await;
    rig.until("get one -o json", |told| told.json()["workload"]["status"] == "Running").await;
    let after = rig.types("get one -o json").await.json()["inside"]["runtime_id"].clone();
    assert_eq!(after, inside, "it was not started again");
    rig.types("run web --name three").await.ended(0);
    rig.stop().await;
}

/// Restored from an older copy: what was made since comes back, what was deleted since does not.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_is_restored_and_brought_up_to_date() {
    let mut rig = Rig::start().await;
    rig.types("run web --name kept").await.ended(0);
    rig.types("run web --name gone").await.ended(0);
    let (file, state) = (rig.path("a.snapshot"), rig.path("scheduler"));
    rig.types(&format!("snapshot save {file}")).await.ended(0);
    rig.types("delete gone").await.ended(0);
    rig.types("run web --name new").await.ended(0);
    rig.stop_scheduler().await;
    let told = rig.types(&format!("snapshot restore {file} --state-dir {state}")).await.ended(1);
    assert!(told.err.contains("the store is not empty"), "{told:?}");
    std::fs::rename(format!("{state}/store.redb"), format!("{state}/store.redb.old")).unwrap();
    let told = rig.types(&format!("snapshot restore {file} --state-dir {state}")).await.ended(0);
    let next = format!("next:\n  persys scheduler --state-dir {state}\n  persys status");
    assert!(told.out.contains(&next), "{told:?}");
    // Also a host that remembers nothing starts it in recovery.
    std::fs::remove_file(format!("{state}/known.json")).unwrap();
    rig.start_scheduler("scheduler").await;
    in_recovery(&rig).await;
    let told = rig.types("recover --from-agents --dry-run").await.ended(0);
    assert!(told.out.contains("1 stay as the store has them:\n  kept\n"), "{told:?}");
    assert!(told.out.contains("1 are restored:\n  new from n1\n"), "{told:?}");
    assert!(told.out.contains("1 were deleted since:\n  gone as proven by n1\n"), "{told:?}");
    rig.types("recover --from-agents --yes").await.ended(0);
    normal_with_node(&rig).await;
    rig.until("list -o json", |told| {
        let all = told.json();
        let named = |name: &str| all.as_array().unwrap().iter().find(|w| w["workload_id"] == name);
        let runs = |name| named(name).is_some_and(|one| one["status"] == "Running");
        runs("kept") && runs("new") && named("gone").is_none()
    })
    .await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_taken_for_the_truth_and_the_rest_is_decided_one_by_one() {
    let mut rig = Rig::start().await;
    rig.types("run web --name kept").await.ended(0);
    let file = rig.path("a.snapshot");
    rig.types(&format!("snapshot save {file}")).await.ended(0);
    for name in ["adopted", "deleted", "ignored"] {
        rig.types(&format!("run web --name {name}")).await.ended(0);
    }
    lose_store(&mut rig).await;
    let told = rig.types(&format!("recover --from-snapshot {file}")).await.ended(0);
    assert!(told.out.contains("1 stay as the snapshot has them:\n  kept\n"), "{told:?}");
    assert!(told.out.contains("3 run on as something nobody knows"), "{told:?}");
    let yes = format!("persys recover --from-snapshot {file} --yes\n");
    assert!(told.out.ends_with(&yes), "{told:?}");
    rig.types(&format!("recover --from-snapshot {file} --yes")).await.ended(0);
    normal_with_node(&rig).await;
    rig.until("get kept -o json", |told| told.json()["workload"]["status"] == "Running").await;

    let told = rig
        .until("drift list -o json", |told| told.json().as_array().map(Vec::len) == Some(3))
        .await
        .json();
    assert_eq!(told[0]["kind"], "orphan_on_agent", "{told}");
    assert_eq!((&told[0]["node_id"], &told[0]["recorded"]), (&"n1".into(), &"nothing".into()));
    assert!(told[0]["found"].as_str().unwrap().starts_with("running"), "{told}");
    let text = rig.types("drift list n1").await.ended(0);
    assert!(text.out.starts_with("KIND             NODE  WORKLOAD"), "{text:?}");
    assert!(text.out.contains("next:\n  persys drift adopt n1 adopted\n"), "{text:?}");

    rig.types("drift adopt n1 adopted").await.ended(0);
    rig.types("drift delete n1 deleted").await.ended(0);
    rig.types("orphan ignore n1 ignored").await.ended(0);
    let told = rig.types("drift adopt n1 nobody").await.ended(1);
    assert!(told.err.contains("has no unknown workload nobody"), "{told:?}");
    rig.types("drift adopt n1 Bad!").await.ended(64);
    rig.until("get adopted -o json", |told| told.json()["workload"]["status"] == "Running").await;
    let told = rig.types("drift check").await.ended(0);
    assert!(told.out.contains("1 of 1 nodes are asked"), "{told:?}");
    rig.types("drift check n1").await.ended(0);
    rig.types("drift check nobody").await.ended(1);
    let left = rig
        .until("drift list -o json", |told| told.json().as_array().map(Vec::len) == Some(1))
        .await
        .json();
    assert_eq!((&left[0]["workload_id"], &left[0]["ignored"]), (&"ignored".into(), &true.into()));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_brake_is_released_and_a_silent_node_vouched_for() {
    let mut rig = Rig::start().await;
    let told = rig.types("release-brake").await.ended(0);
    assert_eq!(told.out, "the brake is not on\n");
    let told = rig.types("node confirm-gone n1").await.ended(1);
    assert!(told.err.contains("node n1 cannot be confirmed gone"), "{told:?}");
    assert!(told.err.contains("not lost"), "{told:?}");
    rig.types("node confirm-gone nobody").await.ended(1);
    // Two machines whose probes are never answered fall silent together.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let there = mute.local_addr().unwrap().to_string();
    for node in ["n2", "n3"] {
        rig.start_agent(node, &there).await;
    }
    let ready = |told: &crate::rig::Told| {
        told.json().as_array().is_some_and(|all| all.iter().all(|node| node["status"] == "Ready"))
    };
    rig.until("nodes -o json", |told| told.out.contains("n3") && ready(told)).await;
    rig.stop_agents().await;
    rig.until("status -o json", |told| told.json()["brake"] == true).await;
    let told = rig.types("status").await.ended(0);
    assert!(told.out.contains("`release-brake` lets it"), "{told:?}");
    let told = rig.types("release-brake").await.ended(0);
    assert_eq!(told.out, "work may move again\n");
    let told = rig.until("node confirm-gone n2", |told| told.code == 0).await;
    assert_eq!(told.out, "node n2 counts as switched off; its exclusive work may move\n");
    let told = rig.types("node remove n2").await.ended(0);
    assert_eq!(told.out, "node n2 is removed\n");
    assert!(!rig.types("nodes").await.ended(0).out.contains("n2"));
    rig.stop().await;
}
