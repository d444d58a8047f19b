//! One process of a cluster: what it is told, and what it does.
//!
//! It says `ready` and its addresses when it serves, ends well on `SIGTERM`, and ends when whoever
//! started it is gone: then its standard input ends.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "who starts it reads it")]

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use persys_agent::app as agent;
use persys_cluster::settings::Settings;
use persys_identity::Source;
use persys_model::id::PoolName;
use persys_node::settings::AgentSettings;
use persys_runtime::vm::settings::Settings as MachineSettings;
use persys_runtime::vm::storage::Storage;
use persys_scheduler::app as scheduler;
use persys_scheduler::discovery::Discovery;
use persys_scheduler::place::Place;
use persys_store::EtcdSettings;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::tripwire::Tripwire;

/// What a process is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// What it is.
    pub part: Part,
    /// Where it keeps its state.
    pub folder: PathBuf,
    /// Its certificate and key.
    pub certificate: PathBuf,
    /// The cluster.
    pub cluster: String,
    /// Where it listens.
    pub grpc: SocketAddr,
    /// Its timings.
    pub pace: Pace,
    /// Where its effects are noted, and at which it dies.
    pub trip: Option<Trip>,
}

/// Where a process notes its effects, and when it dies.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Trip {
    /// One line for each effect that begins or ends.
    pub notes: PathBuf,
    /// The line at which the process dies; none: it only notes.
    pub die_at: Option<u64>,
}

/// What a process is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Part {
    /// A scheduler.
    Scheduler {
        /// Where the members of the etcd are that holds the records; none: a file does.
        etcd: Vec<String>,
    },
    /// The agent of a node.
    Agent {
        /// The node.
        node: String,
        /// Where the schedulers are.
        schedulers: Vec<SocketAddr>,
        /// Which Docker; none: nothing really runs.
        docker: Option<String>,
        /// Which libvirt; none: no machines.
        libvirt: Option<Libvirt>,
    },
}

/// A libvirt, and where the files of its machines are.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Libvirt {
    /// Its socket.
    pub socket: PathBuf,
    /// Images that machines may be made from.
    pub images: PathBuf,
    /// The folder of its machines: `machines`, `pool`, and `mine` for disks of the user's.
    pub folder: PathBuf,
}

impl Libvirt {
    fn settings(self) -> MachineSettings {
        let mut settings = MachineSettings::default();
        settings.libvirt.sockets = vec![self.socket];
        settings.storage = Storage {
            home: self.folder.join("machines"),
            pools: BTreeMap::from([(PoolName::fixed("default"), self.folder.join("pool"))]),
            images: self.images,
            roots: vec![self.folder.join("mine")],
            ..Storage::default()
        };
        settings
    }
}

/// How fast everything goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pace {
    /// As in production.
    Product,
    /// Short waits in the proportions of production.
    Quick,
}

impl Pace {
    fn scheduler(self) -> Settings {
        match self {
            Self::Product => Settings::default(),
            // A node must not be given up while its agent is started again on a busy machine.
            Self::Quick => Settings {
                lease_ms: 5_000,
                failover_grace_ms: 20_000,
                resend_ms: 500,
                beat_ms: 500,
                ..crate::cluster::quick()
            },
        }
    }

    fn agent(self) -> AgentSettings {
        // How busy the machine is must not decide whether a test passes.
        let calm =
            AgentSettings { admit_percent: 0, admit_disk_percent: 0, ..AgentSettings::default() };
        match self {
            Self::Product => calm,
            Self::Quick => AgentSettings {
                beat_ms: 500,
                register_base_ms: 50,
                register_cap_ms: 200,
                observe_retry_ms: 100,
                ..calm
            },
        }
    }
}

