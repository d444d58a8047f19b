//! Dialling a server, with the certificate of the moment.
//!
//! A [`Connector`] is what `Endpoint::connect_with_connector` takes. A channel asks it for each new
//! connection, so that a channel that lives for months follows every rotation. Endpoints are written
//! `http://host:port`: it is the connector that makes the connection safe, not the scheme, and the
//! name it asks the certificate for is that of the role it dials, not that of the address.
//!
//! A server that retires a connection (`max_connection_age`) may do so just as a call is made on it.
//! The channel then answers `Cancelled` without having sent anything; the caller asks again.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use tonic::transport::{Channel, Endpoint, Uri};
use tower_service::Service;

use crate::certificate::Certificate;
use crate::credentials::Credentials;
use crate::cut::{Held, Leash};
use crate::first::{self, WrongAuthority};
use crate::listen::HANDSHAKE_TIMEOUT;
use crate::peer::{self, Peer, PeerError};
use crate::tls::{Expected, client_config};
use crate::token;

/// Longest wait for the other machine to answer at all.
pub const REACH_TIMEOUT: Duration = Duration::from_secs(5);
/// The part of what is left of a server's certificate after which a lasting channel dials again.
const WELL_BEFORE: f64 = 0.8;

/// Why a server was not reached. Tells a machine that is away from a process that is not running:
/// the first may be lost, the second restarts.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Not an address.
    #[error("{uri} names no host and port")]
    Address {
        /// What was given.
        uri: Uri,
    },
    /// The machine answers that nobody listens.
    #[error("nobody listens at {address}")]
    NotListening {
        /// Where.
        address: String,
    },
    /// The machine does not answer.
    #[error("{address} is not reached")]
    Unreachable {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// Somebody answers, but not whom we dialled.
    #[error("the wrong one answers at {address}")]
    WrongPeer {
        /// Where.
        address: String,
        /// Who, and what is wrong with that.
        source: PeerError,
    },
    /// Somebody answers, but not with a handshake, or refuses ours.
    #[error("no secure connection to {address}")]
    Handshake {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
}

impl ConnectError {
    /// The one inside an error of a channel or a call, if that failed for want of a connection.
    pub fn within<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            next = error.source();
        }
        None
    }
}

/// Makes connections to one kind of server.
#[derive(Debug, Clone)]
pub struct Connector {
    way: Way,
    /// When the connection that was made last is to be followed by another.
    stale_at: Arc<Mutex<Option<SystemTime>>>,
}

#[derive(Clone)]
enum Way {
    Tls {
        config: Arc<ClientConfig>,
        server_name: ServerName<'static>,
        /// None before there are any.
        credentials: Option<Credentials>,
    },
    Plain,
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tls { server_name, .. } => f.debug_tuple("Tls").field(server_name).finish(),
            Self::Plain => f.write_str("Plain"),
        }
    }
}

impl Connector {
    /// Connections on which both sides show certificates.
    pub fn tls(credentials: &Credentials, expected: Expected) -> Result<Self, rustls::Error> {
        let (config, server_name) = client_config(credentials, expected)?;
        let credentials = Some(credentials.clone());
        Ok(Self::by(Way::Tls { config, server_name, credentials }))
    }

    /// Connections to the enrolment of the authority with this key, by somebody who has no
    /// certificate yet.
    pub fn pinned(pin: token::Pin) -> Result<Self, rustls::Error> {
        let (config, server_name) = first::client_config(pin)?;
        Ok(Self::by(Way::Tls { config, server_name, credentials: None }))
    }

    /// Connections without certificates.
    pub fn plain() -> Self {
        Self::by(Way::Plain)
    }

    fn by(way: Way) -> Self {
        Self { way, stale_at: Arc::default() }
    }

    /// The same, for other connections.
    fn anew(&self) -> Self {
        Self::by(self.way.clone())
    }

    /// The connection goes when the certificate that was shown to us ends; the next is made well
    /// before.
    fn made(&self, peer: &Certificate, now: SystemTime) {
        let left = peer.not_after.duration_since(now).unwrap_or_default();
        let stale_at = now.checked_add(left.mul_f64(WELL_BEFORE));
        *self.stale_at.lock().unwrap_or_else(PoisonError::into_inner) = stale_at;
    }

    fn is_stale(&self, now: SystemTime) -> bool {
        let stale_at = self.stale_at.lock().unwrap_or_else(PoisonError::into_inner);
        stale_at.is_some_and(|at| now >= at)
    }

