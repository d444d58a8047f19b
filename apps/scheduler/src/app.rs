//! One scheduler process: everything put together, started and stopped.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use persys_cluster::replica::Replica;
use persys_cluster::settings::Settings;
use persys_git::Fetcher;
use persys_identity::listen::Exposed;
use persys_identity::names::IdentityError;
use persys_identity::{
    ClusterName, Credentials, Event, Exposure, Identity, Incoming, Report, Role, Source, Watcher,
};
use persys_proto::compute::v1::access_server::AccessServer;
use persys_proto::compute::v1::compute_server::ComputeServer;
use persys_proto::compute::v1::sources_server::SourcesServer;
use persys_proto::control::v1::agent_control_server::AgentControlServer;
use persys_store::Store;
use persys_store::embedded::OpenError;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::transport::Server;

use crate::clock::{Clock, HostClock};
use crate::counted::Counted;
use crate::discovery::{self, Discovery};
use crate::driver::{Driver, Parts};
use crate::handle::Handle;
use crate::http::{self, Pages};
use crate::known::{self, Known};
use crate::links::grpc::{GrpcLinks, Way};
use crate::metrics::Metrics;
use crate::place::{Opened, Place};
use crate::rpc::{Compute, Control, Doors, Forward, Guarded, LARGEST, Rights};
use crate::standing::Standing;

pub use crate::advertise::Advertise;
pub use crate::known::KnownError;
pub use persys_git::{Settings as GitSettings, Ssh as GitSsh, safe_path};
pub use persys_model::repository::Protocol as GitProtocol;

/// How long callers may finish when the process stops.
const FAREWELL: Duration = Duration::from_secs(5);
/// How often a quiet connection is asked whether it is still there, and how long it may take.
const KEEPALIVE: Duration = Duration::from_mins(1);
/// Most requests at a time on one connection.
const MOST_STREAMS: u32 = 1024;

/// What a scheduler process is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where agents and tools call; port 0 takes any.
    pub grpc: SocketAddr,
    /// Where `/health` and `/metrics` are; port 0 takes any.
    pub http: SocketAddr,
    /// Where other schedulers reach this one.
    pub advertise: Advertise,
    /// What this host keeps for itself. It is made if it does not exist.
    pub state_dir: PathBuf,
    /// Where the records are.
    pub store: Place,
    /// The cluster's name.
    pub cluster: String,
    /// How callers prove who they are.
    pub security: Security,
    /// Timings and limits.
    pub settings: Settings,
    /// Under which names everything is found, and who answers for them.
    pub discovery: Discovery,
    /// How Compose files are fetched from repositories. Their folder is in that of the state.
    pub git: GitSettings,
}

/// How callers prove who they are.
#[derive(Debug, Clone)]
pub enum Security {
    /// Not at all: everybody who gets in is an operator. Nobody from elsewhere does, unless somebody
    /// insists.
    Insecure(Exposure),
    /// By certificates, both sides. The files are read again as they change.
    Mtls(Source),
}

