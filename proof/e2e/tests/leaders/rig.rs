//! Schedulers that share a store, each a program with a thread of its own: it can be killed and
//! frozen like a process. Agents and clients beside them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use persys_agent::app as agent;
use persys_cluster::settings::Settings;
use persys_e2e::cluster::workload;
use persys_identity::{
    Authority, Bundle, ClusterName, Connector, Credentials, Expected, Exposure, Grant, Issued,
    Name, Role, Source, TrustDomain, Validity,
};
use persys_model::id::{NodeId, WorkloadId};
use persys_node::settings::AgentSettings;
use persys_proto::compute::v1::compute_client::ComputeClient;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use persys_runtime::sim::{Settings as SimSettings, Sim};
use persys_runtime::{Clock, Runtime as _};
use persys_scheduler::app as scheduler;
use persys_scheduler::discovery::Discovery;
use persys_scheduler::driver::Parts;
use persys_scheduler::place::Place;
use persys_scheduler::standing::Standing;
use persys_store::{Memory, Settings as StoreSettings, Store};
use persys_telemetry::trace;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tonic::transport::{Channel, Endpoint};

use crate::gate::{Gate, Way};

/// How long something may take to become true.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
const CLUSTER: &str = "east";

pub(crate) type Client = AgentControlClient<Channel>;

/// One scheduler.
pub(crate) struct Process {
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) standing: watch::Receiver<Standing>,
    pub(crate) store: watch::Sender<Way>,
    inside: tokio::runtime::Handle,
    end: Option<oneshot::Sender<End>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Killed,
    Stopped,
}

/// While it is held, nothing happens in the process it froze.
pub(crate) struct Frozen(
    #[expect(dead_code, reason = "its end is what counts")] std::sync::mpsc::Sender<()>,
);

impl Process {
    fn start(config: scheduler::Config, memory: &Memory) -> Self {
        let (way, seen) = watch::channel(Way::Open);
        let store: Arc<dyn Store> = Arc::new(Gate::new(Arc::new(memory.another()), seen));
        let (to, started) = std::sync::mpsc::channel();
        let (end, ends) = oneshot::channel();
        // It writes spans down where whoever starts it does.
        let home = trace::current();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let inside = runtime.handle().clone();
            runtime.block_on(async {
                let between = |parts| Parts { store, ..parts };
                let starting = scheduler::start_with(config, between);
                let running = trace::scope(home, starting).await.unwrap();
                let standing = running.handle.standing();
                to.send((running.grpc, running.http, standing, inside)).unwrap();
                match ends.await {
                    Ok(End::Stopped) => running.stop().await,
                    Ok(End::Killed) | Err(_) => drop(running),
                }
            });
            // Whatever was under way ends where it is, connections included.
            runtime.shutdown_background();
        });
        let (grpc, http, standing, inside) = started.recv().unwrap();
        let (end, thread) = (Some(end), Some(thread));
        Self { grpc, http, standing, store: way, inside, end, thread }
    }

    fn end(&mut self, how: End) {
        if let Some(end) = self.end.take() {
            // Whoever panicked has ended already.
            end.send(how).ok();
        }
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    /// It is gone without a word.
    pub(crate) fn kill(mut self) {
        self.end(End::Killed);
    }

    /// It stops in good order.
    pub(crate) fn stop(mut self) {
        self.end(End::Stopped);
    }

    /// It stands still until the answer is dropped.
    pub(crate) fn freeze(&self) -> Frozen {
        let (hold, until) = std::sync::mpsc::channel::<()>();
        let (to, frozen) = std::sync::mpsc::channel();
        self.inside.spawn(async move {
            to.send(()).unwrap();
            // The only thread of the process waits here.
            until.recv().unwrap_err();
        });
        frozen.recv().unwrap();
        Frozen(hold)
    }

    pub(crate) fn leads(&self) -> bool {
        self.standing.borrow().is_normal()
    }

    /// Head and body of a page.
    pub(crate) async fn page(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.http).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end(End::Killed);
    }
}