    /// How often the certificate it shows has changed.
    fn generation(&self) -> u64 {
        match &self.way {
            Way::Tls { credentials: Some(credentials), .. } => credentials.generation(),
            Way::Tls { credentials: None, .. } | Way::Plain => 0,
        }
    }

    /// What it shows and believes, where that is anything.
    pub fn credentials(&self) -> Option<&Credentials> {
        match &self.way {
            Way::Tls { credentials, .. } => credentials.as_ref(),
            Way::Plain => None,
        }
    }

    async fn connect(self, uri: Uri) -> Result<ClientStream, ConnectError> {
        let (Some(host), Some(port)) = (uri.host(), uri.port_u16()) else {
            return Err(ConnectError::Address { uri });
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let address = format!("{host}:{port}");
        let stream = match timeout(REACH_TIMEOUT, TcpStream::connect((host, port))).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(source)) if source.kind() == io::ErrorKind::ConnectionRefused => {
                return Err(ConnectError::NotListening { address });
            }
            Ok(Err(source)) => return Err(ConnectError::Unreachable { address, source }),
            Err(_) => {
                return Err(ConnectError::Unreachable { address, source: too_late() });
            }
        };
        if let Err(source) = stream.set_nodelay(true) {
            return Err(ConnectError::Unreachable { address, source });
        }
        let made = self.clone();
        let Way::Tls { config, server_name, credentials } = self.way else {
            return Ok(Either::Left(stream));
        };
        let handshake = TlsConnector::from(config).connect(server_name, stream);
        match timeout(HANDSHAKE_TIMEOUT, handshake).await {
            Ok(Ok(stream)) => {
                let bundle = credentials.as_ref().map(Credentials::current);
                let mapping = bundle.as_ref().and_then(|bundle| bundle.mapping());
                let chain = stream.get_ref().1.peer_certificates().unwrap_or(&[]);
                let peer = match Peer::certified(chain, mapping) {
                    Ok(peer) => peer.certificate,
                    Err(source) => return Err(ConnectError::WrongPeer { address, source }),
                };
                let now = SystemTime::now();
                let held = if let (Some(peer), Some(ours)) = (peer, credentials) {
                    made.made(&peer, now);
                    Held::on(stream, Leash::new(peer, &ours, now))
                } else {
                    Held::free(stream)
                };
                Ok(Either::Right(Box::new(held)))
            }
            Ok(Err(source)) => Err(refused(address, source)),
            Err(_) => Err(ConnectError::Handshake { address, source: too_late() }),
        }
    }
}

/// A channel for months. The call after a certificate has changed gets a new connection, which shows
/// the new one; calls under way end on the old connection, which then goes. So no call meets the
/// moment of change, nor the end of the certificate that the server showed.
#[derive(Debug)]
pub struct Lasting {
    endpoint: Endpoint,
    connector: Connector,
    kept: Mutex<Kept>,
}

/// A channel, whose connector made it, and how often the certificate had changed by then.
#[derive(Debug)]
struct Kept {
    generation: u64,
    connector: Connector,
    channel: Channel,
}

impl Lasting {
    /// Connects when there is something to say.
    pub fn new(endpoint: Endpoint, connector: Connector) -> Self {
        let kept = Mutex::new(Kept::new(&endpoint, &connector));
        Self { endpoint, connector, kept }
    }

    /// The channel for the next call.
    pub fn channel(&self) -> Channel {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = kept.generation != self.connector.generation();
        if is_old || kept.connector.is_stale(SystemTime::now()) {
            *kept = Kept::new(&self.endpoint, &self.connector);
        }
        kept.channel.clone()
    }
}

impl Kept {
    fn new(endpoint: &Endpoint, connector: &Connector) -> Self {
        let (generation, connector) = (connector.generation(), connector.anew());
        let channel = endpoint.connect_with_connector_lazy(connector.clone());
        Self { generation, connector, channel }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<ClientStream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect(uri).await.map(TokioIo::new) })
    }
}

/// Our end of a connection: without certificates, or with them.
pub type ClientStream = Either<TcpStream, Box<Held<TlsStream<TcpStream>>>>;

/// Why a handshake came to nothing. What the TLS library carries and shows to nobody is what whoever
/// joins must read.
fn refused(address: String, source: io::Error) -> ConnectError {
    if let Some(source) = peer::reason(&source) {
        return ConnectError::WrongPeer { address, source };
    }
    let wrong: Option<WrongAuthority> = peer::reason(&source);
    ConnectError::Handshake { address, source: wrong.map_or(source, io::Error::other) }
}

fn too_late() -> io::Error {
    io::ErrorKind::TimedOut.into()
}
