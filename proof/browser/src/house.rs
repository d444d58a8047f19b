//! A cluster in this process with a gateway in front of it: scheduler, agent and gateway as they run
//! anywhere, over mTLS, on free ports of this machine.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use persys_agent::app as agent;
use persys_cluster::effects::Reply;
use persys_cluster::input::Ask;
use persys_cluster::settings::Settings;
use persys_gateway::app as gateway;
use persys_gateway::caller::Caller;
use persys_identity::authority::Validity;
use persys_identity::{Authority, ClusterName, Grant, Name, Role, Source, TrustDomain};
use persys_model::entry::{Binding, Entry, Scope, Subject, UserRole};
use persys_model::id::{EntryName, SubjectName};
use persys_node::settings::AgentSettings;
use persys_scheduler::app as scheduler;
use persys_scheduler::discovery::Discovery;
use persys_scheduler::standing::Standing;
use tempfile::TempDir;

/// The label that names the cluster of a container.
const CLUSTER: &str = "persys.cluster";
/// Who may do everything.
pub const ADMIN: &str = "alice";
/// Who may only look.
pub const VIEWER: &str = "vera";
/// The node of the house.
pub const NODE: &str = "n1";
/// Houses of this process: each is a cluster of its own.
static BUILT: AtomicUsize = AtomicUsize::new(0);
const LIFETIME: Duration = Duration::from_hours(1);

/// A cluster with its gateway.
#[derive(Debug)]
pub struct House {
    /// Where everything is kept; it goes with the house.
    _folder: TempDir,
    /// Goes too, however the test ends.
    containers: Containers,
    scheduler: Option<scheduler::Running>,
    agent: agent::Running,
    gateway: gateway::Running,
}

impl House {
    /// Builds one that runs containers on Docker.
    pub async fn build() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let nth = BUILT.fetch_add(1, Ordering::Relaxed);
        let cluster = format!("browser-{}-{nth}", std::process::id());
        let certificates = Certificates::make(folder.path(), &cluster);
        let scheduler = start_scheduler(folder.path(), &cluster, &certificates).await;
        let_in(&scheduler).await;
        let agent = start_agent(folder.path(), &cluster, &certificates, scheduler.grpc).await;
        let gateway = start_gateway(&cluster, &certificates, scheduler.grpc).await;
        let containers = Containers { cluster };
        let scheduler = Some(scheduler);
        Self { _folder: folder, containers, scheduler, agent, gateway }
    }

    /// Where the dashboard is.
    pub fn address(&self) -> String {
        format!("http://{}/", self.gateway.public)
    }

    /// A link with which somebody can log in once.
    pub fn link(&self, user: &str) -> String {
        let name = Name::new(user).expect("a name");
        let caller = Caller::certified(Role::User, name, None);
        self.gateway.login_link(caller).expect("a link")
    }

    /// Lines of a list of Docker, `ps` or `volume ls`, about this cluster; `more` are further options.
    pub fn docker(&self, list: &str, more: &[&str]) -> Vec<String> {
        let filter = format!("label={CLUSTER}={}", self.containers.cluster);
        let words = list.split(' ').chain(["--filter", &filter]).chain(more.iter().copied());
        let listed = Command::new("docker").args(words).output().expect("docker runs");
        String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect()
    }

    /// Ends the scheduler, as if its machine had gone.
    pub async fn lose_scheduler(&mut self) {
        self.scheduler.take().expect("it is there").stop().await;
    }

    /// Ends everything.
    pub async fn leave(self) {
        self.gateway.stop().await;
        self.agent.stop().await;
        if let Some(scheduler) = self.scheduler {
            scheduler.stop().await;
        }
    }
}

/// The containers of a house, until it goes.
#[derive(Debug)]
struct Containers {
    cluster: String,
}

impl Drop for Containers {
    fn drop(&mut self) {
        let filter = format!("label={CLUSTER}={}", self.cluster);
        let docker = |words: &[&str]| Command::new("docker").args(words).output();
        for (list, remove) in [
            ("ps -aq", "rm -f -v"),
            ("network ls -q", "network rm"),
            ("volume ls -q", "volume rm -f"),
        ] {
            let list: Vec<_> = list.split(' ').chain(["--filter", &filter]).collect();
            let Ok(listed) = docker(&list) else { return };
            let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
            for id in listed.lines() {
                let words: Vec<_> = remove.split(' ').chain([id]).collect();
                // What cannot be removed is no fault of the dashboard.
                drop(docker(&words));
            }
        }
    }
}