/// Schedulers, agents, and a store in the middle.
pub(crate) struct Rig {
    pub(crate) schedulers: Vec<Process>,
    pub(crate) agents: BTreeMap<NodeId, agent::Running>,
    pub(crate) sims: BTreeMap<NodeId, Sim>,
    pub(crate) memory: Memory,
    authority: Option<Authority>,
    folder: TempDir,
    settings: Settings,
    started: usize,
}

impl Rig {
    /// So many schedulers, the first of which leads.
    pub(crate) async fn start(count: usize, certificates: bool, settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = certificates.then(|| {
            let ca = folder.path().join("ca");
            std::fs::create_dir(&ca).unwrap();
            let (domain, cluster) = (TrustDomain::new("example.org"), ClusterName::new(CLUSTER));
            let begun = SystemTime::now() - Duration::from_hours(72);
            Authority::open_or_create(&ca, &domain.unwrap(), &cluster.unwrap(), begun).unwrap()
        });
        let memory = Memory::new(StoreSettings::default()).unwrap();
        let (schedulers, agents, sims) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let mut rig =
            Self { schedulers, agents, sims, memory, authority, folder, settings, started: 0 };
        for _ in 0..count {
            rig.add_scheduler().await;
        }
        rig
    }

    /// One more. It knows who leads when this returns.
    pub(crate) async fn add_scheduler(&mut self) {
        self.started += 1;
        let name = format!("s{}", self.started);
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let config = scheduler::Config {
            grpc: any,
            http: any,
            advertise: scheduler::Advertise::default(),
            state_dir: self.folder.path().join(&name),
            store: Place::File,
            discovery: Discovery::default(),
            logins: None,
            git: persys_scheduler::app::GitSettings::default(),
            secrets_key: None,
            vault: None,
            cluster: CLUSTER.to_owned(),
            security: self.source(Role::Scheduler, &name).map_or(
                scheduler::Security::Insecure(Exposure::Loopback),
                scheduler::Security::Mtls,
            ),
            settings: self.settings.clone(),
        };
        let process = Process::start(config, &self.memory);
        let mut standing = process.standing.clone();
        let known = standing.wait_for(Standing::is_well);
        tokio::time::timeout(PATIENCE, known).await.unwrap().unwrap();
        self.schedulers.push(process);
    }

    fn issue(&self, role: Role, name: &str) -> Option<Issued> {
        let grant = Grant::new(role, Name::new(name).unwrap());
        let validity = Validity { now: SystemTime::now(), lifetime: Duration::from_hours(1) };
        Some(self.authority.as_ref()?.issue(&grant, validity).unwrap())
    }

    fn source(&self, role: Role, name: &str) -> Option<Source> {
        let source = Source::Bundle(self.folder.path().join(format!("{name}.pem")));
        source.save(&self.issue(role, name)?).unwrap();
        Some(source)
    }

