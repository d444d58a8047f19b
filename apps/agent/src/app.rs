//! The agent, put together and running.
//!
//! ```text
//!   ledger ──► Agent::start ──► driver ◄── Handle ◄── gRPC · hints of the runtimes · meter
//! ```

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::stream::BoxStream;
use persys_identity::names::IdentityError;
use persys_identity::{
    ClusterName, Connection, Connector, Expected, Exposure, Incoming, Name, Peer, Report, Role,
    Source, Watcher, logged,
};
use persys_model::id::NodeId;
use persys_node::agent::Agent;
use persys_node::effects::Effects;
use persys_node::settings::AgentSettings;
use persys_runtime::Runtime;
use persys_runtime::vm::settings::Settings as MachineSettings;
use persys_telemetry::trace;
pub use persys_volumes::{
    CephSettings, Limit, LocalSettings, NfsSettings, Settings as VolumeSettings, Tools, Volumes,
};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tonic::transport::Server;

pub use crate::choice::{ComposeChoice, RuntimeChoice};
use crate::driver::{Driver, Parts};
use crate::handle::Handle;
use crate::host::{self, Meter};
use crate::http;
use crate::layers;
use crate::ledger::file::OpenError;
use crate::ledger::{FileKeeper, Keeper as _, actions, lease};
use crate::life;
use crate::measure;
use crate::metrics::Metrics;
use crate::node::{disks, facts, runtimes, schedulers};
use crate::rpc::{self, Guarded};
use crate::runtimes::Runtimes;
use crate::secrets::WithSecrets;
use crate::storage::WithVolumes;
use crate::upward;
use crate::upward::Scheduler;
use crate::upward::alone::{self, Alone};
use crate::upward::grpc::{BadAddress, Grpc};
use crate::usage;
use crate::version::Version;
use crate::watchdog::release;

/// How often a silent connection is tried, and how long its answer may take.
const KEEPALIVE: (Duration, Duration) = (Duration::from_mins(1), Duration::from_secs(20));
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
    /// How the scheduler reaches it.
    pub reach: Reach,
    /// The schedulers, `host:port`; none: it is commanded directly.
    pub schedulers: Vec<String>,
    /// Where it keeps what it must not forget.
    pub state_dir: PathBuf,
    /// The cluster.
    pub cluster: String,
    /// What runs its workloads.
    pub runtime: RuntimeChoice,
    /// What brings Compose stacks up.
    pub compose: ComposeChoice,
    /// How it proves who it is, and asks others to.
    pub security: Security,
    /// Labels of the node beside `os` and `arch`.
    pub labels: BTreeMap<String, String>,
    /// The numbers its decisions depend on.
    pub settings: AgentSettings,
    /// The command that starts a watchdog, to which its options are added; none: the node offers no
    /// fence, and gets no exclusive work.
    pub watchdog: Option<Vec<String>>,
    /// The file with the credentials of private registries, as `docker login` writes it.
    pub registry_auth: Option<PathBuf>,
    /// How virtual machines are run, beside Docker; none: they are not offered.
    pub machines: Option<MachineSettings>,
    /// Where the pages for probes and dashboards are served.
    pub http: Option<SocketAddr>,
    /// Where managed volumes are kept.
    pub volumes: VolumeSettings,
}

/// How the scheduler reaches an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// By calling it where it listens.
    #[default]
    Called,
    /// Over a stream the agent keeps open to the scheduler. It listens nowhere.
    Stream,
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
    /// Nobody could reach it.
    #[error("an agent that listens nowhere needs the address of a scheduler")]
    Nowhere,
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

pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
    let what = what.into();
    move |source| Error::System { what, source }
}

