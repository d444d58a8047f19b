//! The records of an earlier installation in a real etcd, imported into a cluster.

use persys_etcd::{Client, Op, Txn};
use persys_etcd_host::Host;
use serde_json::{Value, json};

use crate::rig::Rig;

async fn put(past: &Client, key: &str, value: &Value) {
    let then = vec![Op::put(key.to_owned(), value.to_string().into_bytes())];
    past.txn(Txn { then, ..Txn::default() }).await.unwrap();
}

fn spec(id: &str) -> Value {
    json!({
        "id": id, "type": "container", "revisionId": "rev-3", "image": "nginx:1", "command": "",
        "commandList": [], "envVars": {"A": "1"}, "desiredState": "Running",
        "resources": {"cpu_usage": 0.1, "memory_usage": 64}, "restartPolicy": "always",
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_installation_is_imported_and_its_records_stay() {
    let host = Host::one().await;
    let etcd = host.endpoints().join(",");
    let past = host.client();
    let rig = Rig::start().await;
    let empty = rig.types(&format!("import --etcd {etcd}")).await.ended(1);
    assert!(empty.err.contains("holds no workload of an earlier installation"), "{empty:?}");

    put(&past, "/nodes/n1", &json!({"nodeId": "n1", "status": "Ready"})).await;
    for (id, node) in [("web", "n1"), ("away", "n9"), ("taken", "n1")] {
        put(&past, &format!("/workloads-spec/{id}"), &spec(id)).await;
        let assigned = json!({"workloadId": id, "nodeId": node});
        put(&past, &format!("/assignments/{id}"), &assigned).await;
    }
    let mut odd = spec("odd");
    odd["network"] = json!("blue");
    odd["gpuCount"] = json!(1);
    put(&past, "/workloads-spec/odd", &odd).await;
    rig.types("run nginx:2 --name taken").await.ended(0);
    let before = past.get("/workloads-spec/web").await.unwrap().unwrap();

    // A dry run tells everything and changes nothing.
    let told = rig.types(&format!("import --etcd {etcd} --dry-run")).await.ended(1);
    for words in [
        "web       container  n1    Running  would be imported",
        "odd       container                 cannot be imported",
        "left alone: it exists here",
        "odd: network is \"blue\"",
        "odd: unknown fields, not carried over: gpuCount",
        "away: node n9 has not joined this cluster",
        "nothing was changed",
    ] {
        let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let out =
            told.out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        assert!(out.into_iter().any(|shown| shown.contains(&line)), "{words}: {}", told.out);
    }
    assert_eq!(rig.types("get web").await.code, 1);

    let told = rig.types(&format!("import --etcd {etcd} -o json")).await.ended(1).json();
    let result = |id: &str| {
        let all = told["workloads"].as_array().unwrap();
        all.iter().find(|one| one["workload_id"] == id).unwrap()["result"].clone()
    };
    assert_eq!((result("web"), result("away")), (json!("imported"), json!("imported")));
    let running =
        |told: &crate::rig::Told| told.code == 0 && told.json()["workload"]["status"] == "Running";
    rig.until("get web -o json", running).await;
    let web = rig.types("get web -o json").await.ended(0).json();
    assert_eq!(
        web["workload"]["assigned_node_id"].as_str().or(web["workload"]["node_id"].as_str()),
        Some("n1"),
        "{web}"
    );
    assert_eq!(web["workload"]["revision_id"], "rev-3");
    let why = rig.types("why away").await;
    assert!(why.out.contains("runs it on n9, which has not joined"), "{why:?}");

    // What was read is as it was; a second import finds everything here.
    let after = past.get("/workloads-spec/web").await.unwrap().unwrap();
    assert_eq!((before.value, before.mod_revision), (after.value, after.mod_revision));
    let again = rig.types(&format!("import --etcd {etcd}")).await.ended(1);
    assert!(
        again.out.contains("left alone: it exists here (Running in revision rev-3)"),
        "{again:?}"
    );
    rig.stop().await;
}
