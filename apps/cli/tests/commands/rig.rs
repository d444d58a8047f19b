//! A cluster of one node, and somebody who types.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use persys_agent::app as agent;
use persys_cli::context::{self, Context};
use persys_cli::world::World;
use persys_cluster::settings::Settings;
use persys_identity::authority::Validity;
use persys_identity::{Authority, ClusterName, Grant, Name, Role, Source, TrustDomain};
use persys_node::settings::AgentSettings;
use persys_scheduler::app as scheduler;
use persys_scheduler::discovery::Discovery;
use persys_scheduler::place::Place;
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A cluster that runs, and the home of who types.
pub(crate) struct Rig {
    pub(crate) folder: TempDir,
    pub(crate) endpoint: String,
    scheduler: Option<scheduler::Running>,
    agents: Vec<agent::Running>,
    certificates: Certificates,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) code: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Told {
    /// What was printed, as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// Fails unless the exit code is this.
    pub(crate) fn ended(self, code: u8) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

impl Rig {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let certificates = Certificates::new(folder.path());
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        certificates.issue(Role::Scheduler, "scheduler");
        let scheduler = start_scheduler(folder.path(), "scheduler", local, Place::File).await;
        certificates.issue(Role::Agent, "n1");
        let agent = start_agent(folder.path(), "n1", &scheduler.grpc.to_string(), None).await;
        let endpoint = scheduler.grpc.to_string();
        let context = Context {
            endpoint: endpoint.clone(),
            identity: Some(folder.path().join("admin-operator.pem")),
            insecure: false,
            note: Some("sim: nothing real runs".to_owned()),
        };
        certificates.issue(Role::Operator, "admin");
        certificates.issue(Role::User, "guest");
        context::write(&folder.path().join("home"), "dev", &context).unwrap();
        let (scheduler, agents) = (Some(scheduler), vec![agent]);
        let rig = Self { folder, endpoint, scheduler, agents, certificates };
        rig.until("nodes -o json", |told| {
            told.code == 0 && told.json().as_array().is_some_and(|nodes| nodes.len() == 1)
        })
        .await;
        rig
    }

    pub(crate) async fn stop(mut self) {
        self.stop_agents().await;
        if let Some(scheduler) = self.scheduler.take() {
            scheduler.stop().await;
        }
    }

    /// Stops the scheduler alone.
    pub(crate) async fn stop_scheduler(&mut self) {
        if let Some(scheduler) = self.scheduler.take() {
            scheduler.stop().await;
        }
    }

    /// Starts it again where it was, with what is in this folder.
    pub(crate) async fn start_scheduler(&mut self, state: &str) {
        self.start_scheduler_at(state, Place::File).await;
    }

    /// Starts it again where it was, with a store that may be elsewhere.
    pub(crate) async fn start_scheduler_at(&mut self, state: &str, store: Place) {
        let at = self.endpoint.parse().unwrap();
        self.scheduler = Some(start_scheduler(self.folder.path(), state, at, store).await);
    }

    /// Starts one more agent, which says that it is reached there.
    pub(crate) async fn start_agent(&mut self, node: &str, advertise: &str) {
        self.certificates.issue(Role::Agent, node);
        let advertise = Some(advertise.to_owned());
        let agent = start_agent(self.folder.path(), node, &self.endpoint, advertise).await;
        self.agents.push(agent);
    }

    /// Stops the agents alone.
    pub(crate) async fn stop_agents(&mut self) {
        for agent in std::mem::take(&mut self.agents) {
            agent.stop().await;
        }
    }

    /// A certificate of this cluster, in its file.
    pub(crate) fn certificate(&self, role: Role, name: &str) -> Source {
        self.certificates.issue(role, name)
    }

    /// A path below the folder of the rig.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub(crate) fn world(&self, typed: &str) -> World {
        world(&self.folder.path().join("home"), typed)
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Types a line; words are set apart by spaces.
    pub(crate) async fn types(&self, line: &str) -> Told {
        self.types_with(line, "").await
    }

    pub(crate) async fn types_with(&self, line: &str, typed: &str) -> Told {
        tell(&self.world(typed), line).await
    }

    /// Types a line again and again until what it tells is as wanted.
    pub(crate) async fn until(&self, line: &str, wanted: impl Fn(&Told) -> bool) -> Told {
        let begun = Instant::now();
        loop {
            let told = self.types(line).await;
            if wanted(&told) {
                return told;
            }
            assert!(begun.elapsed() < PATIENCE, "never as wanted: {told:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn start_scheduler(
    folder: &Path,
    state: &str,
    grpc: SocketAddr,
    store: Place,
) -> scheduler::Running {
    let bundle = Source::Bundle(folder.join("scheduler-scheduler.pem"));
    scheduler::start(scheduler::Config {
        grpc,
        http: SocketAddr::from(([127, 0, 0, 1], 0)),
        advertise: scheduler::Advertise::default(),
        state_dir: folder.join(state),
        store,
        cluster: "test".to_owned(),
        security: scheduler::Security::Mtls(bundle),
        discovery: Discovery::default(),
        git: persys_scheduler::app::GitSettings::default(),
        secrets_key: None,
        vault: None,
        logins: None,
        settings: Settings { retry_base_ms: 200, ..Settings::default() },
    })
    .await
    .unwrap()
}

async fn start_agent(
    folder: &Path,
    node: &str,
    scheduler: &str,
    advertise: Option<String>,
) -> agent::Running {
    let bundle = Source::Bundle(folder.join(format!("{node}-{}.pem", Role::Agent)));
    agent::start(agent::Config {
        node: Some(node.to_owned()),
        grpc: SocketAddr::from(([127, 0, 0, 1], 0)),
        advertise,
        schedulers: vec![scheduler.to_owned()],
        state_dir: folder.join(format!("agent-{node}")),
        cluster: "test".to_owned(),
        runtime: agent::RuntimeChoice::Sim(None),
        security: agent::Security::Mtls(bundle),
        labels: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
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
        volumes: agent::VolumeSettings::within(&folder.join(node), agent::Limit::None),
        machines: None,
        http: None,
    })
    .await
    .unwrap()
}

/// Somebody who types, with a home and nothing else.
pub(crate) fn world(home: &Path, typed: &str) -> World {
    let env = BTreeMap::from([
        ("PERSYS_HOME".to_owned(), home.display().to_string()),
        ("COLOUR".to_owned(), "red".to_owned()),
    ]);
    World::kept(env, typed.as_bytes())
}

/// Types a line in a world.
pub(crate) async fn tell(world: &World, line: &str) -> Told {
    tell_words(world, &line.split_whitespace().collect::<Vec<_>>()).await
}

/// The same, with words that may hold spaces.
pub(crate) async fn tell_words(world: &World, line: &[&str]) -> Told {
    let words: Vec<OsString> = line.iter().map(OsString::from).collect();
    let run = persys_cli::run_in(world, "persys", words, Vec::new());
    let code = tokio::time::timeout(PATIENCE * 2, run).await.unwrap_or_else(|_| {
        panic!("{line:?} does not end: {}{}", world.printed(), world.remarked())
    });
    Told { code, out: world.printed(), err: world.remarked() }
}

struct Certificates {
    authority: Authority,
    folder: std::path::PathBuf,
}

impl Certificates {
    fn new(folder: &Path) -> Self {
        let domain = TrustDomain::new("persys.local").unwrap();
        let cluster = ClusterName::new("test").unwrap();
        let now = SystemTime::now();
        let authority =
            Authority::open_or_create(&folder.join("ca"), &domain, &cluster, now).unwrap();
        Self { authority, folder: folder.to_owned() }
    }

    fn issue(&self, role: Role, name: &str) -> Source {
        let grant = Grant::new(role, Name::new(name).unwrap());
        let grant = if role == Role::Scheduler { grant.on_loopback() } else { grant };
        let validity = Validity { now: SystemTime::now(), lifetime: Duration::from_hours(24) };
        let source = Source::Bundle(self.folder.join(format!("{name}-{role}.pem")));
        source.save(&self.authority.issue(&grant, validity).unwrap()).unwrap();
        source
    }
}
