//! Agents that listen nowhere, and agents that take their orders from a stream though they listen,
//! with a scheduler over real connections: from a submission to something that runs, and back after
//! each of them, and the wire between them, died.

#![allow(clippy::unwrap_used, reason = "a test may stop")]
#![allow(clippy::panic, reason = "a test may stop")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use persys_agent::app as agent;
use persys_e2e::cluster::{quick, workload};
use persys_identity::{
    Authority, Bundle, ClusterName, Connector, Credentials, Expected, Exposure, Grant, Name, Role,
    Source, TrustDomain, Validity,
};
use persys_model::node::{BY_STREAM, Condition};
use persys_node::settings::AgentSettings;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use persys_runtime::sim::{Settings as SimSettings, Sim};
use persys_runtime::{Clock, Runtime as _};
use persys_scheduler::app as scheduler;
use persys_scheduler::discovery::Discovery;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};

/// How long something may take to become true.
const PATIENCE: Duration = Duration::from_secs(20);

type Client = AgentControlClient<Channel>;

/// A scheduler that comes and goes at one address, and an agent that calls it through a proxy.
struct Rig {
    folder: TempDir,
    authority: Option<Authority>,
    scheduler: Option<scheduler::Running>,
    address: SocketAddr,
    proxy: Proxy,
    sim: Sim,
}

impl Rig {
    async fn start(certificates: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = certificates.then(|| {
            let ca = folder.path().join("ca");
            std::fs::create_dir(&ca).unwrap();
            let (domain, cluster) = (TrustDomain::new("example.org"), ClusterName::new("east"));
            let begun = SystemTime::now() - Duration::from_hours(72);
            Authority::open_or_create(&ca, &domain.unwrap(), &cluster.unwrap(), begun).unwrap()
        });
        let any = "127.0.0.1:0".parse().unwrap();
        let sim = Sim::new(SimSettings::default(), Clock::since_boot());
        let proxy = Proxy::start().await;
        let mut rig = Self { folder, authority, scheduler: None, address: any, proxy, sim };
        rig.start_scheduler().await;
        rig
    }

    fn bundle(&self, role: Role, name: &str) -> Option<Source> {
        let grant = Grant::new(role, Name::new(name).unwrap());
        let validity = Validity { now: SystemTime::now(), lifetime: Duration::from_hours(1) };
        let issued = self.authority.as_ref()?.issue(&grant, validity).unwrap();
        let source = Source::Bundle(self.folder.path().join(format!("{name}.pem")));
        source.save(&issued).unwrap();
        Some(source)
    }

    async fn start_scheduler(&mut self) {
        let security = self.bundle(Role::Scheduler, "s1");
        let config = scheduler::Config {
            grpc: self.address,
            http: "127.0.0.1:0".parse().unwrap(),
            advertise: scheduler::Advertise::default(),
            state_dir: self.folder.path().join("scheduler"),
            store: persys_scheduler::place::Place::File,
            cluster: "east".to_owned(),
            security: security.map_or(
                scheduler::Security::Insecure(Exposure::Loopback),
                scheduler::Security::Mtls,
            ),
            settings: quick(),
            discovery: Discovery::default(),
            logins: None,
            git: persys_scheduler::app::GitSettings::default(),
            secrets_key: None,
            vault: None,
        };
        let running = scheduler::start(config).await.unwrap();
        self.address = running.grpc;
        self.proxy.to.send_replace(Some(running.grpc));
        let mut standing = running.handle.standing();
        let normal = standing.wait_for(persys_scheduler::standing::Standing::is_normal);
        tokio::time::timeout(PATIENCE, normal).await.unwrap().unwrap();
        self.scheduler = Some(running);
    }

    async fn stop_scheduler(&mut self) {
        let begun = Instant::now();
        self.scheduler.take().unwrap().stop().await;
        let took = begun.elapsed();
        assert!(took < Duration::from_millis(1_500), "an open stream held it up for {took:?}");
    }

    /// An agent that listens nowhere.
    async fn start_agent(&self) -> agent::Running {
        let running = self.start_agent_at(self.address, agent::Reach::Stream).await;
        assert_eq!(running.grpc, None, "it listens");
        running
    }

    /// An agent that listens, at an address it does not tell of: nobody reaches it there.
    async fn start_out_of_reach(&self) -> agent::Running {
        self.start_agent_at("127.0.0.1:0".parse().unwrap(), agent::Reach::Called).await
    }

