//! An agent that accepts everything and notes it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use persys_identity::{ClusterName, Credentials, Exposure, Incoming, Report};
use persys_model::command::{Answer, Command, Order};
use persys_proto::agent::v1 as api;
use persys_proto::agent::v1::agent_service_server::{AgentService, AgentServiceServer};
use persys_proto::convert::{Said, answer, command};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

#[derive(Clone, Default)]
pub(crate) struct Notes {
    pub(crate) commands: Arc<Mutex<Vec<Command>>>,
    /// What an old agent was told to have.
    pub(crate) old: Arc<Mutex<BTreeSet<String>>>,
}

impl Notes {
    /// Waits until an old agent was told to have a workload.
    pub(crate) async fn has(&self, id: &str) {
        for _ in 0..1_000 {
            if self.old.lock().unwrap().contains(id) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no order for {id}");
    }

    /// The first order to have a workload, once it came.
    pub(crate) async fn applied(&self, id: &str) -> Command {
        for _ in 0..1_000 {
            let found = self.commands.lock().unwrap().iter().find_map(|command| {
                let apply = matches!(command.order, Order::Apply(_));
                (apply && command.workload.as_str() == id).then(|| command.clone())
            });
            if let Some(command) = found {
                return command;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no order for {id}");
    }
}

pub(crate) struct FakeAgent {
    pub(crate) address: SocketAddr,
    pub(crate) notes: Notes,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl FakeAgent {
    pub(crate) async fn start(credentials: Option<Credentials>) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), credentials).await
    }

    pub(crate) async fn start_at(at: SocketAddr, credentials: Option<Credentials>) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let report: Report = Arc::new(|_| {});
        let incoming = if let Some(credentials) = credentials {
            Incoming::tls(listener, &credentials, report).unwrap()
        } else {
            let cluster = ClusterName::new("east").unwrap();
            Incoming::plain(listener, cluster, Exposure::Loopback, report).unwrap()
        };
        let (address, notes) = (incoming.local_addr().unwrap(), Notes::default());
        let service = AgentServiceServer::new(notes.clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(async move {
            // Told to stop or forgotten, it ends.
            let end = async { drop(stopped.await) };
            Server::builder().serve_with_incoming_shutdown(service, incoming, end).await.unwrap();
        });
        Self { address, notes, stop, served }
    }

    /// Ends it and all its connections.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.served.await.unwrap();
    }
}

#[tonic::async_trait]
impl AgentService for Notes {
    async fn apply_workload(
        &self,
        request: Request<api::ApplyWorkloadRequest>,
    ) -> Result<Response<api::ApplyWorkloadResponse>, Status> {
        match command::from_apply(request.into_inner()).unwrap() {
            Said::Ours(command) => {
                let response = answer::to_apply(&Answer::Accepted, command.epoch);
                self.commands.lock().unwrap().push(command);
                Ok(Response::new(response))
            }
            Said::Legacy(draft) => {
                self.old.lock().unwrap().insert(draft.workload_id);
                Ok(Response::new(api::ApplyWorkloadResponse {
                    applied: true,
                    ..api::ApplyWorkloadResponse::default()
                }))
            }
        }
    }

    async fn delete_workload(
        &self,
        request: Request<api::DeleteWorkloadRequest>,
    ) -> Result<Response<api::DeleteWorkloadResponse>, Status> {
        match command::from_delete(request.get_ref()).unwrap() {
            Said::Ours(command) => {
                let gone = Answer::Removed { epoch: command.epoch };
                let response = answer::to_delete(&gone, command.epoch);
                self.commands.lock().unwrap().push(command);
                Ok(Response::new(response))
            }
            Said::Legacy(workload) => {
                self.old.lock().unwrap().remove(workload.as_str());
                Ok(Response::new(api::DeleteWorkloadResponse {
                    success: true,
                    ..api::DeleteWorkloadResponse::default()
                }))
            }
        }
    }

    async fn get_workload_status(
        &self,
        request: Request<api::GetWorkloadStatusRequest>,
    ) -> Result<Response<api::GetWorkloadStatusResponse>, Status> {
        let id = request.into_inner().id;
        if self.old.lock().unwrap().contains(&id) {
            return Ok(Response::new(api::GetWorkloadStatusResponse::default()));
        }
        Err(Status::unknown(format!("status not found: {id}")))
    }

    async fn list_workloads(
        &self,
        _: Request<api::ListWorkloadsRequest>,
    ) -> Result<Response<api::ListWorkloadsResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn health_check(
        &self,
        _: Request<api::HealthCheckRequest>,
    ) -> Result<Response<api::HealthCheckResponse>, Status> {
        Ok(Response::new(api::HealthCheckResponse { healthy: true, ..Default::default() }))
    }

    async fn list_actions(
        &self,
        _: Request<api::ListActionsRequest>,
    ) -> Result<Response<api::ListActionsResponse>, Status> {
        Err(Status::unimplemented(""))
    }
}
