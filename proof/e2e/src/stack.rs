//! Scheduler and agents as programs: real listeners, real gRPC, files on disk. Only what runs the
//! workloads is in memory.

#![expect(clippy::expect_used, reason = "a test stops at what cannot be")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use persys_agent::app as agent;
use persys_cluster::record::Head;
use persys_cluster::settings::Settings;
use persys_identity::{
    Authority, Bundle, ClusterName, Connector, Credentials, Expected, Exposure, Grant, Issued,
    Name, Role, Source, TrustDomain, Validity,
};
use persys_model::id::NodeId;
use persys_node::settings::AgentSettings;
use persys_runtime::Clock;
use persys_runtime::sim::{Settings as SimSettings, Sim};
use persys_scheduler::app as scheduler;
use persys_scheduler::discovery::Discovery;
use persys_scheduler::place::Place;
use persys_scheduler::standing::Standing;
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

const CLUSTER: &str = "stack";
/// How long a test waits for a program to be ready.
const PATIENCE: Duration = Duration::from_secs(20);

/// How peers prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// They do not.
    Plain,
    /// With certificates, both sides.
    Mtls,
}

/// One scheduler and its agents. Dropping it ends them.
#[derive(Debug)]
pub struct Stack {
    /// The scheduler.
    pub scheduler: scheduler::Running,
    /// What runs on which node.
    pub sims: BTreeMap<NodeId, Sim>,
    agents: BTreeMap<NodeId, agent::Running>,
    authority: Option<Authority>,
    folder: TempDir,
}

impl Stack {
    /// A scheduler that leads, and no nodes yet.
    pub async fn start(wire: Wire) -> Self {
        Self::start_at(wire, Place::File).await
    }

    /// The same with a store that may be elsewhere.
    pub async fn start_at(wire: Wire, store: Place) -> Self {
        Self::start_with(wire, store, Settings::default()).await
    }

