//! How often a node is asked for all it holds, seen from an agent that is played here.

use persys_proto::control::v1 as api;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use tokio::time::{Duration, Instant, sleep};
use tonic::transport::Endpoint;

use crate::program::{Folder, Program};

/// Long enough for a busy machine; the usual 30 s between two questions fit in it once.
const PATIENCE: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_asked_for_all_it_holds_as_often_as_was_said() {
    let folder = Folder::new();
    let state = folder.at("scheduler");
    let variables = [
        ("SCHEDULER_DRIFT_DETECT_INTERVAL", "1s"),
        ("PERSYS_STATE_DIR", state.as_str()),
        ("GRPC_PORT", "0"),
        ("METRICS_PORT", "0"),
        ("PERSYS_DNS_PORT", "0"),
    ];
    let mut scheduler = Program::start(folder.path(), &["scheduler", "-insecure"], &variables);
    let at = format!("http://{}", scheduler.at("grpc"));
    let mut client = AgentControlClient::new(Endpoint::from_shared(at).unwrap().connect_lazy());
    let begun = Instant::now();
    let session = loop {
        let joined = client.register_node(registration()).await;
        if let Ok(joined) = joined.map(tonic::Response::into_inner)
            && joined.accepted
        {
            break joined.session;
        }
        assert!(begun.elapsed() < PATIENCE, "it is not let in");
        sleep(Duration::from_millis(100)).await;
    };
    let (mut seq, mut asked, mut wanted) = (0, 0, false);
    while asked < 6 {
        seq += 1;
        let beat = api::HeartbeatRequest {
            node_id: "n1".to_owned(),
            session,
            seq,
            full_inventory: wanted,
            ..api::HeartbeatRequest::default()
        };
        let answer = client.heartbeat(beat).await.unwrap().into_inner();
        assert!(!answer.re_register, "{answer:?}");
        wanted = answer.want_inventory;
        asked += u32::from(wanted);
        assert!(begun.elapsed() < PATIENCE, "asked {asked} times");
        sleep(Duration::from_millis(200)).await;
    }
}

fn registration() -> api::RegisterNodeRequest {
    api::RegisterNodeRequest {
        node_id: "n1".to_owned(),
        capabilities: Some(api::NodeCapabilities {
            cpu_total_millicores: 4_000,
            memory_total_mb: 4_096,
            supported_workload_types: vec!["container".to_owned()],
            ..api::NodeCapabilities::default()
        }),
        grpc_endpoint: "127.0.0.1:1".to_owned(),
        cluster_id: "persys".to_owned(),
        host_id: "host".to_owned(),
        boot_id: "boot".to_owned(),
        incarnation: "first".to_owned(),
        ..api::RegisterNodeRequest::default()
    }
}
