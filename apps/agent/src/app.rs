//! The agent, put together and running.
//!
//! ```text
//!   ledger ──► Agent::start ──► driver ◄── Handle ◄── gRPC · hints of the runtimes · meter
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use persys_identity::names::IdentityError;
use persys_identity::{
    ClusterName, Connector, Event, Expected, Exposure, Incoming, Report, Role, Source, Watcher,
};
use persys_model::id::NodeId;
use persys_model::node::NodeFacts;
use persys_node::agent::Agent;
use persys_node::settings::AgentSettings;
use persys_runtime::docker::Docker;
use persys_runtime::docker::settings::Settings as DockerSettings;
use persys_runtime::sim::Sim;
use persys_runtime::{Clock as BootClock, Owner};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;

use crate::driver::{Driver, Parts};
use crate::handle::Handle;
use crate::host::{self, Meter};
use crate::ledger::file::OpenError;
use crate::ledger::{FileKeeper, Keeper as _};
use crate::rpc;
use crate::runtimes::Runtimes;
use crate::upward::Scheduler;
use crate::upward::alone::{self, Alone};
use crate::upward::grpc::{BadAddress, Grpc};

/// How often a silent connection is tried, and how long its answer may take.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));
/// How often a runtime is looked for that was not there at the start.
const LATE_RUNTIME: Duration = Duration::from_secs(5);
/// How long callers may take to end when the agent stops.
const GOODBYE: Duration = Duration::from_secs(3);

/// Everything an agent is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its name; the host's when not given.
    pub node: Option<String>,
    /// Where it listens; port 0 takes a free one.
    pub grpc: SocketAddr,
    /// Where others reach it, `host:port`; found out when not given.
    pub advertise: Option<String>,
    /// The schedulers, `host:port`; none: it is commanded directly.
    pub schedulers: Vec<String>,
    /// Where it keeps what it must not forget.
    pub state_dir: PathBuf,
    /// The cluster.
    pub cluster: String,
    /// What runs its workloads.
    pub runtime: RuntimeChoice,
    /// How it proves who it is, and asks others to.
    pub security: Security,
    /// Labels of the node beside `os` and `arch`.
    pub labels: BTreeMap<String, String>,
    /// The numbers its decisions depend on.
    pub settings: AgentSettings,
}

/// What runs workloads.
#[derive(Debug, Clone)]
pub enum RuntimeChoice {
    /// Docker at this address; the usual one when not given.
    Docker {
        /// `unix://…` or `tcp://…`.
        host: Option<String>,
    },
    /// Nothing really runs.
    Sim(Option<Sim>),
}

/// How an agent and its peers prove who they are.
#[derive(Debug, Clone)]
pub enum Security {
    /// They do not.
    Insecure(Exposure),
    /// With certificates, which are read again when they change.
    Mtls(Source),
}

