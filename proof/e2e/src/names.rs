//! One story of names, told to whoever asks: a scheduler, two nodes with addresses of their own, and
//! a workload that comes, moves with the loss of its node, and goes.

#![expect(clippy::expect_used, reason = "a test stops at what cannot be")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use persys_agent::app as agent;
use persys_cluster::discovery::Zones;
use persys_cluster::input::Probe;
use persys_cluster::settings::Settings;
use persys_dns::{MemorySink, RecordSink};
use persys_identity::Exposure;
use persys_model::command::Command;
use persys_model::id::WorkloadId;
use persys_node::settings::AgentSettings;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use persys_proto::control::v1::workload_spec::Workload;
use persys_scheduler::app as scheduler;
use persys_scheduler::discovery::{Discovery, Dns};
use persys_scheduler::driver::Parts;
use persys_scheduler::links::{Links, OrderAnswer, Target, Unreachable};
use persys_scheduler::place::Place;
use persys_scheduler::standing::Standing;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::transport::Channel;

/// How long a name may take to be as it should: less than until everything is looked at anyway, so
/// that events alone must bring it.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is answered to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// `NOERROR`, `NXDOMAIN` and so on.
    pub status: String,
    /// Kind and content of each record, sorted: `A 127.0.0.1`.
    pub records: Vec<String>,
}

/// Asks a server.
#[async_trait]
pub trait Asks: Send + Sync {
    /// For the records of this kind under this name; `None` when it does not answer.
    async fn ask(&self, server: SocketAddr, name: &str, kind: &str) -> Option<Answer>;
}

/// Agents are on this machine, where a port nobody listens on proves that the machine lives. Here
/// nobody gets that proof, so that a node can be lost.
struct Deaf(Arc<dyn Links>);

#[async_trait]
impl Links for Deaf {
    async fn order(&self, to: &Target, command: Command) -> Result<OrderAnswer, Unreachable> {
        self.0.order(to, command).await
    }

    async fn actions(&self, of: &Target, workload: &WorkloadId) -> Result<String, Unreachable> {
        self.0.actions(of, workload).await
    }

    async fn probe(&self, _of: &Target) -> Probe {
        Probe::Silent
    }
}

/// Starts a scheduler that answers names where `dns` says.
pub async fn scheduler(
    folder: &Path,
    dns: Dns,
    sink: Option<Arc<MemorySink>>,
) -> scheduler::Running {
    scheduler_with(folder, dns, sink, false).await
}

/// The same, with the whole cluster in shadow or not.
async fn scheduler_with(
    folder: &Path,
    dns: Dns,
    sink: Option<Arc<MemorySink>>,
    shadow: bool,
) -> scheduler::Running {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = scheduler::Config {
        grpc: any,
        http: any,
        advertise: scheduler::Advertise { ip: Some([192, 0, 2, 7].into()), port: Some(8085) },
        state_dir: folder.join("scheduler"),
        store: Place::File,
        cluster: "names".to_owned(),
        security: scheduler::Security::Insecure(Exposure::Loopback),
        settings: Settings {
            lease_ms: 4_000,
            failover_grace_ms: 500,
            probe_interval_ms: 200,
            shadow,
            ..Settings::default()
        },
        logins: None,
        git: scheduler::GitSettings::default(),
        secrets_key: None,
        vault: None,
        discovery: Discovery {
            zones: Zones::default(),
            dns,
            publish: true,
            sink: sink.map(|sink| -> Arc<dyn RecordSink> { sink }),
        },
    };
    let deaf = |parts: Parts| Parts { links: Arc::new(Deaf(parts.links)), ..parts };
    let running = scheduler::start_with(config, deaf).await.expect("a scheduler");
    let mut standing = running.handle.standing();
    let leads = standing.wait_for(Standing::is_normal);
    tokio::time::timeout(PATIENCE, leads).await.expect("in time").expect("a leader");
    running
}