/// A running agent.
#[derive(Debug)]
pub struct Running {
    /// Where it listens, if it does.
    pub grpc: Option<SocketAddr>,
    /// Where its pages are.
    pub http: Option<SocketAddr>,
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
    /// Where the watchdog looks for a word, if there is one.
    guarded: Option<PathBuf>,
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
        if let Some(dir) = &self.guarded {
            let (ledger, boot) = (self.keeper.load().await, lease::boot_id());
            if let Err(error) = release::release(dir, &boot, &ledger) {
                tracing::warn!(%error, "the watchdog stays until the lease is over");
            }
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

/// Starts an agent that shows this version.
pub async fn start_as(config: Config, version: Version) -> Result<Running, Error> {
    begin(config, version, |parts| parts).await
}

/// Starts an agent whose driver works with what `between` makes of its parts: a proof puts something
/// between the agent and the outside.
pub async fn start_with(
    config: Config,
    between: impl FnOnce(Parts) -> Parts + Send,
) -> Result<Running, Error> {
    begin(config, Version::default(), between).await
}

async fn begin(
    config: Config,
    version: Version,
    between: impl FnOnce(Parts) -> Parts + Send,
) -> Result<Running, Error> {
    let node = host::node_id(config.node.as_deref());
    let cluster = ClusterName::new(&config.cluster)?;
    let on_its_own = config.schedulers.is_empty();
    let keeper = open_ledger(&config).await?;
    let listener = listen(&config).await?;
    let bound = listener.as_ref().map(|(_, bound)| *bound);
    let pages_at = bind_pages(config.http).await?;
    let (mut beside, metrics) = (JoinSet::new(), Arc::new(Metrics::default()));
    let Links { incoming, connector, caller } =
        secure(&config, &node, cluster, (listener, metrics.report(logged())), &mut beside)?;

    let (runtimes, mut guards) =
        tokio::join!(runtimes(&config, &node), life::guard(&config, &node, &mut beside));
    let fence = *guards.borrow_and_update();
    let volumes = Volumes::new(&config.volumes);
    let first = facts(&config, &node, bound, (&runtimes, &volumes), fence)?;
    let meter = Arc::new(Meter::new(first.capacity, disks(&config)));
    let grpc = Arc::new(schedulers(&config, &connector, &runtimes, &version)?);
    let scheduler: Arc<dyn Scheduler> =
        if on_its_own { Arc::new(Alone::since(host::date())) } else { Arc::<Grpc>::clone(&grpc) };

    let ledger = keeper.load().await;
    let begun = Agent::start(first, ledger, config.settings.clone(), host::clock()());
    let parts = between(Parts {
        clock: host::clock(),
        keeper: Arc::new(keeper.clone()),
        runtime: whole_runtime(&runtimes, &volumes, &node, &config.state_dir),
        scheduler,
    });
    let (driver, handle) = drive(begun, parts, &runtimes, &metrics);
    let (goodbye, until) = oneshot::channel();
    let mode = (!on_its_own).then(|| grpc.mode());
    let ways = (grpc, (!on_its_own).then(|| handle.clone()));
    let incoming = upward::reached(incoming, ways, (node.clone(), caller), &mut beside);
    let inside = rpc::inside::service(handle.clone(), runtimes.clone(), on_its_own);
    let offered = (runtimes.clone(), volumes.clone());
    let host = (Arc::clone(&meter), version.clone());
    let service = rpc::service(handle.clone(), offered, host, on_its_own);
    let server = serve(incoming, (service, inside), (&metrics, on_its_own), until)?;
    beside.spawn(actions::write_behind(keeper.clone()));
    watch_host(&runtimes, &meter, &handle, &mut beside);
    if on_its_own {
        beside.spawn(alone::confirm(handle.clone()));
    }
    let settings = config.settings.clone();
    let guarded = config.watchdog.as_ref().map(|_| config.state_dir.clone());
    let (same, here) = (node.clone(), runtimes.clone());
    let again = move |fence| facts(&config, &same, bound, (&here, &volumes), fence);
    beside.spawn(life::renew(again, settings, runtimes.clone(), guards, handle.clone()));
    let pages = http::Pages::new(&node, &handle, &runtimes, &meter, &metrics)
        .certified(connector.credentials().cloned(), mode)
        .of_version(version);
    let http = http::open(pages_at, pages, &mut beside);
    let ledger_moved_to = keeper.moved_aside().map(Path::to_path_buf);
    tell(&node, bound, http);
    Ok(Running {
        grpc: bound,
        http,
        handle,
        node,
        ledger_moved_to,
        keeper,
        driver,
        server,
        goodbye,
        beside,
        guarded,
    })
}

fn tell(node: &NodeId, grpc: Option<SocketAddr>, http: Option<SocketAddr>) {
    let at = grpc.map_or_else(|| "the stream it opens".to_owned(), |at| at.to_string());
    let http = http.map_or_else(|| "nowhere".to_owned(), |at| at.to_string());
    tracing::info!(%node, at, http, "the agent serves");
}

/// Sets the core going.
fn drive(
    (agent, effects): (Agent, Effects),
    parts: Parts,
    runtimes: &Runtimes,
    metrics: &Arc<Metrics>,
) -> (JoinHandle<()>, Handle) {
    let (driver, handle) = Driver::counting(parts, agent, Arc::clone(metrics));
    let driver = driver.with_evidence(Arc::new(runtimes.clone()));
    // Spans are written down where those of whoever starts this are.
    handle.settle(&trace::current());
    (tokio::spawn(driver.run(effects)), handle)
}

/// Where others call, unless nobody is to.
async fn listen(config: &Config) -> Result<Option<(TcpListener, SocketAddr)>, Error> {
    match config.reach {
        Reach::Called => {}
        Reach::Stream if config.schedulers.is_empty() => return Err(Error::Nowhere),
        Reach::Stream => return Ok(None),
    }
    let listener = TcpListener::bind(config.grpc).await.map_err(system(config.grpc.to_string()))?;
    let bound = listener.local_addr().map_err(system("the address of the listener"))?;
    Ok(Some((listener, bound)))
}

async fn bind_pages(at: Option<SocketAddr>) -> Result<Option<TcpListener>, Error> {
    let Some(at) = at else { return Ok(None) };
    TcpListener::bind(at).await.map(Some).map_err(system(at.to_string()))
}

/// What runs workloads, with their secrets and volumes.
fn whole_runtime(
    runtimes: &Runtimes,
    volumes: &Volumes,
    node: &NodeId,
    state: &Path,
) -> Arc<dyn Runtime> {
    let with_secrets = WithSecrets::new(Arc::new(runtimes.clone()), node, state);
    Arc::new(WithVolumes::new(Arc::new(with_secrets), volumes.clone()))
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
struct Links {
    /// Those who call; none when nobody can.
    incoming: Option<Incoming>,
    connector: Connector,
    /// Who a scheduler is that was dialled with it.
    caller: Peer,
}

fn secure(
    config: &Config,
    node: &NodeId,
    cluster: ClusterName,
    (listener, report): (Option<(TcpListener, SocketAddr)>, Report),
    beside: &mut JoinSet<()>,
) -> Result<Links, Error> {
    let listener = listener.map(|(listener, _)| listener);
    let source = match &config.security {
        Security::Insecure(exposure) => {
            let caller = Peer::anonymous(cluster.clone());
            let plain = |listener| Incoming::plain(listener, cluster, *exposure, report);
            let incoming = listener.map(plain).transpose()?;
            return Ok(Links { incoming, connector: Connector::plain(), caller });
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
    let with_tls = |listener| Incoming::tls(listener, &credentials, Arc::clone(&report));
    let incoming = listener.map(with_tls).transpose().map_err(|error| tls(&error))?;
    let connector =
        Connector::tls(&credentials, Expected::Scheduler).map_err(|error| tls(&error))?;
    // The handshake has made sure of the role and the cluster; which scheduler it is does not matter.
    let (role, name) = (Role::Scheduler, Name::fixed("leader"));
    let caller = Peer { role, name, cluster, certificate: None };
    beside.spawn(watcher.run(SystemTime::now, report));
    Ok(Links { incoming, connector, caller })
}

/// Hears of what changes, and sees what the machine and its workloads use.
fn watch_host(runtimes: &Runtimes, meter: &Arc<Meter>, handle: &Handle, beside: &mut JoinSet<()>) {
    beside.spawn(runtimes.clone().listen(handle.clone()));
    beside.spawn(measure::measure(Arc::clone(meter), handle.clone()));
    beside.spawn(usage::sample(runtimes.clone()));
    beside.spawn(layers::watch(runtimes.clone(), handle.clone()));
}

/// Serves the agent's service, health and reflection until it is told goodbye.
fn serve(
    incoming: BoxStream<'static, Result<Connection, Infallible>>,
    (service, inside): (rpc::Behind, rpc::inside::Behind),
    (metrics, alone): (&Metrics, bool),
    until: oneshot::Receiver<()>,
) -> Result<JoinHandle<()>, Error> {
    let described = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(persys_proto::DESCRIPTOR)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let failed = |error: tonic_reflection::server::Error| Error::Reflection(error.to_string());
    let reflection = described().build_v1().map_err(failed)?;
    // Tools of earlier years ask by this name only.
    let reflection_alpha = described().build_v1alpha().map_err(failed)?;
    let (health, health_service) = tonic_health::server::health_reporter();
    let (service, inside) = (metrics.timed(service), metrics.timed(inside));
    let health_service = metrics.timed(Guarded::new(health_service, alone));
    let spans = rpc::spans(&trace::current());
    Ok(tokio::spawn(async move {
        health.set_service_status("", tonic_health::ServingStatus::Serving).await;
        for name in ["persys.agent.v1.AgentService", "persys.compute.v1.Inside"] {
            health.set_service_status(name, tonic_health::ServingStatus::Serving).await;
        }
        let served = Server::builder()
            .layer(spans)
            .http2_keepalive_interval(Some(KEEPALIVE.0))
            .http2_keepalive_timeout(Some(KEEPALIVE.1))
            .add_service(service)
            .add_service(inside)
            .add_service(rpc::logging::service(alone))
            .add_service(health_service)
            .add_service(Guarded::new(reflection, alone))
            .add_service(Guarded::new(reflection_alpha, alone))
            .serve_with_incoming_shutdown(incoming, async {
                // Told, or nobody left to tell.
                drop(until.await);
            });
        if let Err(error) = served.await {
            tracing::error!(%error, "the server ended");
        }
    }))
}