    async fn start_agent_at(&self, grpc: SocketAddr, reach: agent::Reach) -> agent::Running {
        let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let security = self.bundle(Role::Agent, "n1");
        let config = agent::Config {
            node: Some("n1".to_owned()),
            // Where nobody is to listen it is taken: whoever did would fail.
            grpc,
            advertise: (reach == agent::Reach::Called).then(|| nobody.to_string()),
            reach,
            schedulers: vec![nobody.to_string(), self.proxy.address.to_string()],
            state_dir: self.folder.path().join("agent"),
            cluster: "east".to_owned(),
            runtime: agent::RuntimeChoice::Sim(Some(self.sim.clone())),
            security: security
                .map_or(agent::Security::Insecure(Exposure::Loopback), agent::Security::Mtls),
            labels: BTreeMap::new(),
            settings: AgentSettings {
                admit_percent: 0,
                admit_disk_percent: 0,
                beat_ms: 100,
                register_base_ms: 50,
                register_cap_ms: 200,
                ..AgentSettings::default()
            },
            watchdog: None,
            compose: agent::ComposeChoice::default(),
            registry_auth: None,
            volumes: agent::VolumeSettings::within(self.folder.path(), agent::Limit::None),
            machines: None,
            http: None,
        };
        agent::start(config).await.unwrap()
    }

    async fn client(&self) -> Client {
        let connector = match self.bundle(Role::Operator, "alice") {
            None => Connector::plain(),
            Some(source) => {
                let bundle: Bundle = source.load(SystemTime::now()).unwrap();
                Connector::tls(&Credentials::new(bundle), Expected::Scheduler).unwrap()
            }
        };
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        AgentControlClient::new(endpoint.connect_with_connector(connector).await.unwrap())
    }

    /// What tells one start of a workload from the next.
    async fn start_of(&self, id: &str) -> String {
        format!("{:?}", self.sim.inspect(&workload(id)).await.unwrap())
    }

    async fn count(&self) -> usize {
        self.sim.list().await.unwrap().len()
    }
}

/// Passes connections on, and cuts them.
struct Proxy {
    address: SocketAddr,
    to: watch::Sender<Option<SocketAddr>>,
    cuts: watch::Sender<u64>,
    _serving: JoinSet<()>,
}