/// Who everybody is.
struct Certificates {
    scheduler: PathBuf,
    agent: PathBuf,
    gateway: PathBuf,
}

impl Certificates {
    fn make(folder: &Path, cluster: &str) -> Self {
        let now = SystemTime::now();
        let domain = TrustDomain::new("persys.local").expect("a domain");
        let cluster = ClusterName::new(cluster).expect("a cluster");
        let authority = Authority::open_or_create(&folder.join("ca"), &domain, &cluster, now)
            .expect("an authority");
        let issue = |role, who: &str| {
            let grant = Grant::new(role, Name::new(who).expect("a name"));
            let grant = if role == Role::Scheduler { grant.on_loopback() } else { grant };
            let path = folder.join(format!("{who}.pem"));
            let bundle = authority.issue(&grant, Validity { now, lifetime: LIFETIME });
            let source = Source::Bundle(path.clone());
            source.save(&bundle.expect("a certificate")).expect("it is kept");
            path
        };
        Self {
            scheduler: issue(Role::Scheduler, "scheduler"),
            agent: issue(Role::Agent, NODE),
            gateway: issue(Role::Gateway, "gateway"),
        }
    }
}

fn anywhere() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

async fn start_scheduler(
    folder: &Path,
    cluster: &str,
    certificates: &Certificates,
) -> scheduler::Running {
    let config = scheduler::Config {
        grpc: anywhere(),
        http: anywhere(),
        advertise: scheduler::Advertise::default(),
        state_dir: folder.join("scheduler"),
        store: persys_scheduler::place::Place::File,
        cluster: cluster.to_owned(),
        security: scheduler::Security::Mtls(Source::Bundle(certificates.scheduler.clone())),
        settings: Settings::default(),
        git: scheduler::GitSettings::default(),
        secrets_key: None,
        vault: None,
        logins: None,
        discovery: Discovery::default(),
    };
    scheduler::start(config).await.expect("the scheduler starts")
}

async fn start_agent(
    folder: &Path,
    cluster: &str,
    certificates: &Certificates,
    scheduler: SocketAddr,
) -> agent::Running {
    let state_dir = folder.join("agent");
    let config = agent::Config {
        node: Some(NODE.to_owned()),
        grpc: anywhere(),
        reach: agent::Reach::Called,
        advertise: None,
        schedulers: vec![scheduler.to_string()],
        volumes: agent::VolumeSettings::within(&state_dir, agent::Limit::Auto),
        state_dir,
        cluster: cluster.to_owned(),
        runtime: agent::RuntimeChoice::Docker { host: std::env::var("DOCKER_HOST").ok() },
        security: agent::Security::Mtls(Source::Bundle(certificates.agent.clone())),
        labels: BTreeMap::from([("zone".to_owned(), "cellar".to_owned())]),
        // How busy the machine is must not decide whether a test passes.
        settings: AgentSettings {
            admit_percent: 0,
            admit_disk_percent: 0,
            ..AgentSettings::default()
        },
        watchdog: None,
        compose: agent::ComposeChoice::default(),
        registry_auth: None,
        machines: None,
        http: None,
    };
    agent::start(config).await.expect("the agent starts")
}

async fn start_gateway(
    cluster: &str,
    certificates: &Certificates,
    scheduler: SocketAddr,
) -> gateway::Running {
    let config = gateway::Config {
        inner: None,
        security: gateway::Security::Mtls(Source::Bundle(certificates.gateway.clone())),
        ..persys_e2e::gateway::config(&[(cluster, scheduler)])
    };
    gateway::start(config).await.expect("the gateway starts")
}

/// Gives people their roles, once the scheduler leads.
async fn let_in(scheduler: &scheduler::Running) {
    let mut standing = scheduler.handle.standing();
    standing.wait_for(Standing::is_normal).await.expect("the scheduler leads");
    for (user, role) in [(ADMIN, UserRole::Admin), (VIEWER, UserRole::Viewer)] {
        let binding = Binding {
            name: EntryName::new(user).expect("a name"),
            subject: Subject::User(SubjectName::new(user).expect("a name")),
            role,
            scope: Scope::Cluster,
        };
        let kept = scheduler.handle.ask(Ask::Keep(Arc::new(Entry::Binding(binding)))).await;
        assert!(matches!(kept, Ok(Reply::Done { .. })), "{kept:?}");
    }
}