    /// The same with other timings.
    pub async fn start_with(wire: Wire, store: Place, settings: Settings) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = (wire == Wire::Mtls).then(|| authority(&folder));
        let security = match &authority {
            None => scheduler::Security::Insecure(Exposure::Loopback),
            Some(authority) => {
                scheduler::Security::Mtls(keep(authority, &folder, Role::Scheduler, "s1"))
            }
        };
        let config = scheduler::Config {
            grpc: any(),
            http: any(),
            advertise: scheduler::Advertise::default(),
            state_dir: folder.path().join("scheduler"),
            store,
            cluster: CLUSTER.to_owned(),
            security,
            settings,
            discovery: Discovery::default(),
            // Repositories of tests are folders and servers of this machine.
            secrets_key: None,
            vault: None,
            logins: None,
            git: scheduler::GitSettings {
                allow: scheduler::GitProtocol::ALL.into_iter().collect(),
                ..scheduler::GitSettings::default()
            },
        };
        let running = scheduler::start(config).await.expect("a scheduler");
        let mut standing = running.handle.standing();
        let leads = standing.wait_for(Standing::is_normal);
        tokio::time::timeout(PATIENCE, leads).await.expect("in time").expect("a leader");
        let (agents, sims) = (BTreeMap::new(), BTreeMap::new());
        Self { scheduler: running, sims, agents, authority, folder }
    }

    /// A node with all of this machine's room. It has joined, and that is on disk, when this returns.
    pub async fn add_agent(&mut self, name: &str) {
        self.launch(name, vec![self.scheduler.grpc.to_string()]).await;
        let node = NodeId::new(name).expect("a name");
        let handle = self.agents.get(&node).map(|agent| agent.handle.clone()).expect("an agent");
        let deadline = Instant::now() + PATIENCE;
        // A session is told only once it is durable.
        while handle.read(|agent, _| agent.session().is_none()).await.expect("an agent") {
            assert!(Instant::now() < deadline, "{node} does not join");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// An agent that no scheduler commands.
    pub async fn add_lone_agent(&mut self, name: &str) {
        self.launch(name, Vec::new()).await;
    }

    /// An agent under a scheduler elsewhere, which may be none of ours.
    pub async fn add_agent_under(&mut self, name: &str, scheduler: SocketAddr) {
        self.launch(name, vec![scheduler.to_string()]).await;
    }

    /// The same with a certificate of its own, which may be made elsewhere.
    pub async fn add_agent_with(&mut self, name: &str, scheduler: SocketAddr, own: Source) {
        let security = agent::Security::Mtls(own);
        self.launch_with(name, vec![scheduler.to_string()], security).await;
    }

    /// The same agent, with all it has, under the scheduler from now on.
    pub async fn hand_over(&mut self, name: &str) {
        self.lose_agent(name).await;
        self.add_agent(name).await;
    }

    /// Ends an agent and leaves what it runs; [`add_agent`](Self::add_agent) starts it again.
    pub async fn lose_agent(&mut self, name: &str) {
        let node = NodeId::new(name).expect("a name");
        self.agents.remove(&node).expect("an agent").stop().await;
    }

    /// What a node runs, in memory: a test changes it behind the back of its agent.
    #[must_use]
    pub fn sim(&self, name: &str) -> &Sim {
        self.sims.get(&NodeId::new(name).expect("a name")).expect("a node")
    }

    async fn launch(&mut self, name: &str, schedulers: Vec<String>) {
        let security = match &self.authority {
            None => agent::Security::Insecure(Exposure::Loopback),
            Some(authority) => {
                agent::Security::Mtls(keep(authority, &self.folder, Role::Agent, name))
            }
        };
        self.launch_with(name, schedulers, security).await;
    }

    async fn launch_with(
        &mut self,
        name: &str,
        schedulers: Vec<String>,
        security: agent::Security,
    ) {
        let known = self.sims.get(&NodeId::new(name).expect("a name")).cloned();
        let sim = known.unwrap_or_else(|| Sim::new(SimSettings::default(), Clock::since_boot()));
        let config = agent::Config {
            node: Some(name.to_owned()),
            grpc: any(),
            advertise: None,
            schedulers,
            state_dir: self.folder.path().join(name),
            cluster: CLUSTER.to_owned(),
            runtime: agent::RuntimeChoice::Sim(Some(sim.clone())),
            security,
            labels: BTreeMap::new(),
            // How busy the machine of the test is must not matter.
            settings: AgentSettings {
                admit_percent: 0,
                admit_disk_percent: 0,
                ..AgentSettings::default()
            },
            reach: agent::Reach::Called,
            watchdog: None,
            compose: agent::ComposeChoice::default(),
            registry_auth: None,
            volumes: agent::VolumeSettings::within(
                &self.folder.path().join(name),
                agent::Limit::None,
            ),
            machines: None,
            http: Some(any()),
        };
        let running = agent::start(config).await.expect("an agent");
        self.sims.insert(running.node.clone(), sim);
        self.agents.insert(running.node.clone(), running);
    }

    /// A connection to the scheduler.
    pub async fn channel(&self, role: Role, name: &str) -> Channel {
        self.connect(self.scheduler.grpc, role, name, Expected::Scheduler).await
    }

    /// An operator's connection to an agent.
    pub async fn agent_channel(&self, node: &str) -> Channel {
        let id = NodeId::new(node).expect("a name");
        let at = self.agents.get(&id).and_then(|agent| agent.grpc).expect("an agent");
        let expected = Expected::Agent(Name::new(node).expect("a name"));
        self.connect(at, Role::Operator, "alice", expected).await
    }

    /// Where an agent shows its pages.
    #[must_use]
    pub fn agent_pages(&self, node: &str) -> SocketAddr {
        let id = NodeId::new(node).expect("a name");
        self.agents.get(&id).and_then(|agent| agent.http).expect("an agent with pages")
    }

    /// A connection to an agent by anybody.
    pub async fn channel_to_agent(&self, node: &str, role: Role, name: &str) -> Channel {
        let id = NodeId::new(node).expect("a name");
        let at = self.agents.get(&id).and_then(|agent| agent.grpc).expect("an agent");
        let expected = Expected::Agent(Name::new(node).expect("a name"));
        self.connect(at, role, name, expected).await
    }

    /// A connection with a certificate that was good an hour ago, if there is one.
    pub async fn expired_channel(&self, role: Role, name: &str) -> Result<Channel, String> {
        let issued = self.expired(role, name).ok_or("there are no certificates")?;
        self.try_channel(&issued, long_ago()).await
    }

    /// A connection with a certificate of an authority that nobody here knows, if there is one.
    pub async fn strange_channel(&self, role: Role, name: &str) -> Result<Channel, String> {
        self.try_channel(&Self::strange(role, name), SystemTime::now()).await
    }

    /// A connection without a certificate, if there is one.
    pub async fn bare_channel(&self) -> Result<Channel, String> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.scheduler.grpc));
        let endpoint = endpoint.expect("an address");
        let connected = endpoint.connect_with_connector(Connector::plain()).await;
        connected.map_err(|why| why.to_string())
    }

    /// A connection with this certificate, if there is one.
    pub async fn channel_of(&self, issued: &Issued) -> Result<Channel, String> {
        self.try_channel(issued, SystemTime::now()).await
    }

    async fn try_channel(&self, issued: &Issued, now: SystemTime) -> Result<Channel, String> {
        let bundle = Bundle::from_issued(issued, now).map_err(|why| why.to_string())?;
        let connector = Connector::tls(&Credentials::new(bundle), Expected::Scheduler);
        let connector = connector.map_err(|why| why.to_string())?;
        let endpoint = Endpoint::from_shared(format!("http://{}", self.scheduler.grpc));
        let endpoint = endpoint.expect("an address");
        let connected = endpoint.connect_with_connector(connector).await;
        connected.map_err(|why| why.to_string())
    }

    async fn connect(&self, at: SocketAddr, role: Role, name: &str, other: Expected) -> Channel {
        let connector = match &self.authority {
            None => Connector::plain(),
            Some(authority) => {
                let issued = issue(authority, role, name);
                let bundle = Bundle::from_issued(&issued, SystemTime::now()).expect("a bundle");
                Connector::tls(&Credentials::new(bundle), other).expect("a connector")
            }
        };
        let endpoint = Endpoint::from_shared(format!("http://{at}")).expect("an address");
        endpoint.connect_with_connector(connector).await.expect("a connection")
    }

    /// A file with a certificate of this cluster; none where there are no certificates.
    #[must_use]
    pub fn certificate(&self, role: Role, name: &str) -> Option<Source> {
        Some(keep(self.authority.as_ref()?, &self.folder, role, name))
    }

    /// A certificate of this cluster; none where there are no certificates.
    #[must_use]
    pub fn issued(&self, role: Role, name: &str) -> Option<Issued> {
        Some(issue(self.authority.as_ref()?, role, name))
    }

    /// One that was good an hour ago.
    #[must_use]
    pub fn expired(&self, role: Role, name: &str) -> Option<Issued> {
        let grant = Grant::new(role, Name::new(name).expect("a name"));
        let validity = Validity { now: long_ago(), lifetime: Duration::from_mins(10) };
        self.authority.as_ref()?.issue(&grant, validity).ok()
    }

    /// One of an authority that nobody here knows.
    #[must_use]
    pub fn strange(role: Role, name: &str) -> Issued {
        let folder = tempfile::tempdir().expect("a folder");
        issue(&authority(&folder), role, name)
    }

    /// How far the store has come; it moves with every write.
    pub async fn head(&self) -> Head {
        self.scheduler.handle.read(|world| world.head().clone()).await.expect("a leader")
    }

    /// The folder of everything: the authority in `ca`, and a file for each certificate.
    #[must_use]
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Where an agent listens.
    #[must_use]
    pub fn agent_at(&self, node: &str) -> SocketAddr {
        let id = NodeId::new(node).expect("a name");
        self.agents.get(&id).and_then(|agent| agent.grpc).expect("an agent")
    }

    /// The file of the store.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.folder.path().join("scheduler/store.redb")
    }

    /// Ends everything in good order.
    pub async fn stop(self) {
        for (_, agent) in self.agents {
            agent.stop().await;
        }
        self.scheduler.stop().await;
    }
}

/// When what has expired was good.
fn long_ago() -> SystemTime {
    SystemTime::now() - Duration::from_mins(50)
}

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn authority(folder: &TempDir) -> Authority {
    let ca = folder.path().join("ca");
    std::fs::create_dir(&ca).expect("a folder");
    let domain = TrustDomain::new("example.org").expect("a domain");
    let cluster = ClusterName::new(CLUSTER).expect("a name");
    let begun = SystemTime::now() - Duration::from_hours(1);
    Authority::open_or_create(&ca, &domain, &cluster, begun).expect("an authority")
}

fn issue(authority: &Authority, role: Role, name: &str) -> Issued {
    let grant = Grant::new(role, Name::new(name).expect("a name"));
    let validity = Validity { now: SystemTime::now(), lifetime: Duration::from_hours(1) };
    authority.issue(&grant, validity).expect("a certificate")
}

fn keep(authority: &Authority, folder: &TempDir, role: Role, name: &str) -> Source {
    let source = Source::Bundle(folder.path().join(format!("{name}.pem")));
    source.save(&issue(authority, role, name)).expect("a file");
    source
}