/// Why a scheduler does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster cannot be called that.
    #[error("the cluster's name is not usable")]
    Cluster(#[source] IdentityError),
    /// The folder of the state cannot be made.
    #[error("{} cannot be made", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// What this host remembers cannot be read.
    #[error(transparent)]
    Known(#[from] KnownError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] persys_identity::files::LoadError),
    /// The certificate is somebody else's.
    #[error("the certificate names {found}, not a scheduler of the cluster {cluster}")]
    WrongIdentity {
        /// Whom it names.
        found: Box<Identity>,
        /// Where this scheduler belongs.
        cluster: ClusterName,
    },
    /// The certificate does not make a connection.
    #[error("no secure connections can be made: {0}")]
    Tls(String),
    /// Others could get in without a certificate.
    #[error(transparent)]
    Exposed(#[from] Exposed),
    /// An address cannot be listened on.
    #[error("{address} cannot be listened on")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Repositories cannot be fetched as it was told.
    #[error(transparent)]
    Git(#[from] persys_git::Error),
    /// The contract's own description is broken.
    #[error("the description of the contract cannot be served")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random(#[from] getrandom::Error),
}

/// A scheduler that runs. Dropping it ends it without farewell.
#[derive(Debug)]
pub struct Running {
    /// Where agents and tools call.
    pub grpc: SocketAddr,
    /// Where `/health` and `/metrics` are.
    pub http: SocketAddr,
    /// Where names are asked for, if that is on and the port was free.
    pub dns: Option<SocketAddr>,
    /// The way to the driver.
    pub handle: Handle,
    stop: watch::Sender<bool>,
    servers: Vec<Task>,
    driver: Task,
    keeper: Task,
    /// What ends with the process, whenever that is.
    aside: Vec<Task>,
    store: Arc<dyn Store>,
}

/// Work that ends when it is dropped.
#[derive(Debug)]
struct Task(JoinHandle<()>);

impl Task {
    fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }

    /// Waits for the end, but not for ever.
    async fn finish(mut self, patience: Duration) {
        if timeout(patience, &mut self.0).await.is_err() {
            tracing::warn!("something did not stop in time and was ended");
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Running {
    /// Lets callers finish, then ends everything and gives the store back.
    pub async fn stop(self) {
        let Self { handle, stop, servers, driver, keeper, aside, store, .. } = self;
        stop.send_replace(true);
        for server in servers {
            server.finish(FAREWELL).await;
        }
        drop((handle, aside));
        driver.finish(FAREWELL).await;
        keeper.finish(FAREWELL).await;
        store.close().await;
    }
}

/// Starts a scheduler. It answers as soon as this returns, and leads soon after.
pub async fn start(config: Config) -> Result<Running, Error> {
    start_with(config, |parts| parts).await
}

/// Starts a scheduler whose driver works with what `between` makes of its parts: a proof puts
/// something between the scheduler and the outside.
pub async fn start_with(
    config: Config,
    between: impl FnOnce(Parts) -> Parts + Send,
) -> Result<Running, Error> {
    let cluster = ClusterName::new(&config.cluster).map_err(Error::Cluster)?;
    let door = Door::open(&config.security, cluster)?;
    let (grpc, grpc_at) = listen(config.grpc).await?;
    let (pages, http_at) = listen(config.http).await?;
    let incoming = door.incoming(grpc)?;

    fs::create_dir_all(&config.state_dir)
        .map_err(|source| Error::Folder { path: config.state_dir.clone(), source })?;
    let known_path = config.state_dir.join("known.json");
    let known = known::read(&known_path)?;
    let Opened { store, health, names } = config.store.open(&config.state_dir)?;
    let metrics = Arc::new(Metrics::default());
    let store: Arc<dyn Store> = Arc::new(Counted::new(store, Arc::clone(&metrics)));

    let clock: Arc<dyn Clock> = Arc::new(HostClock::start());
    let links = Arc::new(GrpcLinks::counting(door.way(), Arc::clone(&metrics)));
    let (memory, keeping) = Known::keep(known_path);
    let reached_at = config.advertise.resolve(grpc_at);
    let candidate = Arc::from(format!("{reached_at}#{:016x}", getrandom::u64()?));
    let fresh = Arc::from(format!("{}-{:016x}", config.cluster, getrandom::u64()?));
    let settings = config.settings.clone();
    let replica = Replica::start(candidate, fresh, known, settings, clock.now());
    let parts = between(Parts {
        replica,
        clock: Arc::clone(&clock),
        store,
        links: Arc::<GrpcLinks>::clone(&links),
        memory: Arc::new(memory),
    });
    let store = Arc::clone(&parts.store);
    let (driver, handle) = Driver::new(parts);

    let (stop, stopping) = watch::channel(false);
    let fetcher = Fetcher::new(config.git.within(config.state_dir.join("git")))?;
    let doors = Doors::new(handle.clone(), Arc::clone(&clock));
    let rights = Rights::new(handle.clone(), Arc::clone(&clock));
    let control = Control::new(
        handle.clone(),
        Arc::clone(&store),
        clock,
        config.settings,
        (links.obeyed(), links.streams(), fetcher),
        stopping.clone(),
    );
    let compute = Compute::new(&control, links, &config.cluster);
    let forward = Forward::new(door.way(), handle.clone());
    let mut aside = door.watch();
    let services = (control, compute, rights, forward, doors);
    let serving = serve_grpc(incoming, services, &handle, &metrics, stopping.clone(), &mut aside)?;
    let discovery = config.discovery.with_names_in(names);
    let naming = discovery::start(discovery, &handle, reached_at, stopping.clone()).await;
    let router = http::router(Pages { handle: handle.clone(), metrics, health });
    let showing = Task::spawn(async move {
        let served = axum::serve(pages, router).with_graceful_shutdown(stopped(stopping)).await;
        if let Err(fault) = served {
            tracing::error!(%fault, "pages are no longer served");
        }
    });
    let driver = Task::spawn(driver.run());
    let keeper = Task::spawn(keeping);
    Ok(Running {
        grpc: grpc_at,
        http: http_at,
        dns: naming.dns,
        handle,
        stop,
        servers: vec![serving, showing, Task::spawn(naming.work)],
        driver,
        keeper,
        aside,
        store,
    })
}

/// What is served, and what stands before it.
type Services = (Control, Compute, Rights, Arc<Forward>, Arc<Doors>);

fn serve_grpc(
    incoming: Incoming,
    (control, compute, rights, forward, doors): Services,
    handle: &Handle,
    metrics: &Arc<Metrics>,
    stopping: watch::Receiver<bool>,
    aside: &mut Vec<Task>,
) -> Result<Task, Error> {
    let sources = SourcesServer::new(control.clone());
    let control = AgentControlServer::new(control)
        .max_decoding_message_size(LARGEST)
        .max_encoding_message_size(usize::MAX);
    let compute = ComputeServer::new(compute)
        .max_decoding_message_size(LARGEST)
        .max_encoding_message_size(usize::MAX);
    let (reporter, health) = tonic_health::server::health_reporter();
    aside.push(Task::spawn(report_health(reporter, handle.standing())));
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(persys_proto::DESCRIPTOR)
        .build_v1()?;
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .max_concurrent_streams(MOST_STREAMS)
        .add_service(Guarded::new(control, metrics, &forward, &doors))
        .add_service(Guarded::new(compute, metrics, &forward, &doors))
        .add_service(Guarded::new(sources, metrics, &forward, &doors))
        .add_service(Guarded::new(AccessServer::new(rights), metrics, &forward, &doors))
        .add_service(Guarded::new(health, metrics, &forward, &doors))
        .add_service(Guarded::new(reflection, metrics, &forward, &doors));
    Ok(Task::spawn(async move {
        if let Err(fault) = server.serve_with_incoming_shutdown(incoming, stopped(stopping)).await {
            tracing::error!(%fault, "requests are no longer served");
        }
    }))
}

/// Follows the standing in the standard health service.
async fn report_health(
    reporter: tonic_health::server::HealthReporter,
    mut standing: watch::Receiver<Standing>,
) {
    use tonic_health::ServingStatus;
    loop {
        let well = standing.borrow_and_update().is_well();
        let status = if well { ServingStatus::Serving } else { ServingStatus::NotServing };
        for service in ["", "persys.control.v1.AgentControl", "persys.compute.v1.Compute"] {
            reporter.set_service_status(service, status).await;
        }
        if standing.changed().await.is_err() {
            return;
        }
    }
}

async fn stopped(mut stopping: watch::Receiver<bool>) {
    // An error means that whoever could say so is gone, which says it too.
    drop(stopping.wait_for(|stop| *stop).await);
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// How connections are made, both ways.
enum Door {
    Plain(ClusterName, Exposure),
    Tls(Box<Watcher>, Credentials),
}

impl Door {
    fn open(security: &Security, cluster: ClusterName) -> Result<Self, Error> {
        let source = match security {
            Security::Insecure(exposure) => return Ok(Self::Plain(cluster, *exposure)),
            Security::Mtls(source) => source,
        };
        let watcher = Watcher::open(source.clone(), SystemTime::now())?;
        let credentials = watcher.credentials();
        let found = credentials.current().identity().clone();
        if found.role != Role::Scheduler || found.cluster != cluster {
            return Err(Error::WrongIdentity { found: Box::new(found), cluster });
        }
        Ok(Self::Tls(Box::new(watcher), credentials))
    }

    fn incoming(&self, listener: TcpListener) -> Result<Incoming, Error> {
        match self {
            Self::Plain(cluster, exposure) => {
                let cluster = cluster.clone();
                Ok(Incoming::plain(listener, cluster, *exposure, reporter())?)
            }
            Self::Tls(_, credentials) => Incoming::tls(listener, credentials, reporter())
                .map_err(|fault| Error::Tls(fault.to_string())),
        }
    }

    fn way(&self) -> Way {
        match self {
            Self::Plain(..) => Way::Plain,
            Self::Tls(_, credentials) => Way::Tls(credentials.clone()),
        }
    }

    /// Takes up new certificates as they come.
    fn watch(self) -> Vec<Task> {
        match self {
            Self::Plain(..) => Vec::new(),
            Self::Tls(watcher, _) => {
                vec![Task::spawn(watcher.run(SystemTime::now, reporter()))]
            }
        }
    }
}

fn reporter() -> Report {
    Arc::new(|event: Event| match &event {
        Event::Reloaded(_) => tracing::info!(event = event.name(), "{event}"),
        Event::ReloadFailed(_) | Event::HandshakeFailed { .. } | Event::AcceptFailed(_) => {
            tracing::warn!(event = event.name(), "{event}");
        }
    })
}
