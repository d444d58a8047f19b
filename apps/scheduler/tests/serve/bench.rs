//! A scheduler in a folder, and those who call it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use persys_cluster::settings::Settings;
use persys_identity::{
    Authority, Bundle, ClusterName, Connector, Credentials, Expected, Exposure, Grant, Issued,
    Name, Role, Source, TrustDomain, Validity,
};
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use persys_scheduler::app::{self, Config, Running, Security};
use persys_scheduler::discovery::Discovery;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};

pub(crate) type Client = AgentControlClient<Channel>;

pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) running: Running,
    authority: Option<Authority>,
}

pub(crate) fn config(folder: &Path, security: Security) -> Config {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    Config {
        grpc: any,
        http: any,
        advertise: app::Advertise::default(),
        state_dir: folder.join("state"),
        store: persys_scheduler::place::Place::File,
        cluster: "east".to_owned(),
        security,
        settings: Settings::default(),
        discovery: Discovery::default(),
        logins: None,
        git: app::GitSettings::default(),
        secrets_key: None,
        vault: None,
    }
}

pub(crate) async fn leads(running: &Running) {
    let mut standing = running.handle.standing();
    let normal = standing.wait_for(persys_scheduler::standing::Standing::is_normal);
    tokio::time::timeout(Duration::from_secs(10), normal).await.unwrap().unwrap();
}

impl Bench {
    /// One without certificates, of a scheduler that runs.
    pub(crate) fn of(folder: TempDir, running: Running) -> Self {
        Self { folder, running, authority: None }
    }

    pub(crate) async fn insecure() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let running = app::start(config(folder.path(), Security::Insecure(Exposure::Loopback)))
            .await
            .unwrap();
        leads(&running).await;
        Self { folder, running, authority: None }
    }

    pub(crate) async fn mtls() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (domain, cluster) = (TrustDomain::new("example.org"), ClusterName::new("east"));
        let begun = SystemTime::now() - Duration::from_hours(72);
        let ca = folder.path().join("ca");
        std::fs::create_dir(&ca).unwrap();
        let authority =
            Authority::open_or_create(&ca, &domain.unwrap(), &cluster.unwrap(), begun).unwrap();
        let source = Source::Bundle(folder.path().join("scheduler.pem"));
        source.save(&issue(&authority, Role::Scheduler, "s1")).unwrap();
        let running = app::start(config(folder.path(), Security::Mtls(source))).await.unwrap();
        leads(&running).await;
        Self { folder, running, authority: Some(authority) }
    }

    /// The certificate somebody holds, in a cluster that has any.
    pub(crate) fn credentials(&self, role: Role, name: &str) -> Option<Credentials> {
        let issued = issue(self.authority.as_ref()?, role, name);
        Some(Credentials::new(Bundle::from_issued(&issued, SystemTime::now()).unwrap()))
    }

    pub(crate) async fn channel(&self, role: Role, name: &str) -> Channel {
        let connector = match self.credentials(role, name) {
            Some(credentials) => Connector::tls(&credentials, Expected::Scheduler).unwrap(),
            None => Connector::plain(),
        };
        let endpoint = Endpoint::from_shared(format!("http://{}", self.running.grpc)).unwrap();
        endpoint.connect_with_connector(connector).await.unwrap()
    }

    pub(crate) async fn client(&self, role: Role, name: &str) -> Client {
        AgentControlClient::new(self.channel(role, name).await)
    }

    pub(crate) async fn operator(&self) -> Client {
        self.client(Role::Operator, "alice").await
    }

    /// The head and body of a page.
    pub(crate) async fn page(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.running.http).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }
}

fn issue(authority: &Authority, role: Role, name: &str) -> Issued {
    let grant = Grant::new(role, Name::new(name).unwrap());
    let validity = Validity { now: SystemTime::now(), lifetime: Duration::from_hours(1) };
    authority.issue(&grant, validity).unwrap()
}

pub(crate) fn container(id: &str) -> wire::ApplyWorkloadRequest {
    let container =
        wire::ContainerSpec { image: "nginx:1.27".to_owned(), ..wire::ContainerSpec::default() };
    wire::ApplyWorkloadRequest {
        workload_id: id.to_owned(),
        spec: Some(wire::WorkloadSpec {
            r#type: "container".to_owned(),
            resources: Some(wire::ResourceRequirements {
                cpu_millicores: 100,
                memory_mb: 64,
                disk_gb: 0,
            }),
            workload: Some(wire::workload_spec::Workload::Container(container)),
            ..wire::WorkloadSpec::default()
        }),
        ..wire::ApplyWorkloadRequest::default()
    }
}

/// What an old agent says when it joins.
pub(crate) fn old_node(id: &str, endpoint: SocketAddr) -> wire::RegisterNodeRequest {
    wire::RegisterNodeRequest {
        node_id: id.to_owned(),
        grpc_endpoint: endpoint.to_string(),
        capabilities: Some(wire::NodeCapabilities {
            cpu_total_millicores: 4_000,
            memory_total_mb: 8_192,
            supported_workload_types: vec!["container".to_owned()],
            ..wire::NodeCapabilities::default()
        }),
        ..wire::RegisterNodeRequest::default()
    }
}

/// What an agent of ours says when it joins.
pub(crate) fn node(id: &str, endpoint: SocketAddr) -> wire::RegisterNodeRequest {
    wire::RegisterNodeRequest {
        host_id: format!("host-{id}"),
        incarnation: "life-1".to_owned(),
        ..old_node(id, endpoint)
    }
}

/// The state a workload is in; empty when there is none.
pub(crate) async fn status(client: &mut Client, id: &str) -> String {
    let request = wire::GetWorkloadRequest { workload_id: id.to_owned() };
    match client.get_workload(request).await {
        Ok(found) => found.into_inner().workload.unwrap().status,
        Err(status) if status.code() == tonic::Code::NotFound => String::new(),
        Err(status) => panic!("{status}"),
    }
}

/// Looks until a workload is in this state; an empty word waits until it is gone.
pub(crate) async fn until(client: &mut Client, id: &str, wanted: &str) {
    let mut last = String::new();
    for _ in 0..1_000 {
        last = status(client, id).await;
        if last == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{id} is {last:?}, not {wanted:?}");
}
