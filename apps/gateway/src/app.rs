//! One gateway process: everything put together, started and stopped.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use persys_identity::files::LoadError;
use persys_identity::web::{Asked, WebDoor};
use persys_identity::{Credentials, Identity, Role, Source, Watcher, logged};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::caller::Caller;
use crate::clusters::discovery::{self, Discovery};
use crate::clusters::file::Plan;
use crate::clusters::scheduler::{NoWay, Way};
use crate::clusters::{Cluster, Clusters, health};
use crate::front;
use crate::gateway::Gateway;
use crate::limits::Limits;
pub use crate::login::sessions::NoSession;
use crate::serve::{Door, Listening};
use crate::webhooks::{self, LedgerError, Webhooks};
use crate::{login, openapi, pages, probes, rest};

/// How long everything has to end.
const FAREWELL: Duration = Duration::from_secs(5);

/// What a gateway process is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where callers with certificates ask; nowhere without certificates.
    pub inner: Option<SocketAddr>,
    /// Where everybody else does.
    pub public: SocketAddr,
    /// How it proves who it is.
    pub security: Security,
    /// Whether the public door does without TLS, which only this machine may then use.
    pub public_is_plain: bool,
    /// Which clusters there are.
    pub plan: Plan,
    /// How long a scheduler may take for an answer.
    pub request_timeout: Duration,
    /// How often schedulers are asked whether they are well.
    pub health_interval: Duration,
    /// Where schedulers of the usual cluster are found besides.
    pub discovery: Option<Discovery>,
    /// How much of everything there may be.
    pub limits: Limits,
    /// Webhooks, if they are taken or sent.
    pub webhooks: Option<webhooks::Settings>,
}

/// How it proves who it is.
#[derive(Debug, Clone)]
pub enum Security {
    /// Not at all, in an installation without certificates: everybody on this machine may do
    /// everything.
    Insecure,
    /// By a certificate. The files are read again as they change.
    Mtls(Source),
}

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] LoadError),
    /// A certificate is somebody else's.
    #[error("the certificate names {0}, not a gateway")]
    WrongIdentity(Box<Identity>),
    /// The certificate does not make a connection.
    #[error("no secure connections can be made: {0}")]
    Tls(String),
    /// An address cannot be listened on.
    #[error("{address} cannot be listened on")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Others could get in without TLS.
    #[error("{0} can be reached from elsewhere; without TLS listen on 127.0.0.1")]
    Exposed(SocketAddr),
    /// The folder of what is kept cannot be made.
    #[error("{} cannot be made", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is kept cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A scheduler's address is none.
    #[error(transparent)]
    NoWay(#[from] NoWay),
}

/// A gateway that runs. Dropping it ends it without farewell.
#[derive(Debug)]
pub struct Running {
    /// Where callers with certificates ask.
    pub inner: Option<SocketAddr>,
    /// Where everybody else does.
    pub public: SocketAddr,
    /// Whether the public door has TLS.
    pub is_private: bool,
    gateway: Gateway,
    stop: watch::Sender<bool>,
    servers: Vec<Task>,
    aside: Vec<Task>,
}

/// Work that ends when it is dropped.
#[derive(Debug)]
struct Task(JoinHandle<()>);

