//! One scheduler process: everything put together, started and stopped.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::future::join_all;
use persys_cluster::replica::Replica;
use persys_cluster::settings::Settings;
use persys_cluster::store::HighWater;
use persys_git::Fetcher;
use persys_identity::listen::Exposed;
use persys_identity::names::IdentityError;
use persys_identity::{
    Closer, ClusterName, Credentials, Exposure, Identity, Incoming, Report, Role, Source, Watcher,
    logged,
};
use persys_oidc::Verifier;
use persys_store::Store;
use persys_store::embedded::OpenError;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::clock::{Clock, HostClock};
use crate::counted::Counted;
use crate::discovery::{self, Discovery};
use crate::driver::{Driver, Parts};
use crate::handle::Handle;
use crate::http::{self, Pages};
use crate::known::{self, Known};
use crate::links::contract::ask_agents;
use crate::links::grpc::{GrpcLinks, Way};
use crate::metrics::Metrics;
use crate::place::{Opened, Place};
use crate::secrets::{Secrets, WithSecrets};
use crate::serve::{Behind, Services, Told, serve_grpc, serve_pages};
use crate::vault_secrets::VaultSecrets;
pub use crate::vault_secrets::VaultSettings;

pub use crate::advertise::Advertise;
pub use crate::known::KnownError;
pub use crate::rpc::Enrolment;
pub use persys_git::{Settings as GitSettings, Ssh as GitSsh, safe_path};
pub use persys_model::repository::Protocol as GitProtocol;
pub use persys_oidc::Settings as LoginSettings;

/// How long callers may finish when the process stops. Who is asked to let go does so at once; what is
/// under way takes as long as a commit. Whoever has not gone by then is cut off: those who follow
/// wait for the leadership meanwhile.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long the last writes and giving the leadership back may take.
const LAST_WORDS: Duration = Duration::from_secs(5);

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
    /// Whose logins are believed, if anybody's.
    pub logins: Option<LoginSettings>,
    /// How Compose files are fetched from repositories. Their folder is in that of the state.
    pub git: GitSettings,
    /// The file with the keys of secrets, if an operator looks after it; else one in the folder of
    /// the state. Schedulers that share a store need the same keys.
    pub secrets_key: Option<PathBuf>,
    /// The Vault that secrets may be read from, if any.
    pub vault: Option<VaultSettings>,
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
    /// Secrets cannot be read from this Vault.
    #[error("Vault cannot be used: {0}")]
    Vault(String),
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
    /// Logins cannot be checked as it was told.
    #[error(transparent)]
    Logins(#[from] persys_oidc::BadSettings),
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
    /// What it proves itself with, where it does.
    pub credentials: Option<Credentials>,
    /// To be told where members join, by whoever lets them.
    pub enrolment: Enrolment,
    /// Where other schedulers and agents reach it.
    pub reached_at: SocketAddr,
    stop: watch::Sender<bool>,
    servers: Vec<Task>,
    /// Ends the connections of those who do not.
    closers: [Closer; 2],
    driver: Task,
    keeper: Task,
    /// What ends with the process, whenever that is.
    aside: Vec<Task>,
    store: Arc<dyn Store>,
}

