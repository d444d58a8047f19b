//! Connections: taken within limits, shaken hands with, and served until they end.
//!
//! A connection costs its place among all of them and among those of its source, and nothing else
//! until its head is read. One that says nothing is closed; one too many is closed at once.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use persys_identity::Peer;
use persys_identity::listen::HandshakeError;
use persys_identity::web::WebDoor;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower_service::Service as _;

use crate::caller::Caller;
use crate::limits::{Connections, Limits, Pass};
use crate::metrics::Metrics;

/// How long those who are served may finish when the process stops.
const FAREWELL: Duration = Duration::from_secs(3);
/// Pause after the system gave no connection, for instance for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes the head of a request may have.
const HEAD: usize = 16 * 1024;
/// Lines the head of a request may have.
const HEAD_LINES: usize = 64;
/// Requests at a time on one connection.
const MOST_STREAMS: u32 = 128;
/// How often a quiet connection is asked whether it is still there, and how long it may take.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));

/// From where a request came.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The address.
    pub remote: SocketAddr,
    /// Whether a certificate says who it is.
    pub is_certified: bool,
    /// Who that is, where they may ask for anything.
    pub caller: Option<Caller>,
    /// Whether nobody on the way could read it.
    pub is_private: bool,
}

impl Origin {
    /// A connection from there, with the certificate of this peer.
    pub fn of(remote: SocketAddr, peer: Option<&Peer>, is_private: bool) -> Self {
        let caller = peer.and_then(Caller::of);
        Self { remote, is_certified: peer.is_some(), caller, is_private }
    }
}

/// How connections are made.
#[derive(Debug, Clone)]
pub enum Door {
    /// Without TLS: for this machine alone.
    Plain,
    /// With it.
    Tls(WebDoor),
}

/// A listener and what it serves.
#[derive(Debug)]
pub struct Listening {
    /// Where connections come from.
    pub listener: TcpListener,
    /// How they are made.
    pub door: Door,
    /// What is served on them.
    pub router: Router,
    /// What they may cost.
    pub limits: Limits,
    /// How many there are.
    pub connections: Arc<Connections>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl Listening {
    /// Serves until it is told to stop.
    pub async fn run(self, mut stopping: watch::Receiver<bool>) {
        let mut tasks = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = stopped(&mut stopping) => break,
            };
            while tasks.try_join_next().is_some() {}
            let (stream, remote) = match accepted {
                Ok(accepted) => accepted,
                Err(fault) => {
                    tracing::warn!(%fault, "no connection could be taken");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            match self.connections.enter(remote.ip()) {
                None => self.metrics.connection_refused(),
                Some(pass) => drop(tasks.spawn(self.one(stream, remote, pass, stopping.clone()))),
            }
        }
        drop(self.listener);
        let ended = async { while tasks.join_next().await.is_some() {} };
        if timeout(FAREWELL, ended).await.is_err() {
            tracing::info!("connections that did not end in time were ended");
        }
    }

    fn one(
        &self,
        stream: TcpStream,
        remote: SocketAddr,
        pass: Pass,
        stopping: watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (door, router) = (self.door.clone(), self.router.clone());
        let (head_within, metrics) = (self.limits.head_within, Arc::clone(&self.metrics));
        async move {
            let _pass = pass;
            if stream.set_nodelay(true).is_err() {
                return;
            }
            let served = Served { router, stopping, head_within };
            match door {
                Door::Plain if !remote.ip().to_canonical().is_loopback() => {
                    metrics.connection_refused();
                }
                Door::Plain => {
                    served.serve(stream, Origin::of(remote, None, false), false).await;
                }
                Door::Tls(door) => match door.admit(stream, remote).await {
                    Ok(guest) => {
                        let origin = Origin::of(remote, guest.peer.as_ref(), true);
                        served.serve(guest.stream, origin, guest.is_http2).await;
                    }
                    Err(fault) => {
                        metrics.connection_refused();
                        match &fault {
                            // Somebody with a certificate of our authority, and a name we do not know.
                            HandshakeError::Peer(_) => {
                                tracing::warn!(%remote, %fault, "refused a caller");
                            }
                            HandshakeError::TimedOut
                            | HandshakeError::Tls(_)
                            | HandshakeError::Elsewhere
                            | HandshakeError::BrokenOff => {
                                tracing::debug!(%remote, %fault, "no handshake");
                            }
                        }
                    }
                },
            }
        }
    }
}

struct Served {
    router: Router,
    stopping: watch::Receiver<bool>,
    head_within: Duration,
}

impl Served {
    async fn serve<S>(self, stream: S, origin: Origin, is_http2: bool)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self { router, mut stopping, head_within } = self;
        let remote = origin.remote;
        let service = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(origin.clone());
            router.clone().call(request)
        });
        let stream = TokioIo::new(stream);
        let ended = if is_http2 {
            let connection = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_header_list_size(u32::try_from(HEAD).unwrap_or(u32::MAX))
                .max_concurrent_streams(MOST_STREAMS)
                .keep_alive_interval(KEEPALIVE.0)
                .keep_alive_timeout(KEEPALIVE.1)
                .serve_connection(stream, service);
            let mut connection = pin!(connection);
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = stopped(&mut stopping) => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            }
        } else {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(head_within)
                .max_buf_size(HEAD)
                .max_headers(HEAD_LINES)
                .serve_connection(stream, service)
                .with_upgrades();
            let mut connection = pin!(connection);
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = stopped(&mut stopping) => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            }
        };
        if let Err(fault) = ended {
            tracing::debug!(%remote, %fault, "a connection ended");
        }
    }
}

/// Waits until it is told to stop; whoever could say so being gone says it too.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    drop(stopping.wait_for(|stop| *stop).await);
}
