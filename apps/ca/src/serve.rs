//! Listening for those who have no certificate.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use persys_identity::{Closer, Credentials, Incoming, logged};
use persys_proto::compute::v1::enrol_server::EnrolServer;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::Server;

use crate::limit::Refusals;
use crate::metrics::Metrics;
use crate::office::Office;
use crate::service::Service;

/// Largest request: two certificates and a signature fit several times.
const LARGEST: usize = 32 * 1024;
/// Longest answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// Most requests at a time on one connection; a machine has one.
const MOST_STREAMS: u32 = 4;
/// Longest connection: nobody needs one for more than a few requests.
const LONGEST: Duration = Duration::from_mins(1);
/// How long callers may finish when it stops; after that they are cut off.
const FAREWELL: Duration = Duration::from_secs(1);

/// What the enrolment is told.
#[derive(Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// What to show.
    pub credentials: Credentials,
    /// Who decides.
    pub office: Arc<Office>,
    /// Where members find the schedulers, `host:port`.
    pub schedulers: Vec<String>,
    /// Where requests are counted.
    pub metrics: Arc<Metrics>,
}

/// Why it does not listen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken, or not ours.
    #[error("{address} cannot be listened on")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The certificate does not make a connection.
    #[error("no secure connections can be made: {0}")]
    Tls(String),
}

/// An enrolment that runs; ends when dropped.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    closer: Closer,
    serving: JoinHandle<()>,
}

impl Running {
    /// Lets callers finish and ends it.
    pub async fn stop(mut self) {
        self.stop.take();
        if tokio::time::timeout(FAREWELL, &mut self.serving).await.is_err() {
            tracing::warn!("somebody who joins does not let go and is cut off");
            self.closer.close();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Starts it; it answers when this returns.
pub async fn start(config: Config) -> Result<Running, Error> {
    let Config { listen, credentials, office, schedulers, metrics } = config;
    let failed = |source| Error::Listen { address: listen, source };
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let incoming = Incoming::one_sided(listener, &credentials, metrics.report(logged()))
        .map_err(|fault| Error::Tls(fault.to_string()))?;
    let closer = incoming.closer();
    let service = Service { office, refusals: Refusals::default(), schedulers, metrics };
    let service = EnrolServer::new(service).max_decoding_message_size(LARGEST);
    let (stop, stopped) = oneshot::channel::<()>();
    let server = Server::builder()
        .timeout(PATIENCE)
        .max_concurrent_streams(MOST_STREAMS)
        .concurrency_limit_per_connection(1)
        .max_connection_age(LONGEST)
        .add_service(service);
    let serving = tokio::spawn(async move {
        let until = async { drop(stopped.await) };
        if let Err(fault) = server.serve_with_incoming_shutdown(incoming, until).await {
            tracing::error!(%fault, "nobody can join any more");
        }
    });
    Ok(Running { address, stop: Some(stop), closer, serving })
}
