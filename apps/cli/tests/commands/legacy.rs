//! Older spellings: their options, their JSON, and exit codes that tell the truth.

use crate::rig::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn old_commands_print_what_programs_know() {
    let rig = Rig::start().await;
    let file = rig
        .file("spec.json", r#"{"image": "web", "command": ["sleep"], "restart_policy": "always"}"#);
    let json = rig
        .types(&format!("workload schedule {file} --id w1 --type container --transport grpc"))
        .await
        .ended(0)
        .json();
    assert_eq!(json["accepted"], true);
    assert_eq!(json["workload_id"], "w1");
    assert_eq!(json["revision_id"], "rev-1");
    let json = rig
        .types(
            "workload schedule --id w2 --type container --image web --ports 8080:80 --env A=1,B=2",
        )
        .await
        .ended(0)
        .json();
    assert_eq!(json["accepted"], true, "{json}");
    rig.until("workload get --id w1", |told| {
        told.json()["workload"]["status"] == "Running"
            && told.json()["workload"]["workloadId"] == "w1"
    })
    .await;
    let json = rig.types("workload list --status Running").await.ended(0).json();
    assert_eq!(json[0]["id"], "w1");
    assert_eq!(json[0]["nodeId"], "n1");
    let json = rig.types("node list").await.ended(0).json();
    assert_eq!(json[0]["nodeId"], "n1");
    let json = rig.types("node get --id n1").await.ended(0).json();
    assert_eq!(json["node"]["nodeId"], "n1");
    assert!(json["node"]["totalMemoryMb"].is_string(), "{json}");
    let json = rig.types("metrics").await.ended(0).json();
    assert_eq!(json["totalNodes"], 1);
    rig.types("workload stop --id w1").await.ended(0);
    rig.until("workload get --id w1", |told| told.json()["workload"]["status"] == "Stopped").await;
    rig.types("workload start --id w1").await.ended(0);
    rig.until("workload get --id w1", |told| told.json()["workload"]["status"] == "Running").await;
    let json = rig.types("workload restart --id w1").await.ended(0).json();
    assert_eq!(json["success"], true);
    let json = rig.types("workload delete --id w1").await.ended(0).json();
    assert_eq!(json["success"], true);
    rig.until("workload get --id w1", |told| told.code == 1).await;
    rig.types("workload delete --id w1").await.ended(1);
    rig.types("workload schedule --id w3 --type container --image x --network n").await.ended(64);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduler_and_agent_are_asked_directly() {
    let rig = Rig::start().await;
    let file = rig.file("c.json", r#"{"image": "web", "restart_policy": {"policy": "no"}}"#);
    let json = rig
        .types(&format!("scheduler apply-container --id w1 --spec-file {file} --revision r7"))
        .await
        .ended(0)
        .json();
    assert_eq!(json["success"], true);
    rig.until("scheduler get-workload --workload-id w1", |told| {
        told.json()["workload"]["status"] == "Running"
    })
    .await;
    let json = rig.types("scheduler list-workloads --filter-node-id n1").await.ended(0).json();
    assert_eq!(json[0]["revisionId"], "r7");
    assert_eq!(rig.types("scheduler summary").await.ended(0).json()["runningWorkloads"], 1);
    assert_eq!(rig.types("scheduler list-nodes").await.ended(0).json()[0]["nodeId"], "n1");
    rig.types("scheduler get-node --node-id n1").await.ended(0);
    rig.types("scheduler retry-workload --workload-id nobody").await.ended(1);

    let json = rig.types("agent health").await.ended(0).json();
    assert_eq!(json["healthy"], true);
    let json = rig.types("agent list --of n1").await.ended(0).json();
    assert_eq!(json["workloads"][0]["id"], "w1");
    let json = rig.types("agent status --id w1").await.ended(0).json();
    assert_eq!(json["status"]["actualState"], "ACTUAL_STATE_RUNNING");
    let json = rig.types("agent list-actions --workload-id w1").await.ended(0).json();
    assert!(json["actions"].is_array(), "{json}");
    rig.types("agent status --id nobody").await.ended(1);
    let told = rig.types("agent health --endpoint 127.0.0.1:1").await.ended(64);
    assert!(told.err.contains("whose agent"), "{told:?}");
    rig.types("scheduler delete-workload --workload-id w1").await.ended(0);
    rig.stop().await;
}