/// Work that ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }

    /// Waits for the end, but not for ever; says whether it came.
    async fn finish(&mut self, patience: Duration) -> bool {
        timeout(patience, &mut self.0).await.is_ok()
    }

    /// Waits for the end, but not for ever.
    async fn finish_or_end(mut self, patience: Duration) {
        if !self.finish(patience).await {
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
    /// Lets callers finish, then ends everything and gives the store back. Streams are told to go
    /// elsewhere, and whoever holds on to a connection is cut off.
    pub async fn stop(self) {
        let Self { handle, stop, mut servers, closers, driver, keeper, aside, store, .. } = self;
        stop.send_replace(true);
        let farewells = servers.iter_mut().map(|server| server.finish(FAREWELL));
        if join_all(farewells).await.contains(&false) {
            tracing::warn!("somebody does not let go and is cut off");
            closers.iter().for_each(Closer::close);
        }
        drop((handle, aside, servers));
        driver.finish_or_end(LAST_WORDS).await;
        keeper.finish_or_end(LAST_WORDS).await;
        store.close().await;
    }
}

/// Starts a scheduler. It answers as soon as this returns, and leads soon after.
pub async fn start(config: Config) -> Result<Running, Error> {
    start_with(config, |parts| parts).await
}

/// A start that fails leaves the store free: whoever tries again at once finds it so.
async fn or_close<T>(started: Result<T, Error>, store: &dyn Store) -> Result<T, Error> {
    if started.is_err() {
        store.close().await;
    }
    started
}

/// The file with what this host remembers of the store, and what is in it. The folder is made.
fn remembered(folder: &Path) -> Result<(PathBuf, Option<HighWater>), Error> {
    make_folder(folder)?;
    let path = folder.join("known.json");
    let known = known::read(&path)?;
    Ok((path, known))
}

/// Starts a scheduler whose driver works with what `between` makes of its parts: a proof puts
/// something between the scheduler and the outside.
pub async fn start_with(
    config: Config,
    between: impl FnOnce(Parts) -> Parts + Send,
) -> Result<Running, Error> {
    let cluster = ClusterName::new(&config.cluster).map_err(Error::Cluster)?;
    let door = Door::open(&config.security, cluster.clone())?;
    let (grpc, grpc_at) = listen(config.grpc).await?;
    let (pages, http_at) = listen_for_pages(config.http, cluster).await?;
    let (known_path, known) = remembered(&config.state_dir)?;
    let Opened { store, health, names } = config.store.open(&config.state_dir)?;
    let metrics = Arc::new(Metrics::new(&health));
    let incoming = or_close(door.incoming(grpc, metrics.report(logged())), &*store).await?;
    let closers = [incoming.closer(), pages.closer()];
    let store: Arc<dyn Store> = Arc::new(Counted::new(store, Arc::clone(&metrics)));
    let clock: Arc<dyn Clock> = Arc::new(HostClock::start());
    let links = links_of(&door, &metrics, &config.settings);
    let (memory, keeping) = Known::keep(known_path);
    let reached_at = config.advertise.resolve(grpc_at);
    let shadow = config.settings.shadow;
    let replica = replica(&config, &reached_at.to_string(), known, clock.as_ref())?;
    let secrets = or_close(secrets_of(&config, &metrics), &*store).await?;
    let parts = between(Parts {
        replica,
        clock: Arc::clone(&clock),
        store,
        links: Arc::new(WithSecrets::new(Arc::clone(&links), Arc::clone(&secrets))),
        memory: Arc::new(memory),
    });
    let store = Arc::clone(&parts.store);
    let (driver, handle) = Driver::counting(parts, Arc::clone(&metrics));
    let (stop, stopping) = watch::channel(false);
    let credentials = metrics.certified(door.credentials());
    let enrolment = Enrolment { credentials: credentials.clone(), ..Enrolment::default() };
    let beside = beside(&secrets, &links, &handle, &clock);
    let services = Services::new(
        Behind { handle: handle.clone(), store: Arc::clone(&store), clock, links, secrets },
        Told {
            way: door.way(),
            enrolment: enrolment.clone(),
            fetcher: Fetcher::new(config.git.within(config.state_dir.join("git")))?,
            logins: config.logins.map(Verifier::new).transpose()?,
            settings: config.settings,
            cluster: &config.cluster,
            zones: config.discovery.zones.clone(),
        },
        &stopping,
    );
    let mut aside = door.watch(metrics.report(logged()));
    aside.extend(beside);
    aside
        .extend(credentials.clone().map(|known| Task::spawn(follow_denied(handle.clone(), known))));
    let serving = serve_grpc(incoming, services, &handle, &metrics, stopping.clone(), &mut aside)?;
    let names = config.discovery.with_names_in(names);
    let naming = discovery::start(names, &handle, reached_at, shadow, stopping.clone()).await;
    let shown = Pages { handle: handle.clone(), metrics, credentials: credentials.clone() };
    let showing = serve_pages(pages, http::router(shown), stopping);
    Ok(Running {
        grpc: grpc_at,
        http: http_at,
        dns: naming.dns,
        handle,
        credentials,
        enrolment,
        reached_at,
        stop,
        servers: vec![serving, showing, Task::spawn(naming.work)],
        closers,
        driver: Task::spawn(driver.run()),
        keeper: Task::spawn(keeping),
        aside,
        store,
    })
}

fn links_of(door: &Door, metrics: &Arc<Metrics>, settings: &Settings) -> Arc<GrpcLinks> {
    Arc::new(GrpcLinks::counting(door.way(), Arc::clone(metrics), settings.status_poll_ms))
}

/// Work beside the driver: secrets of Vault are followed, and agents of the contract are asked.
fn beside(
    secrets: &Arc<Secrets>,
    links: &Arc<GrpcLinks>,
    handle: &Handle,
    clock: &Arc<dyn Clock>,
) -> [Task; 2] {
    let vault = Secrets::follow_vault(Arc::clone(secrets), handle, Arc::clone(clock));
    let asking = ask_agents(handle.clone(), Arc::clone(links));
    [Task::spawn(vault), Task::spawn(asking)]
}

fn secrets_of(config: &Config, metrics: &Metrics) -> Result<Arc<Secrets>, Error> {
    let vault = VaultSecrets::new(config.vault.clone(), Arc::clone(&metrics.vault));
    let vault = vault.map_err(|why| Error::Vault(why.to_string()))?;
    let Config { cluster, state_dir, secrets_key, .. } = config;
    Ok(Secrets::new(cluster, state_dir, secrets_key.clone(), vault))
}

/// A process that may lead, under a name that no other life of it has.
fn replica(
    config: &Config,
    reached_at: &str,
    known: Option<HighWater>,
    clock: &dyn Clock,
) -> Result<Replica, Error> {
    let candidate = Arc::from(format!("{reached_at}#{:016x}", getrandom::u64()?));
    let fresh = Arc::from(format!("{}-{:016x}", config.cluster, getrandom::u64()?));
    let mut key = String::new();
    for _ in 0..4 {
        key.push_str(&format!("{:016x}", getrandom::u64()?));
    }
    let settings = Settings { mark_key: Arc::from(key), ..config.settings.clone() };
    Ok(Replica::start(candidate, fresh, known, settings, clock.now()))
}

/// Believes nobody who was revoked: new connections are refused and open ones cut.
async fn follow_denied(handle: Handle, credentials: Credentials) {
    let mut entries = handle.watch_entries();
    loop {
        let known = Arc::clone(&entries.borrow_and_update().entries);
        credentials.revoked().replace(crate::rpc::denied(&known));
        if entries.changed().await.is_err() {
            return;
        }
    }
}

pub(crate) async fn stopped(mut stopping: watch::Receiver<bool>) {
    // An error means that whoever could say so is gone, which says it too.
    drop(stopping.wait_for(|stop| *stop).await);
}

fn make_folder(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(|source| Error::Folder { path: path.to_owned(), source })
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Pages are for whoever comes.
async fn listen_for_pages(
    address: SocketAddr,
    cluster: ClusterName,
) -> Result<(Incoming, SocketAddr), Error> {
    let (listener, bound) = listen(address).await?;
    Ok((Incoming::plain(listener, cluster, Exposure::Anywhere, logged())?, bound))
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

    fn incoming(&self, listener: TcpListener, report: Report) -> Result<Incoming, Error> {
        match self {
            Self::Plain(cluster, exposure) => {
                let cluster = cluster.clone();
                Ok(Incoming::plain(listener, cluster, *exposure, report)?)
            }
            Self::Tls(_, credentials) => Incoming::tls(listener, credentials, report)
                .map_err(|fault| Error::Tls(fault.to_string())),
        }
    }

    fn credentials(&self) -> Option<Credentials> {
        match self {
            Self::Plain(..) => None,
            Self::Tls(_, credentials) => Some(credentials.clone()),
        }
    }

    fn way(&self) -> Way {
        match self {
            Self::Plain(..) => Way::Plain,
            Self::Tls(_, credentials) => Way::Tls(credentials.clone()),
        }
    }

    /// Takes up new certificates as they come.
    fn watch(self, report: Report) -> Vec<Task> {
        match self {
            Self::Plain(..) => Vec::new(),
            Self::Tls(watcher, _) => {
                vec![Task::spawn(watcher.run(SystemTime::now, report))]
            }
        }
    }
}