/// An agent with an address of its own.
async fn agent(folder: &Path, name: &str, last: u8, scheduler: SocketAddr) -> agent::Running {
    agent::start(agent::Config {
        node: Some(name.to_owned()),
        grpc: SocketAddr::from(([127, 0, 0, last], 0)),
        advertise: None,
        schedulers: vec![scheduler.to_string()],
        state_dir: folder.join(name),
        cluster: "names".to_owned(),
        runtime: agent::RuntimeChoice::Sim(None),
        security: agent::Security::Insecure(Exposure::Loopback),
        labels: BTreeMap::new(),
        settings: AgentSettings {
            admit_percent: 0,
            admit_disk_percent: 0,
            ..AgentSettings::default()
        },
        reach: agent::Reach::Called,
        watchdog: None,
        compose: agent::ComposeChoice::default(),
        registry_auth: None,
        volumes: agent::VolumeSettings::within(&folder.join(name), agent::Limit::None),
        machines: None,
        http: None,
    })
    .await
    .expect("an agent")
}

fn web() -> wire::ApplyWorkloadRequest {
    let port = |host_port, container_port| wire::Port {
        host_port,
        container_port,
        protocol: "tcp".to_owned(),
        host_ip: String::new(),
    };
    let container = wire::ContainerSpec {
        image: "web:1".to_owned(),
        ports: vec![port(8081, 80), port(8443, 443)],
        ..Default::default()
    };
    let resources = wire::ResourceRequirements { cpu_millicores: 10, memory_mb: 4, disk_gb: 0 };
    wire::ApplyWorkloadRequest {
        workload_id: "web".to_owned(),
        spec: Some(wire::WorkloadSpec {
            r#type: "container".to_owned(),
            resources: Some(resources),
            workload: Some(Workload::Container(container)),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// A server and somebody who asks it.
struct Telling<'a> {
    asks: &'a dyn Asks,
    server: SocketAddr,
}

impl Telling<'_> {
    /// Waits until this is the answer.
    async fn becomes(&self, name: &str, kind: &str, status: &str, records: &[&str]) {
        let wanted = Some(Answer {
            status: status.to_owned(),
            records: records.iter().map(|&record| record.to_owned()).collect(),
        });
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.asks.ask(self.server, name, kind).await;
            if found == wanted {
                return;
            }
            assert!(Instant::now() < deadline, "{name} {kind}: {found:?}, not {wanted:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Waits until the records for other servers are as they should be: they follow a little later.
async fn records_become(sink: &MemorySink, right: impl Fn(&BTreeMap<String, String>) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !right(&sink.records()) {
        assert!(Instant::now() < deadline, "{:?}", sink.records());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Tells the story.
pub async fn story(asks: &dyn Asks) {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = Arc::new(MemorySink::default());
    let dns = Dns::At(SocketAddr::from(([127, 0, 0, 1], 0)));
    let scheduler = scheduler(folder.path(), dns, Some(Arc::clone(&sink))).await;
    let told = Telling { asks, server: scheduler.dns.expect("a server") };

    told.becomes("persys-scheduler.persys.local", "A", "NOERROR", &["A 192.0.2.7"]).await;
    let service = ["SRV 10 100 8085 persys-scheduler.persys.local."];
    told.becomes("_persys-scheduler.persys.local", "SRV", "NOERROR", &service).await;
    told.becomes("_persys-scheduler._tcp.persys.local", "SRV", "NOERROR", &service).await;
    told.becomes("web.workloads.persys.local", "A", "NXDOMAIN", &[]).await;
    told.becomes("example.com", "A", "REFUSED", &[]).await;

    let first = agent(folder.path(), "n_1", 2, scheduler.grpc).await;
    let first_name = "x--n-u1.default.agents.persys.cloud";
    told.becomes(first_name, "A", "NOERROR", &["A 127.0.0.2"]).await;
    told.becomes(first_name, "AAAA", "NOERROR", &[]).await;

    let channel = Channel::from_shared(format!("http://{}", scheduler.grpc)).expect("an address");
    let mut client = AgentControlClient::new(channel.connect().await.expect("a connection"));
    client.apply_workload(web()).await.expect("accepted");
    told.becomes("web.workloads.persys.local", "A", "NOERROR", &["A 127.0.0.2"]).await;
    told.becomes("WEB.Workloads.Persys.LOCAL", "A", "NOERROR", &["A 127.0.0.2"]).await;
    let ports = [
        "SRV 10 100 8081 web.workloads.persys.local.",
        "SRV 10 100 8443 web.workloads.persys.local.",
    ];
    told.becomes("web.workloads.persys.local", "SRV", "NOERROR", &ports).await;

    // Its node is lost: the name leads to where it runs next, and the node has none.
    let second = agent(folder.path(), "n2", 3, scheduler.grpc).await;
    told.becomes("n2.default.agents.persys.cloud", "A", "NOERROR", &["A 127.0.0.3"]).await;
    drop(first);
    told.becomes("web.workloads.persys.local", "A", "NOERROR", &["A 127.0.0.3"]).await;
    told.becomes(first_name, "A", "NXDOMAIN", &[]).await;
    let value = r#"{"host":"127.0.0.3","port":8081,"ttl":30}"#;
    records_become(&sink, |records| {
        let key = "/skydns/local/persys/workloads/web/tcp-8081";
        records.get(key).is_some_and(|found| found == value)
    })
    .await;

    let delete = wire::DeleteWorkloadRequest { workload_id: "web".to_owned(), volumes: false };
    client.delete_workload(delete).await.expect("accepted");
    told.becomes("web.workloads.persys.local", "A", "NXDOMAIN", &[]).await;
    // The scheduler three times, and one agent.
    records_become(&sink, |records| records.len() == 4).await;

    second.stop().await;
    drop(client);
    scheduler.stop().await;
    assert!(sink.records().is_empty(), "a clean end leaves no record");
}

/// Tells of a cluster in shadow: nothing of it has a name until its scheduler is started without.
pub async fn shadow_story(asks: &dyn Asks) {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = Arc::new(MemorySink::default());
    let dns = Dns::At(SocketAddr::from(([127, 0, 0, 1], 0)));
    let hidden = scheduler_with(folder.path(), dns, Some(Arc::clone(&sink)), true).await;
    let told = Telling { asks, server: hidden.dns.expect("a server") };
    let first = agent(folder.path(), "n1", 2, hidden.grpc).await;
    let mut client = AgentControlClient::new(connected(hidden.grpc).await);
    client.apply_workload(web()).await.expect("accepted");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let wanted = wire::GetWorkloadRequest { workload_id: "web".to_owned() };
        let found = client.get_workload(wanted).await.ok();
        let view = found.and_then(|found| found.into_inner().workload);
        if view.as_ref().is_some_and(|view| view.status == "Running") {
            assert!(view.is_some_and(|view| view.shadow));
            break;
        }
        assert!(Instant::now() < deadline, "{view:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for name in [
        "persys-scheduler.persys.local",
        "_persys-scheduler._tcp.persys.local",
        "n1.default.agents.persys.cloud",
        "web.workloads.persys.local",
    ] {
        told.becomes(name, "A", "NXDOMAIN", &[]).await;
    }
    assert!(sink.records().is_empty(), "nothing is written for other servers");
    let health = health(hidden.http).await;
    assert!(health.contains(r#""shadow":{"cluster":true,"workloads":1}"#), "{health}");
    first.stop().await;
    drop(client);
    hidden.stop().await;

    let shown = scheduler_with(folder.path(), dns, Some(Arc::clone(&sink)), false).await;
    let told = Telling { asks, server: shown.dns.expect("a server") };
    let first = agent(folder.path(), "n1", 2, shown.grpc).await;
    told.becomes("persys-scheduler.persys.local", "A", "NOERROR", &["A 192.0.2.7"]).await;
    let ports = [
        "SRV 10 100 8081 web.workloads.persys.local.",
        "SRV 10 100 8443 web.workloads.persys.local.",
    ];
    told.becomes("web.workloads.persys.local", "SRV", "NOERROR", &ports).await;
    first.stop().await;
    shown.stop().await;
}

/// What `/health` says.
async fn health(at: SocketAddr) -> String {
    let mut connection = TcpStream::connect(at).await.expect("a connection");
    let request = b"GET /health HTTP/1.0\r\nhost: here\r\n\r\n";
    connection.write_all(request).await.expect("a request");
    let mut text = String::new();
    connection.read_to_string(&mut text).await.expect("an answer");
    text
}

async fn connected(to: SocketAddr) -> Channel {
    let channel = Channel::from_shared(format!("http://{to}")).expect("an address");
    channel.connect().await.expect("a connection")
}