/// Runs the part whose plan is in the file at `path`.
#[must_use]
pub fn main(path: Option<OsString>) -> ExitCode {
    let Some(path) = path else {
        eprintln!("which plan?");
        return ExitCode::FAILURE;
    };
    match begin(Path::new(&path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn begin(path: &Path) -> Result<(), Box<dyn Error>> {
    let filter = std::env::var("PERSYS_TEST_LOG").unwrap_or_else(|_| "warn".to_owned());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let plan: Plan = serde_json::from_slice(&std::fs::read(path)?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(plan))
}

async fn run(plan: Plan) -> Result<(), Box<dyn Error>> {
    let tripwire = plan.trip.as_ref().map(Tripwire::set).transpose()?;
    match plan.part.clone() {
        Part::Scheduler { etcd } => {
            let parts = move |parts| match tripwire {
                Some(tripwire) => tripwire.around_scheduler(parts),
                None => parts,
            };
            let running = scheduler::start_with(scheduler_config(plan, &etcd)?, parts).await?;
            println!("ready {} {}", running.grpc, running.http);
            until_told().await?;
            running.stop().await;
        }
        Part::Agent { node, schedulers, docker, libvirt } => {
            let parts = move |parts| match tripwire {
                Some(tripwire) => tripwire.around_agent(parts),
                None => parts,
            };
            let mut config = agent_config(plan, node, &schedulers, docker.as_deref());
            config.machines = libvirt.map(Libvirt::settings);
            let running = agent::start_with(config, parts).await?;
            let at = running.grpc.ok_or("it listens nowhere")?;
            println!("ready {at} {at}");
            until_told().await?;
            running.stop().await;
        }
    }
    Ok(())
}

fn scheduler_config(plan: Plan, etcd: &[String]) -> Result<scheduler::Config, Box<dyn Error>> {
    Ok(scheduler::Config {
        grpc: plan.grpc,
        http: SocketAddr::from(([127, 0, 0, 1], 0)),
        advertise: scheduler::Advertise::default(),
        state_dir: plan.folder,
        store: place(etcd)?,
        cluster: plan.cluster,
        security: scheduler::Security::Mtls(Source::Bundle(plan.certificate)),
        settings: plan.pace.scheduler(),
        discovery: Discovery::default(),
        // Repositories of tests are folders and servers of this machine.
        secrets_key: None,
        vault: None,
        logins: None,
        git: scheduler::GitSettings {
            allow: scheduler::GitProtocol::ALL.into_iter().collect(),
            ..scheduler::GitSettings::default()
        },
    })
}

fn place(etcd: &[String]) -> Result<Place, Box<dyn Error>> {
    if etcd.is_empty() {
        return Ok(Place::File);
    }
    let endpoints: Result<Vec<_>, _> = etcd.iter().map(|text| text.parse()).collect();
    let way = persys_etcd::Settings::new(endpoints?);
    let store = persys_store::Settings::default();
    Ok(Place::Etcd(Box::new(EtcdSettings { way, store, quota_bytes: None })))
}

fn agent_config(
    plan: Plan,
    node: String,
    schedulers: &[SocketAddr],
    docker: Option<&str>,
) -> agent::Config {
    let volumes = agent::VolumeSettings::within(&plan.folder, agent::Limit::Auto);
    let (runtime, kind) = match docker {
        Some(host) => (agent::RuntimeChoice::Docker { host: Some(host.to_owned()) }, "docker"),
        None => (agent::RuntimeChoice::Sim(None), "sim"),
    };
    agent::Config {
        node: Some(node),
        grpc: plan.grpc,
        advertise: None,
        reach: agent::Reach::Called,
        schedulers: schedulers.iter().map(ToString::to_string).collect(),
        state_dir: plan.folder,
        cluster: plan.cluster,
        runtime,
        security: agent::Security::Mtls(Source::Bundle(plan.certificate)),
        labels: BTreeMap::from([("runtime".to_owned(), kind.to_owned())]),
        settings: plan.pace.agent(),
        watchdog: None,
        compose: agent::ComposeChoice::default(),
        registry_auth: None,
        volumes,
        machines: None,
        http: None,
    }
}

/// Returns on `SIGTERM`, or when whoever started this process is gone.
async fn until_told() -> Result<(), Box<dyn Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let (tell, orphaned) = oneshot::channel();
    std::thread::spawn(move || {
        // An error ends the input as well.
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        tell.send(()).ok();
    });
    tokio::select! {
        _ = terminate.recv() => {}
        _ = orphaned => {}
    }
    Ok(())
}
