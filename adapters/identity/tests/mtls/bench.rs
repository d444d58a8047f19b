//! A cluster in a folder: authorities, servers and callers.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use persys_identity::{
    Authority, Bundle, ClusterName, Connector, Credentials, Event, Expected, Grant, Incoming,
    Issued, Name, Peer, Report, Role, TrustDomain, Validity,
};
use persys_proto::agent::v1 as api;
use persys_proto::agent::v1::agent_service_client::AgentServiceClient;
use persys_proto::agent::v1::agent_service_server::{AgentService, AgentServiceServer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

pub(crate) const HOUR: Duration = Duration::from_hours(1);

/// An authority that has been there for three days.
pub(crate) fn authority(folder: &Path, cluster: &str) -> Authority {
    let domain = TrustDomain::new("example.org").unwrap();
    let cluster = ClusterName::new(cluster).unwrap();
    let begun = SystemTime::now() - 72 * HOUR;
    Authority::open_or_create(folder, &domain, &cluster, begun).unwrap()
}

pub(crate) fn issue(authority: &Authority, role: Role, name: &str) -> Issued {
    let grant = Grant::new(role, Name::new(name).unwrap());
    authority.issue(&grant, Validity { now: SystemTime::now(), lifetime: HOUR }).unwrap()
}

pub(crate) fn hold(issued: &Issued) -> Credentials {
    Credentials::new(Bundle::from_issued(issued, SystemTime::now()).unwrap())
}

pub(crate) fn credentials(authority: &Authority, role: Role, name: &str) -> Credentials {
    hold(&issue(authority, role, name))
}

/// What listeners and watchers told.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    pub(crate) fn report(&self) -> Report {
        let told = Arc::clone(&self.0);
        Arc::new(move |event: Event| {
            told.lock().unwrap().push(format!("{}: {event}", event.name()));
        })
    }

    /// Waits until something was told that contains `wanted`.
    pub(crate) async fn wait(&self, wanted: &str) {
        for _ in 0..2_000 {
            if self.0.lock().unwrap().iter().any(|event| event.contains(wanted)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("nothing about {wanted:?} in {:#?}", self.0.lock().unwrap());
    }
}

/// Serves until dropped.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    pub(crate) told: Told,
    _tasks: JoinSet<()>,
}

pub(crate) async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

pub(crate) async fn serve(credentials: &Credentials) -> Serving {
    let told = Told::default();
    let incoming = Incoming::tls(listener().await, credentials, told.report()).unwrap();
    serve_incoming(incoming, told)
}

pub(crate) fn serve_incoming(incoming: Incoming, told: Told) -> Serving {
    serve_from(Server::builder(), incoming, told)
}

pub(crate) fn serve_from(server: Server, incoming: Incoming, told: Told) -> Serving {
    let address = incoming.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let service = AgentServiceServer::new(WhoCalls);
        server.serve_with_incoming(service, incoming).await.unwrap();
        panic!("the listener ended");
    });
    Serving { address, told, _tasks: tasks }
}

pub(crate) type Client = AgentServiceClient<Channel>;

pub(crate) async fn dial(
    address: SocketAddr,
    connector: Connector,
) -> Result<Client, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    Ok(AgentServiceClient::new(endpoint.connect_with_connector(connector).await?))
}

/// Who the server says we are: `<role>/<name>/<serial>`.
pub(crate) async fn ask(client: &mut Client) -> Result<String, Status> {
    let answer = client.health_check(api::HealthCheckRequest {}).await?;
    Ok(answer.into_inner().version)
}

/// Dials and asks, as one thing that works or does not.
pub(crate) async fn call(
    address: SocketAddr,
    credentials: &Credentials,
    expected: Expected,
) -> Result<String, String> {
    let connector = Connector::tls(credentials, expected).unwrap();
    let mut client = dial(address, connector).await.map_err(|error| format!("{error:?}"))?;
    ask(&mut client).await.map_err(|status| status.to_string())
}

/// An agent that only knows who calls.
struct WhoCalls;

#[tonic::async_trait]
impl AgentService for WhoCalls {
    async fn health_check(
        &self,
        request: Request<api::HealthCheckRequest>,
    ) -> Result<Response<api::HealthCheckResponse>, Status> {
        let peer = Peer::of(&request).ok_or_else(|| Status::internal("nobody is calling"))?;
        let certificate = peer.certificate.as_ref();
        let serial = certificate.map_or("plain", |certificate| certificate.serial.as_str());
        let version = format!("{}/{}/{serial}", peer.role, peer.name);
        Ok(Response::new(api::HealthCheckResponse { version, ..Default::default() }))
    }

    async fn apply_workload(
        &self,
        _: Request<api::ApplyWorkloadRequest>,
    ) -> Result<Response<api::ApplyWorkloadResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn delete_workload(
        &self,
        _: Request<api::DeleteWorkloadRequest>,
    ) -> Result<Response<api::DeleteWorkloadResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn get_workload_status(
        &self,
        _: Request<api::GetWorkloadStatusRequest>,
    ) -> Result<Response<api::GetWorkloadStatusResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn list_workloads(
        &self,
        _: Request<api::ListWorkloadsRequest>,
    ) -> Result<Response<api::ListWorkloadsResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn list_actions(
        &self,
        _: Request<api::ListActionsRequest>,
    ) -> Result<Response<api::ListActionsResponse>, Status> {
        Err(Status::unimplemented(""))
    }
}
