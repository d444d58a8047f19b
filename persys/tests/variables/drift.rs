//! How often a node is asked for all it holds, and how long it may miss something, seen from an agent
//! that is played here.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use persys_identity::{ClusterName, Exposure, Incoming};
use persys_model::command::Answer;
use persys_proto::agent::v1 as agent;
use persys_proto::agent::v1::agent_service_server::{AgentService, AgentServiceServer};
use persys_proto::control::v1 as api;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use persys_proto::convert::{Said, answer, command};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

use crate::program::{Folder, Program, types};

/// Long enough for a busy machine; the usual 30 s between two questions fit in it once.
const PATIENCE: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_asked_for_all_it_holds_as_often_as_was_said() {
    let folder = Folder::new();
    let mut agent = Agent::join(&folder, &[("SCHEDULER_DRIFT_DETECT_INTERVAL", "1s")]).await;
    let (begun, mut asked) = (Instant::now(), 0);
    while asked < 6 {
        asked += u32::from(agent.beat().await);
        assert!(begun.elapsed() < PATIENCE, "asked {asked} times");
    }
}

/// It takes an order, has nothing, and takes it in no more: what is missing is called a drift after the time that was
/// said, and not at the usual 15 s.
#[tokio::test(flavor = "multi_thread")]
async fn a_workload_may_be_missing_as_long_as_was_said() {
    let folder = Folder::new();
    let variables =
        [("SCHEDULER_DRIFT_DETECT_INTERVAL", "1s"), ("SCHEDULER_MISSING_GRACE_PERIOD", "1s")];
    let mut agent = Agent::join(&folder, &variables).await;
    let way = format!("--insecure --endpoint {}", agent.scheduler);
    let types = |line: String| tokio::task::block_in_place(|| types(&folder, &line));
    let (code, out, err) = types(format!("run web --name one --detach {way}"));
    assert_eq!(code, 0, "{out}{err}");
    let begun = Instant::now();
    loop {
        agent.beat().await;
        let (_, out, _) = types(format!("drift list -o json {way}"));
        if out.contains("\"one\"") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(13), "{out}");
    }
}

/// An agent that takes one order and has nothing.
struct Agent {
    /// They end with it.
    _running: (Program, JoinSet<()>),
    scheduler: SocketAddr,
    client: AgentControlClient<Channel>,
    session: u64,
    seq: u64,
    wanted: bool,
}

impl Agent {
    async fn join(folder: &Folder, variables: &[(&str, &str)]) -> Self {
        let state = folder.at("scheduler");
        let mut all = vec![
            ("PERSYS_STATE_DIR", state.as_str()),
            ("GRPC_PORT", "0"),
            ("METRICS_PORT", "0"),
            ("PERSYS_DNS_PORT", "0"),
        ];
        all.extend_from_slice(variables);
        let mut program = Program::start(folder.path(), &["scheduler", "-insecure"], &all);
        let scheduler = program.at("grpc");
        let way = Endpoint::from_shared(format!("http://{scheduler}")).unwrap();
        let mut client = AgentControlClient::new(way.connect_lazy());
        let (mut served, listener) =
            (JoinSet::new(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let cluster = ClusterName::new("persys").unwrap();
        let incoming = Incoming::plain(listener, cluster, Exposure::Loopback, Arc::new(|_| {}));
        let incoming = incoming.unwrap();
        let at = incoming.local_addr().unwrap();
        served.spawn(async move {
            let service = AgentServiceServer::new(Taking::default());
            Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
        });
        let begun = Instant::now();
        loop {
            let joined = client.register_node(registration(at)).await;
            if let Ok(joined) = joined.map(Response::into_inner)
                && joined.accepted
            {
                let (session, seq, wanted) = (joined.session, 0, false);
                let both = (program, served);
                return Self { _running: both, scheduler, client, session, seq, wanted };
            }
            assert!(begun.elapsed() < PATIENCE, "it is not let in");
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Beats, with all it has if that was asked for; says whether it is asked for now.
    async fn beat(&mut self) -> bool {
        self.seq += 1;
        let beat = api::HeartbeatRequest {
            node_id: "n1".to_owned(),
            session: self.session,
            seq: self.seq,
            full_inventory: self.wanted,
            ..api::HeartbeatRequest::default()
        };
        let answer = self.client.heartbeat(beat).await.unwrap().into_inner();
        assert!(!answer.re_register, "{answer:?}");
        self.wanted = answer.want_inventory;
        sleep(Duration::from_millis(200)).await;
        self.wanted
    }
}

/// Takes the first order, and no other.
#[derive(Default)]
struct Taking(AtomicBool);

#[tonic::async_trait]
impl AgentService for Taking {
    async fn apply_workload(
        &self,
        request: Request<agent::ApplyWorkloadRequest>,
    ) -> Result<Response<agent::ApplyWorkloadResponse>, Status> {
        if self.0.swap(true, Ordering::Relaxed) {
            return Err(Status::unavailable("not again"));
        }
        match command::from_apply(request.into_inner()).unwrap() {
            Said::Ours(command) => {
                Ok(Response::new(answer::to_apply(&Answer::Accepted, command.epoch)))
            }
            Said::Legacy(_) => Err(Status::unimplemented("")),
        }
    }

    async fn delete_workload(
        &self,
        _: Request<agent::DeleteWorkloadRequest>,
    ) -> Result<Response<agent::DeleteWorkloadResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn get_workload_status(
        &self,
        _: Request<agent::GetWorkloadStatusRequest>,
    ) -> Result<Response<agent::GetWorkloadStatusResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn list_workloads(
        &self,
        _: Request<agent::ListWorkloadsRequest>,
    ) -> Result<Response<agent::ListWorkloadsResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn health_check(
        &self,
        _: Request<agent::HealthCheckRequest>,
    ) -> Result<Response<agent::HealthCheckResponse>, Status> {
        Ok(Response::new(agent::HealthCheckResponse { healthy: true, ..Default::default() }))
    }

    async fn list_actions(
        &self,
        _: Request<agent::ListActionsRequest>,
    ) -> Result<Response<agent::ListActionsResponse>, Status> {
        Err(Status::unimplemented(""))
    }
}

fn registration(at: SocketAddr) -> api::RegisterNodeRequest {
    api::RegisterNodeRequest {
        node_id: "n1".to_owned(),
        capabilities: Some(api::NodeCapabilities {
            cpu_total_millicores: 4_000,
            memory_total_mb: 4_096,
            supported_workload_types: vec!["container".to_owned()],
            ..api::NodeCapabilities::default()
        }),
        grpc_endpoint: at.to_string(),
        cluster_id: "persys".to_owned(),
        host_id: "host".to_owned(),
        boot_id: "boot".to_owned(),
        incarnation: "first".to_owned(),
        ..api::RegisterNodeRequest::default()
    }
}