impl Task {
    fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Running {
    /// An address with which `caller` can log in once, in a browser.
    pub fn login_link(&self, caller: Caller) -> Result<String, NoSession> {
        let secret = self.gateway.sessions.link(caller, Instant::now())?;
        let scheme = if self.is_private { "https" } else { "http" };
        Ok(format!("{scheme}://{}/login/{secret}", self.public))
    }

    /// Lets those who are served finish, then ends everything.
    pub async fn stop(self) {
        let Self { stop, servers, aside, .. } = self;
        stop.send_replace(true);
        for mut server in servers {
            if timeout(FAREWELL, &mut server.0).await.is_err() {
                tracing::warn!("something did not stop in time and was ended");
            }
        }
        drop(aside);
    }
}

/// Starts a gateway. It answers as soon as this returns.
pub async fn start(config: Config) -> Result<Running, Error> {
    let mut aside = Vec::new();
    let own = match &config.security {
        Security::Insecure => None,
        Security::Mtls(source) => Some(credentials(source, &mut aside)?),
    };
    let clusters = Arc::new(clusters(&config, own.as_ref(), &mut aside)?);
    let (webhooks, beside) = match config.webhooks.clone() {
        None => (None, None),
        Some(settings) => {
            fs::create_dir_all(&settings.folder)
                .map_err(|source| Error::Folder { path: settings.folder.clone(), source })?;
            let (webhooks, beside) = Webhooks::open(settings)?;
            (Some(webhooks), Some(beside))
        }
    };
    let limits = config.limits.clone();
    let gateway = Gateway::new(Arc::clone(&clusters), limits, webhooks, own.is_none());
    gateway.metrics.shows(&clusters, own.as_ref());
    aside.extend(beside.map(|beside| Task::spawn(beside.run(gateway.clone()))));
    if let (Some(discovery), Ok(cluster)) = (config.discovery.clone(), clusters.find(None)) {
        aside.push(Task::spawn(discovery::run(Arc::clone(cluster), discovery)));
    }
    aside.push(Task::spawn(health::watch(clusters, config.health_interval)));

    let (stop, stopping) = watch::channel(false);
    let mut servers = Vec::new();
    let mut serve = |listener, door, router| {
        let listening = Listening {
            listener,
            door,
            router,
            limits: config.limits.clone(),
            connections: Arc::clone(&gateway.connections),
            metrics: Arc::clone(&gateway.metrics),
        };
        servers.push(Task::spawn(listening.run(stopping.clone())));
    };
    let mut inner_at = None;
    if let (Some(address), Some(own)) = (config.inner, &own) {
        let (listener, at) = listen(address).await?;
        serve(listener, door(own, Asked::Required)?, inner_routes(&gateway));
        inner_at = Some(at);
    }
    let (listener, public_at) = listen(config.public).await?;
    let own = own.as_ref().filter(|_| !config.public_is_plain);
    let public_door = match own {
        Some(own) => door(own, Asked::Optional)?,
        None if !public_at.ip().to_canonical().is_loopback() => {
            return Err(Error::Exposed(public_at));
        }
        None => Door::Plain,
    };
    serve(listener, public_door, public_routes(&gateway));
    let is_private = own.is_some();
    Ok(Running { inner: inner_at, public: public_at, is_private, gateway, stop, servers, aside })
}

fn everywhere() -> Router<Gateway> {
    let all = rest::router().merge(probes::router());
    all.merge(login::router()).merge(openapi::router())
}

fn inner_routes(gateway: &Gateway) -> Router {
    front::before(everywhere(), gateway)
}

fn public_routes(gateway: &Gateway) -> Router {
    front::before(everywhere().merge(pages::router()).merge(webhooks::router()), gateway)
}

fn clusters(
    config: &Config,
    own: Option<&Credentials>,
    aside: &mut Vec<Task>,
) -> Result<Clusters, Error> {
    let mut all = Vec::new();
    for plan in &config.plan.clusters {
        let way = match (&plan.identity, own) {
            (Some(path), Some(_)) => Way::Tls(bundle(path.clone(), aside)?),
            (None, Some(own)) => Way::Tls(own.clone()),
            (_, None) => Way::Plain,
        };
        all.push(Cluster::new(plan, way, config.request_timeout)?);
    }
    Ok(Clusters::new(config.plan.default.clone(), all, config.plan.repositories.clone()))
}

fn bundle(path: PathBuf, aside: &mut Vec<Task>) -> Result<Credentials, Error> {
    credentials(&Source::Bundle(path), aside)
}

/// Our certificate in a cluster, taken up anew as it changes.
fn credentials(source: &Source, aside: &mut Vec<Task>) -> Result<Credentials, Error> {
    let watcher = Watcher::open(source.clone(), SystemTime::now())?;
    let credentials = watcher.credentials();
    let found = credentials.current().identity().clone();
    if found.role != Role::Gateway {
        return Err(Error::WrongIdentity(Box::new(found)));
    }
    aside.push(Task::spawn(watcher.run(SystemTime::now, logged())));
    Ok(credentials)
}

fn door(own: &Credentials, asked: Asked) -> Result<Door, Error> {
    WebDoor::new(own, asked).map(Door::Tls).map_err(|fault| Error::Tls(fault.to_string()))
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}