/// Why an agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The ledger cannot be opened.
    #[error(transparent)]
    Ledger(#[from] OpenError),
    /// The cluster has no name.
    #[error("cluster: {0}")]
    Cluster(#[from] IdentityError),
    /// A scheduler has no address.
    #[error(transparent)]
    Scheduler(#[from] BadAddress),
    /// Certificates are of no use.
    #[error(transparent)]
    Certificates(#[from] persys_identity::files::LoadError),
    /// The certificate is somebody else's.
    #[error("the certificate is that of {found}, but this is the agent of node {node}")]
    OtherIdentity {
        /// Whose it is.
        found: String,
        /// Who we are.
        node: NodeId,
    },
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
    /// A plain listener that others could reach.
    #[error(transparent)]
    Exposed(#[from] persys_identity::listen::Exposed),
    /// The system does not let us.
    #[error("{what}: {source}")]
    System {
        /// What we wanted.
        what: String,
        /// What it said.
        source: std::io::Error,
    },
    /// A part of the program is missing.
    #[error("reflection: {0}")]
    Reflection(String),
}

fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
    let what = what.into();
    move |source| Error::System { what, source }
}

/// A running agent.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub grpc: SocketAddr,
    /// The way to its driver.
    pub handle: Handle,
    /// Its name.
    pub node: NodeId,
    /// Where a ledger went that could not be read, if there was one.
    pub ledger_moved_to: Option<PathBuf>,
    keeper: FileKeeper,
    driver: JoinHandle<()>,
    server: JoinHandle<()>,
    goodbye: oneshot::Sender<()>,
    beside: JoinSet<()>,
}

impl Running {
    /// Ends the agent. What runs on the node goes on.
    pub async fn stop(mut self) {
        self.beside.shutdown().await;
        // A server that is gone needs no word.
        self.goodbye.send(()).ok();
        if tokio::time::timeout(GOODBYE, &mut self.server).await.is_err() {
            self.server.abort();
        }
        self.handle.stop().await;
        if let Err(error) = self.driver.await {
            tracing::error!(%error, "the driver ended badly");
        }
        self.keeper.close().await;
    }

    /// Waits until the driver or the server has ended by itself, which they do not.
    pub async fn ended(&mut self) {
        tokio::select! {
            _ = &mut self.driver => tracing::error!("the driver has ended"),
            _ = &mut self.server => tracing::error!("the server has ended"),
        }
    }
}

/// Starts an agent; it serves when this returns.
pub async fn start(config: Config) -> Result<Running, Error> {
    start_with(config, |parts| parts).await
}

/// Starts an agent whose driver works with what `between` makes of its parts: a proof puts something
/// between the agent and the outside.
pub async fn start_with(
    config: Config,
    between: impl FnOnce(Parts) -> Parts + Send,
) -> Result<Running, Error> {
    let node = host::node_id(config.node.as_deref());
    let cluster = ClusterName::new(&config.cluster)?;
    let keeper = open_ledger(&config).await?;
    let listener = TcpListener::bind(config.grpc).await.map_err(system(config.grpc.to_string()))?;
    let bound = listener.local_addr().map_err(system("the address of the listener"))?;
    let mut beside = JoinSet::new();
    let (incoming, connector) = secure(&config, &node, cluster, listener, &mut beside)?;

    let runtimes = runtimes(&config, &node).await;
    let first = facts(&config, &node, bound, &runtimes)?;
    let meter = Arc::new(Meter::new(first.capacity));
    let on_its_own = config.schedulers.is_empty();
    let scheduler: Arc<dyn Scheduler> = if on_its_own {
        Arc::new(Alone::since(host::date()))
    } else {
        Arc::new(Grpc::new(&config.schedulers, &connector, Arc::new(host::date))?)
    };

    let clock = host::clock();
    let ledger = keeper.load().await;
    let (agent, effects) = Agent::start(first, ledger, config.settings.clone(), clock());
    let parts = Parts {
        clock,
        keeper: Arc::new(keeper.clone()),
        runtime: Arc::new(runtimes.clone()),
        scheduler,
    };
    let (driver, handle) = Driver::new(between(parts), agent);
    let driver = tokio::spawn(driver.run(effects));
    beside.spawn(runtimes.clone().listen(handle.clone()));
    beside.spawn(measure(Arc::clone(&meter), handle.clone()));
    if on_its_own {
        beside.spawn(alone::confirm(handle.clone()));
    }
    beside.spawn(offer(config, node.clone(), bound, runtimes.clone(), handle.clone()));
    let (goodbye, until) = oneshot::channel();
    let server = serve(incoming, rpc::service(handle.clone(), runtimes, meter), until)?;
    let ledger_moved_to = keeper.moved_aside().map(std::path::Path::to_path_buf);
    tracing::info!(%node, grpc = %bound, "the agent serves");
    Ok(Running {
        grpc: bound,
        handle,
        node,
        ledger_moved_to,
        keeper,
        driver,
        server,
        goodbye,
        beside,
    })
}

async fn open_ledger(config: &Config) -> Result<FileKeeper, Error> {
    let dir = config.state_dir.clone();
    let opened = tokio::task::spawn_blocking(move || FileKeeper::open(&dir, host::date())).await;
    match opened {
        Ok(opened) => Ok(opened?),
        Err(error) => Err(system("the ledger")(std::io::Error::other(error))),
    }
}

/// Both sides of every link of the agent.
fn secure(
    config: &Config,
    node: &NodeId,
    cluster: ClusterName,
    listener: TcpListener,
    beside: &mut JoinSet<()>,
) -> Result<(Incoming, Connector), Error> {
    let report: Report = Arc::new(|event: Event| match event {
        Event::Reloaded(_) => tracing::info!(name = event.name(), "{event}"),
        Event::ReloadFailed(_) | Event::HandshakeFailed { .. } | Event::AcceptFailed(_) => {
            tracing::warn!(name = event.name(), "{event}");
        }
    });
    let source = match &config.security {
        Security::Insecure(exposure) => {
            let incoming = Incoming::plain(listener, cluster, *exposure, report)?;
            return Ok((incoming, Connector::plain()));
        }
        Security::Mtls(source) => source.clone(),
    };
    let watcher = Watcher::open(source, SystemTime::now())?;
    let credentials = watcher.credentials();
    let ours = credentials.current().identity().clone();
    if ours.role != Role::Agent || ours.name.as_str() != node.as_str() || ours.cluster != cluster {
        return Err(Error::OtherIdentity { found: ours.to_string(), node: node.clone() });
    }
    let tls = |error: &dyn std::fmt::Display| Error::Tls(error.to_string());
    let incoming =
        Incoming::tls(listener, &credentials, Arc::clone(&report)).map_err(|error| tls(&error))?;
    let connector =
        Connector::tls(&credentials, Expected::Scheduler).map_err(|error| tls(&error))?;
    beside.spawn(watcher.run(SystemTime::now, report));
    Ok((incoming, connector))
}

async fn runtimes(config: &Config, node: &NodeId) -> Runtimes {
    let clock = BootClock::since_boot();
    match &config.runtime {
        RuntimeChoice::Sim(Some(sim)) => Runtimes::sim(sim.clone()),
        RuntimeChoice::Sim(None) => {
            Runtimes::sim(Sim::new(persys_runtime::sim::Settings::default(), clock))
        }
        RuntimeChoice::Docker { host } => {
            let mut settings = DockerSettings::default();
            if let Some(host) = host {
                settings.host.clone_from(host);
            }
            let owner = Owner { cluster: Arc::from(config.cluster.as_str()), node: node.clone() };
            Runtimes::docker(Docker::new(owner, settings, clock)).await
        }
    }
}

fn facts(
    config: &Config,
    node: &NodeId,
    bound: SocketAddr,
    runtimes: &Runtimes,
) -> Result<NodeFacts, Error> {
    let mut labels: persys_model::labels::Labels =
        [("os", std::env::consts::OS), ("arch", std::env::consts::ARCH)]
            .map(|(key, value)| (Arc::from(key), Arc::from(value)))
            .into();
    let given = config.labels.iter();
    labels.extend(given.map(|(key, value)| (Arc::from(key.as_str()), Arc::from(value.as_str()))));
    Ok(NodeFacts {
        id: node.clone(),
        host: host::machine_id(&config.state_dir).map_err(system("the identity of the machine"))?,
        incarnation: host::random_id().map_err(system("/dev/urandom"))?,
        endpoint: host::endpoint(config.advertise.as_deref(), bound, &config.schedulers),
        capacity: host::capacity(),
        pools: host::root_pool().into_iter().collect(),
        types: runtimes.offered(),
        drivers: std::collections::BTreeSet::new(),
        labels,
        fence: false,
    })
}

/// Begins a new life once a runtime is there that was not at the start: a node says what it can run
/// when it joins.
async fn offer(
    config: Config,
    node: NodeId,
    bound: SocketAddr,
    runtimes: Runtimes,
    handle: Handle,
) {
    if !runtimes.arrived(LATE_RUNTIME).await {
        return;
    }
    match facts(&config, &node, bound, &runtimes) {
        Ok(facts) => {
            tracing::info!(types = ?facts.types, "a runtime has come; the node joins anew");
            handle.begin_anew(facts, config.settings).await;
        }
        Err(error) => tracing::error!(%error, "the node cannot join anew"),
    }
}

async fn measure(meter: Arc<Meter>, handle: Handle) {
    let mut every = tokio::time::interval(host::SAMPLE_EVERY);
    every.tick().await;
    loop {
        every.tick().await;
        handle.usage(meter.sample().used);
    }
}

/// Serves the agent's service, health and reflection until it is told goodbye.
fn serve(
    incoming: Incoming,
    service: rpc::Guarded,
    until: oneshot::Receiver<()>,
) -> Result<JoinHandle<()>, Error> {
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(persys_proto::DESCRIPTOR)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(|error| Error::Reflection(error.to_string()))?;
    let (health, health_service) = tonic_health::server::health_reporter();
    Ok(tokio::spawn(async move {
        health.set_service_status("", tonic_health::ServingStatus::Serving).await;
        health
            .set_service_status(
                "persys.agent.v1.AgentService",
                tonic_health::ServingStatus::Serving,
            )
            .await;
        let served = Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE.0))
            .http2_keepalive_timeout(Some(KEEPALIVE.1))
            .add_service(service)
            .add_service(health_service)
            .add_service(InterceptedService::new(reflection, rpc::authorise))
            .serve_with_incoming_shutdown(incoming, async {
                // Told, or nobody left to tell.
                drop(until.await);
            });
        if let Err(error) = served.await {
            tracing::error!(%error, "the server ended");
        }
    }))
}