    /// An agent that knows these schedulers, and has joined when this returns.
    pub(crate) async fn add_agent(
        &mut self,
        name: &str,
        reach: agent::Reach,
        schedulers: Vec<String>,
    ) {
        let sim = Sim::new(SimSettings::default(), Clock::since_boot());
        let config = agent::Config {
            node: Some(name.to_owned()),
            grpc: "127.0.0.1:0".parse().unwrap(),
            advertise: None,
            reach,
            schedulers,
            state_dir: self.folder.path().join(name),
            cluster: CLUSTER.to_owned(),
            runtime: agent::RuntimeChoice::Sim(Some(sim.clone())),
            security: self
                .source(Role::Agent, name)
                .map_or(agent::Security::Insecure(Exposure::Loopback), agent::Security::Mtls),
            labels: BTreeMap::new(),
            settings: AgentSettings {
                admit_percent: 0,
                admit_disk_percent: 0,
                ..AgentSettings::default()
            },
            watchdog: None,
            compose: agent::ComposeChoice::default(),
            registry_auth: None,
            volumes: agent::VolumeSettings::within(
                &self.folder.path().join(name),
                agent::Limit::None,
            ),
            machines: None,
            http: None,
        };
        let running = agent::start(config).await.unwrap();
        let deadline = Instant::now() + PATIENCE;
        while running.handle.read(|agent, _| agent.session().is_none()).await.unwrap() {
            assert!(Instant::now() < deadline, "{name} does not join");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.sims.insert(running.node.clone(), sim);
        self.agents.insert(running.node.clone(), running);
    }

    /// Every address, beginning with the nth.
    pub(crate) fn addresses(&self, first: usize) -> Vec<String> {
        let all: Vec<_> = self.schedulers.iter().map(|process| process.grpc.to_string()).collect();
        let turn = first % all.len();
        all.iter().skip(turn).chain(all.iter().take(turn)).cloned().collect()
    }

    pub(crate) fn leader(&self) -> Option<usize> {
        self.schedulers.iter().position(Process::leads)
    }

    /// Takes the one that leads out of the list.
    pub(crate) fn take_leader(&mut self) -> Process {
        let leader = self.leader().unwrap();
        self.schedulers.remove(leader)
    }

    pub(crate) async fn channel(&self, to: SocketAddr, role: Role, name: &str) -> Channel {
        let connector = match self.issue(role, name) {
            None => Connector::plain(),
            Some(issued) => {
                let bundle = Bundle::from_issued(&issued, SystemTime::now()).unwrap();
                Connector::tls(&Credentials::new(bundle), Expected::Scheduler).unwrap()
            }
        };
        let endpoint = Endpoint::from_shared(format!("http://{to}")).unwrap();
        endpoint.connect_with_connector(connector).await.unwrap()
    }

    /// An operator at the nth scheduler.
    pub(crate) async fn operator(&self, nth: usize) -> Client {
        Client::new(self.channel(self.schedulers[nth].grpc, Role::Operator, "alice").await)
    }

    pub(crate) async fn compute(&self, nth: usize) -> ComputeClient<Channel> {
        ComputeClient::new(self.channel(self.schedulers[nth].grpc, Role::Operator, "alice").await)
    }

    /// What was made on which node, and under which decision.
    pub(crate) async fn made(&self) -> BTreeMap<WorkloadId, Vec<(NodeId, u64, String)>> {
        let mut made: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (node, sim) in &self.sims {
            for seen in sim.list().await.unwrap() {
                let life = sim.inspect(&seen.workload).await.map(|found| format!("{found:?}"));
                let life = life.unwrap_or_else(|fault| fault.to_string());
                let row = (node.clone(), seen.epoch.0, life);
                made.entry(seen.workload).or_default().push(row);
            }
        }
        made
    }
}

pub(crate) fn container(id: &str) -> wire::ApplyWorkloadRequest {
    let container =
        wire::ContainerSpec { image: "nginx:1.27".to_owned(), ..wire::ContainerSpec::default() };
    wire::ApplyWorkloadRequest {
        workload_id: workload(id).to_string(),
        spec: Some(wire::WorkloadSpec {
            r#type: "container".to_owned(),
            resources: Some(wire::ResourceRequirements {
                cpu_millicores: 10,
                memory_mb: 16,
                disk_gb: 0,
            }),
            workload: Some(wire::workload_spec::Workload::Container(container)),
            ..wire::WorkloadSpec::default()
        }),
        ..wire::ApplyWorkloadRequest::default()
    }
}

/// Applies, and is told that it was.
pub(crate) async fn apply(client: &mut Client, id: &str) {
    let answer = client.apply_workload(container(id)).await.unwrap().into_inner();
    assert!(answer.success, "{id}: {}", answer.error_message);
}

/// Looks until a workload is in this state.
pub(crate) async fn until(client: &mut Client, id: &str, wanted: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let request = wire::GetWorkloadRequest { workload_id: id.to_owned() };
        let found = client.get_workload(request).await;
        let status = found.map(|found| found.into_inner().workload.unwrap().status);
        if status.as_ref().is_ok_and(|status| status == wanted) {
            return;
        }
        assert!(Instant::now() < deadline, "{id} is {status:?}, not {wanted:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How many events of this kind there are.
pub(crate) async fn events(client: &mut Client, kind: &str) -> usize {
    let request =
        wire::ListEventsRequest { limit: 1000, r#type: kind.to_owned(), ..Default::default() };
    client.list_events(request).await.unwrap().into_inner().events.len()
}
