//! Copies of the store: saved, looked at, restored, moved.

use crate::rig::{Rig, tell, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_saved_while_the_cluster_works() {
    let rig = Rig::start().await;
    rig.types("run web --name one").await.ended(0);
    let file = rig.path("a.snapshot");
    let told = rig.types(&format!("snapshot save {file}")).await.ended(0);
    assert!(told.out.contains("records of the cluster test-"), "{told:?}");
    assert!(told.out.contains(&format!("next:\n  persys snapshot inspect {file}\n")), "{told:?}");
    let told = rig.types(&format!("snapshot save {file}")).await.ended(1);
    assert!(told.err.contains("it is there already"), "{told:?}");

    let told = rig.types(&format!("snapshot inspect {file}")).await.ended(0);
    let lines: Vec<String> = told
        .out
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for part in ["checksum matches", "workloads 1", "nodes 1"] {
        assert!(lines.iter().any(|line| line == part), "{part}: {}", told.out);
    }
    assert!(lines.iter().any(|line| line.starts_with("cluster test-")), "{}", told.out);
    assert!(!told.out.contains("CANNOT BE READ"), "{told:?}");
    let json = rig.types(&format!("snapshot inspect {file} -o json")).await.ended(0).json();
    assert_eq!(json["workloads"], serde_json::json!(["one"]));
    assert_eq!(
        (&json["records"]["assignments"], &json["unreadable"]),
        (&1.into(), &serde_json::json!([]))
    );

    let state = rig.path("scheduler");
    let told = rig.types(&format!("snapshot save {file}2 --state-dir {state}")).await.ended(1);
    assert!(told.err.contains("another persys runs with it"), "{told:?}");
    assert!(told.err.contains("next: persys snapshot save FILE"), "{told:?}");
    let told = rig.types(&format!("store migrate --from {state} --to {state}2")).await.ended(1);
    assert!(told.err.contains("another persys runs with it"), "{told:?}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_snapshot_or_no_store_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).display().to_string();
    let types = |line: String| {
        let world = world(home.path(), "");
        async move { tell(&world, &format!("{line} --insecure")).await }
    };
    std::fs::write(path("text"), "hello\n").unwrap();
    std::fs::write(path("cut"), "{\"persys\":\"snapshot\",\"v\":1,\"incarnation\":0,\"seq\":0,\"taken_ms\":0,\"records\":{\"nodes\":3}}\n").unwrap();
    for (line, said) in [
        (format!("snapshot inspect {}", path("none")), "cannot be read"),
        (format!("snapshot inspect {}", path("text")), "is not a snapshot of this system"),
        (
            format!("snapshot restore {} --state-dir {}", path("cut"), path("d")),
            "after 0 of 3 records",
        ),
        (format!("recover --from-snapshot {} --yes", path("text")), "is not a snapshot of this"),
        (format!("snapshot save {} --state-dir {}", path("f"), path("d")), "there is no"),
        (format!("store migrate --from {} --to {}", path("d"), path("e")), "there is no"),
        // Nobody listens there: the port is for nobody's use.
        (format!("snapshot save {} --etcd 127.0.0.1:1", path("f")), "127.0.0.1:1 is not reached"),
        (
            format!("store migrate --from etcd:127.0.0.1:1 --to {}", path("e")),
            "the store in etcd at 127.0.0.1:1 cannot be used",
        ),
    ] {
        let told = types(line.clone()).await.ended(1);
        assert!(told.err.contains(said), "{line}: {told:?}");
    }
    for line in [
        format!("snapshot restore {}", path("text")).as_str(),
        "snapshot save f --etcd nowhere:99999",
        "snapshot save f --etcd a:1 --state-dir d",
        "store migrate --from d",
        "store migrate --from d --to e --etcd-root /blue",
        "snapshot save f --etcd-user me",
        "snapshot save f --etcd https://a:1",
        "snapshot save f --etcd a:1 --etcd-root no/slash",
        "snapshot save f --etcd a:1 --etcd-cert c",
        "snapshot save f --etcd a:1 --etcd-user me",
        "snapshot save f --etcd a:1 --etcd-user me --etcd-password geheim",
    ] {
        // The first is no snapshot either; but that nobody said where to comes first.
        types(line.to_owned()).await.ended(64);
    }
    let told = types(format!("store migrate --from {0} --to {0}", path("d"))).await.ended(64);
    assert!(told.err.contains("both are the same place"), "{told:?}");
    let left: Vec<_> = std::fs::read_dir(home.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "nothing is left behind: {left:?}");
}

/// The store moves to another place; the scheduler goes on there, and nothing is lost or restarted.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_moves_to_another_place() {
    let mut rig = Rig::start().await;
    rig.types("run web --name one").await.ended(0);
    rig.types("run web --name two").await.ended(0);
    rig.types("stop two").await.ended(0);
    let before = rig.types("get one -o json").await.ended(0).json();
    let events = rig.types("events -o json").await.ended(0).out;
    rig.stop_scheduler().await;
    let (old, new) = (rig.path("scheduler"), rig.path("moved"));
    let told = rig.types(&format!("store migrate --from {old} --to {new}")).await.ended(0);
    assert!(told.out.contains("are moved from"), "{told:?}");
    assert!(
        told.out.contains(&format!("next:\n  persys scheduler --state-dir {new}\n")),
        "{told:?}"
    );
    let told = rig.types(&format!("store migrate --from {old} --to {new}")).await.ended(1);
    assert!(told.err.contains("the store is not empty: it holds /"), "{told:?}");
    assert!(told.err.contains(&format!("mv {new}/store.redb {new}/store.redb.old")), "{told:?}");

    // What the host remembers comes along: it is no other host.
    std::fs::copy(format!("{old}/known.json"), format!("{new}/known.json")).unwrap();
    rig.start_scheduler("moved").await;
    // Before it leads it answers from a copy.
    rig.until("status -o json", |told| told.code == 0 && told.json()["mode"] == "normal").await;
    rig.until("nodes -o json", |told| told.code == 0 && told.json()[0]["status"] == "Ready").await;
    let after = rig.types("get one -o json").await.ended(0).json();
    assert_eq!(after["workload"]["status"], "Running");
    assert!(before["inside"]["runtime_id"].is_string(), "{before}");
    assert_eq!(after["inside"]["runtime_id"], before["inside"]["runtime_id"], "{after}");
    let again = rig.types("events -o json").await.ended(0).out;
    let first = events.lines().next().unwrap();
    assert!(again.contains(first), "events came along");
    rig.types("start two").await.ended(0);
    rig.stop().await;
}