impl Proxy {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (to, cuts) = (watch::Sender::new(None), watch::Sender::new(0));
        let (target, cut) = (to.subscribe(), cuts.clone());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut all = JoinSet::new();
            while let Ok((mut from, _)) = listener.accept().await {
                let (at, mut cut) = (*target.borrow(), cut.subscribe());
                all.spawn(async move {
                    let Some(at) = at else { return };
                    let Ok(mut to) = TcpStream::connect(at).await else { return };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut from, &mut to) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self { address, to, cuts, _serving: serving }
    }

    fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

fn apply(id: &str, desired: &str, env: usize) -> wire::ApplyWorkloadRequest {
    let env = (0..env).map(|nth| (format!("LARGE_{nth}"), "x".repeat(30_000)));
    let container = wire::ContainerSpec {
        image: "nginx:1.27".to_owned(),
        env: env.collect(),
        ..wire::ContainerSpec::default()
    };
    let resources =
        Some(wire::ResourceRequirements { cpu_millicores: 10, memory_mb: 8, disk_gb: 0 });
    wire::ApplyWorkloadRequest {
        workload_id: id.to_owned(),
        spec: Some(wire::WorkloadSpec {
            r#type: "container".to_owned(),
            resources,
            workload: Some(wire::workload_spec::Workload::Container(container)),
            ..wire::WorkloadSpec::default()
        }),
        desired_state: desired.to_owned(),
        ..wire::ApplyWorkloadRequest::default()
    }
}

async fn submit(client: &mut Client, request: wire::ApplyWorkloadRequest) {
    let answer = client.apply_workload(request).await.unwrap().into_inner();
    assert!(answer.success, "{}", answer.error_message);
}

/// Waits until a workload is in this state; an empty word waits until it is gone.
async fn until(client: &mut Client, id: &str, wanted: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let request = wire::GetWorkloadRequest { workload_id: id.to_owned() };
        let found = match client.get_workload(request).await {
            Ok(found) => found.into_inner().workload.unwrap().status,
            Err(status) if status.code() == tonic::Code::NotFound => String::new(),
            Err(status) => panic!("{status}"),
        };
        if found == wanted {
            return;
        }
        assert!(Instant::now() < deadline, "{id} is {found:?}, not {wanted:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn from_start_to_end(certificates: bool) {
    let mut rig = Rig::start(certificates).await;
    let running = rig.start_agent().await;
    let mut client = rig.client().await;
    submit(&mut client, apply("web", "Running", 0)).await;
    until(&mut client, "web", "Running").await;
    let request = wire::GetNodeRequest { node_id: "n1".to_owned() };
    let node = client.get_node(request).await.unwrap().into_inner().node.unwrap();
    assert_eq!((&*node.status, &*node.grpc_endpoint), ("Ready", BY_STREAM));

    let stop = wire::ApplyWorkloadRequest { spec: None, ..apply("web", "Stopped", 0) };
    submit(&mut client, stop).await;
    until(&mut client, "web", "Stopped").await;
    // More than fits into the pipe at once.
    submit(&mut client, apply("large", "Running", 8)).await;
    until(&mut client, "large", "Running").await;
    for id in ["web", "large"] {
        let request = wire::DeleteWorkloadRequest { workload_id: id.to_owned(), volumes: false };
        assert!(client.delete_workload(request).await.unwrap().into_inner().success);
        until(&mut client, id, "").await;
    }
    assert_eq!(rig.count().await, 0);
    rig.stop_scheduler().await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_runs_stops_and_goes_over_a_stream() {
    from_start_to_end(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn and_with_certificates() {
    from_start_to_end(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_restarts_is_found_again_and_nothing_starts_twice() {
    let mut rig = Rig::start(true).await;
    let running = rig.start_agent().await;
    let mut client = rig.client().await;
    submit(&mut client, apply("web", "Running", 0)).await;
    until(&mut client, "web", "Running").await;
    let first = rig.start_of("web").await;

    rig.stop_scheduler().await;
    rig.start_scheduler().await;
    let mut client = rig.client().await;
    until(&mut client, "web", "Running").await;
    submit(&mut client, apply("more", "Running", 0)).await;
    until(&mut client, "more", "Running").await;
    assert_eq!(rig.start_of("web").await, first);

    running.stop().await;
    let running = rig.start_agent().await;
    submit(&mut client, apply("most", "Running", 0)).await;
    until(&mut client, "most", "Running").await;
    until(&mut client, "web", "Running").await;
    assert_eq!(rig.start_of("web").await, first);
    assert_eq!(rig.count().await, 3);
    rig.stop_scheduler().await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wire_that_is_cut_again_and_again_delays_and_loses_nothing() {
    let mut rig = Rig::start(true).await;
    let running = rig.start_agent().await;
    let mut client = rig.client().await;
    let names: Vec<_> = (0..12).map(|nth| format!("w{nth}")).collect();
    for name in &names {
        submit(&mut client, apply(name, "Running", 2)).await;
        rig.proxy.cut();
    }
    for name in &names {
        until(&mut client, name, "Running").await;
    }
    assert_eq!(rig.count().await, 12);
    let mut starts = Vec::new();
    for name in &names {
        starts.push(rig.start_of(name).await);
        rig.proxy.cut();
    }
    submit(&mut client, apply("last", "Running", 0)).await;
    until(&mut client, "last", "Running").await;
    for (name, start) in names.iter().zip(starts) {
        assert_eq!(rig.start_of(name).await, start, "{name} was started again");
        rig.proxy.cut();
        let request = wire::DeleteWorkloadRequest { workload_id: name.clone(), volumes: false };
        assert!(client.delete_workload(request).await.unwrap().into_inner().success);
    }
    for name in &names {
        until(&mut client, name, "").await;
    }
    // A node that is away is told of a removal when it is back.
    let deadline = Instant::now() + PATIENCE;
    while rig.count().await != 1 {
        assert!(Instant::now() < deadline, "something was left behind");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    rig.stop_scheduler().await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_cannot_be_called_after_all_takes_its_orders_from_the_stream() {
    let mut rig = Rig::start(true).await;
    let running = rig.start_out_of_reach().await;
    let mut client = rig.client().await;
    for name in ["a", "b", "c"] {
        submit(&mut client, apply(name, "Running", 0)).await;
        until(&mut client, name, "Running").await;
    }
    let first = rig.start_of("a").await;
    // A stream that breaks is opened again, to whoever leads.
    rig.proxy.cut();
    submit(&mut client, apply("d", "Running", 0)).await;
    until(&mut client, "d", "Running").await;
    rig.stop_scheduler().await;
    rig.start_scheduler().await;
    let mut client = rig.client().await;
    submit(&mut client, apply("e", "Running", 0)).await;
    until(&mut client, "e", "Running").await;
    let request = wire::DeleteWorkloadRequest { workload_id: "b".to_owned(), volumes: false };
    assert!(client.delete_workload(request).await.unwrap().into_inner().success);
    until(&mut client, "b", "").await;
    assert_eq!((rig.start_of("a").await, rig.count().await), (first, 4));
    rig.stop_scheduler().await;
    running.stop().await;
}

/// Nobody refuses a call that nobody can make: an agent that is gone is given up after its time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_gone_is_silent() {
    let mut rig = Rig::start(false).await;
    let running = rig.start_agent().await;
    let handle = rig.scheduler.as_ref().unwrap().handle.clone();
    let condition = async || {
        let read = handle.read(|world| world.nodes().map(|view| view.node.condition).next());
        read.await.unwrap()
    };
    let deadline = Instant::now() + PATIENCE;
    while condition().await != Some(Condition::Ready) {
        assert!(Instant::now() < deadline, "it did not join");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    running.stop().await;
    while condition().await != Some(Condition::Lost) {
        assert!(Instant::now() < deadline, "it is not given up");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let running = rig.start_agent().await;
    while condition().await != Some(Condition::Ready) {
        assert!(Instant::now() < deadline, "it did not come back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(handle);
    running.stop().await;
    rig.stop_scheduler().await;
}
