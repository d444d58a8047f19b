//! Accepted connections, each with the peer it belongs to.
//!
//! An [`Incoming`] is what `Server::serve_with_incoming` takes. Handshakes run beside each other, at
//! most [`MOST_HANDSHAKES`] at a time and none longer than [`HANDSHAKE_TIMEOUT`], so that one silent
//! caller holds up nobody. It never ends and never fails: what goes wrong with one connection, or
//! with the listener for a while, is reported and left behind.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::Stream;
use tonic::transport::server::Connected;

use crate::close::{Closer, End};
use crate::credentials::Credentials;
use crate::cut::{Held, Leash};
use crate::event::{Event, Report};
use crate::first;
use crate::names::ClusterName;
use crate::peer::{self, Peer, PeerError};
use crate::tls::server_config;

/// Longest handshake; a slow link needs a second.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Most handshakes at a time; a fleet that comes back at once queues in the kernel meanwhile.
pub const MOST_HANDSHAKES: usize = 256;
/// Pause after the system gave no connection, for instance for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a connection came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// Too slow.
    #[error("no handshake within {HANDSHAKE_TIMEOUT:?}")]
    TimedOut,
    /// Not a peer we talk to, or not TLS.
    #[error("{0}")]
    Tls(io::Error),
    /// Nobody we know.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// From elsewhere, without certificates.
    #[error("without certificates only this machine may connect")]
    Elsewhere,
    /// A bug here.
    #[error("the handshake was broken off")]
    BrokenOff,
}

/// Who may reach a listener that asks for no certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// This machine alone.
    Loopback,
    /// Everybody, as somebody insisted.
    Anywhere,
}

/// A plain listener that others could reach.
#[derive(Debug, thiserror::Error)]
#[error(
    "{address} can be reached from elsewhere, and without certificates anybody could command the cluster; listen on 127.0.0.1 or use certificates"
)]
pub struct Exposed {
    /// Where it listens.
    pub address: SocketAddr,
}

/// What a request's extensions say of its connection.
#[derive(Debug, Clone)]
pub struct ConnectInfo {
    /// Who is calling.
    pub peer: Peer,
    /// From where.
    pub remote: SocketAddr,
}

/// The connections of one listener.
pub struct Incoming {
    listener: TcpListener,
    door: Door,
    handshakes: JoinSet<Result<Admitted, (SocketAddr, HandshakeError)>>,
    pause: Option<Pin<Box<Sleep>>>,
    report: Report,
    closer: Closer,
}

#[derive(Clone)]
enum Door {
    Tls(TlsAcceptor, Credentials),
    /// The server alone shows a certificate.
    OneSided(TlsAcceptor, ClusterName),
    Plain {
        cluster: ClusterName,
        exposure: Exposure,
    },
}

impl Incoming {
    /// Connections on which both sides show certificates.
    pub fn tls(
        listener: TcpListener,
        credentials: &Credentials,
        report: Report,
    ) -> Result<Self, rustls::Error> {
        let acceptor = TlsAcceptor::from(server_config(credentials)?);
        let door = Door::Tls(acceptor, credentials.clone());
        Ok(Self::new(listener, door, report))
    }

    /// Connections on which only we show a certificate, for those who come to get one.
    pub fn one_sided(
        listener: TcpListener,
        credentials: &Credentials,
        report: Report,
    ) -> Result<Self, rustls::Error> {
        let acceptor = TlsAcceptor::from(first::server_config(credentials)?);
        let cluster = credentials.current().identity().cluster.clone();
        Ok(Self::new(listener, Door::OneSided(acceptor, cluster), report))
    }

    /// Connections without certificates, on which everybody is the operator `anonymous`.
    pub fn plain(
        listener: TcpListener,
        cluster: ClusterName,
        exposure: Exposure,
        report: Report,
    ) -> Result<Self, Exposed> {
        if let Ok(address) = listener.local_addr()
            && exposure == Exposure::Loopback
            && !is_loopback(address)
        {
            return Err(Exposed { address });
        }
        Ok(Self::new(listener, Door::Plain { cluster, exposure }, report))
    }

    /// Where it listens.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What ends its connections, for whoever no longer waits for their other ends.
    pub fn closer(&self) -> Closer {
        self.closer.clone()
    }

    fn new(listener: TcpListener, door: Door, report: Report) -> Self {
        let (handshakes, closer) = (JoinSet::new(), Closer::new());
        Self { listener, door, handshakes, pause: None, report, closer }
    }

    /// The next finished handshake that led to something.
    fn poll_finished(&mut self, cx: &mut Context<'_>) -> Poll<Option<Connection>> {
        loop {
            let (remote, fault) = match ready!(self.handshakes.poll_join_next(cx)) {
                Some(Ok(Ok((stream, info)))) => {
                    let end = Some(self.closer.end());
                    return Poll::Ready(Some(Connection { stream, info, end }));
                }
                Some(Ok(Err((remote, fault)))) => (Some(remote), fault),
                Some(Err(_)) => (None, HandshakeError::BrokenOff),
                None => return Poll::Ready(None),
            };
            (self.report)(Event::HandshakeFailed { remote, fault });
        }
    }

    /// The next connection to shake hands with, unless there are enough of these.
    fn poll_accepted(&mut self, cx: &mut Context<'_>) -> Poll<(TcpStream, SocketAddr)> {
        if self.handshakes.len() >= MOST_HANDSHAKES {
            return Poll::Pending;
        }
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            match ready!(self.listener.poll_accept(cx)) {
                Ok(accepted) => return Poll::Ready(accepted),
                Err(fault) => {
                    (self.report)(Event::AcceptFailed(fault));
                    self.pause = Some(Box::pin(sleep(ACCEPT_PAUSE)));
                }
            }
        }
    }
}

impl Stream for Incoming {
    type Item = Result<Connection, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Poll::Ready(Some(connection)) = self.poll_finished(cx) {
                return Poll::Ready(Some(Ok(connection)));
            }
            // Woken by the listener, or by the handshake that ends and makes room.
            let (stream, remote) = ready!(self.poll_accepted(cx));
            let door = self.door.clone();
            self.handshakes.spawn(async move {
                match timeout(HANDSHAKE_TIMEOUT, door.admit(stream, remote)).await {
                    Ok(admitted) => admitted.map_err(|fault| (remote, fault)),
                    Err(_) => Err((remote, HandshakeError::TimedOut)),
                }
            });
        }
    }
}

impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Incoming").field("listener", &self.listener).finish_non_exhaustive()
    }
}

/// Somebody who was let in.
type Admitted = (ServerStream, ConnectInfo);

impl Door {
    async fn admit(
        self,
        stream: TcpStream,
        remote: SocketAddr,
    ) -> Result<Admitted, HandshakeError> {
        stream.set_nodelay(true).map_err(HandshakeError::Tls)?;
        match self {
            Self::Tls(acceptor, credentials) => {
                let stream = acceptor.accept(stream).await.map_err(|failure| {
                    peer::reason(&failure)
                        .map_or_else(|| HandshakeError::Tls(failure), HandshakeError::Peer)
                })?;
                let chain = stream.get_ref().1.peer_certificates().unwrap_or(&[]);
                let peer = Peer::certified(chain, credentials.current().mapping())?;
                let held = match &peer.certificate {
                    Some(certificate) => {
                        let certificate = Arc::clone(certificate);
                        Held::on(stream, Leash::new(certificate, &credentials, SystemTime::now()))
                    }
                    None => Held::free(stream),
                };
                let info = ConnectInfo { peer, remote };
                Ok((ServerStream::Tls(Box::new(held)), info))
            }
            Self::OneSided(acceptor, cluster) => {
                let stream = acceptor.accept(stream).await.map_err(HandshakeError::Tls)?;
                let info = ConnectInfo { peer: Peer::stranger(cluster), remote };
                Ok((ServerStream::Tls(Box::new(Held::free(stream))), info))
            }
            Self::Plain { exposure: Exposure::Loopback, .. } if !is_loopback(remote) => {
                Err(HandshakeError::Elsewhere)
            }
            Self::Plain { cluster, .. } => {
                let info = ConnectInfo { peer: Peer::anonymous(cluster), remote };
                Ok((ServerStream::Plain(stream), info))
            }
        }
    }
}

/// A connection and who is at its other end.
#[derive(Debug)]
pub struct Connection {
    stream: ServerStream,
    info: ConnectInfo,
    /// What ends it early; one inside another ends with that.
    end: Option<End>,
}

impl Connection {
    /// A connection inside another one whose other end is known already.
    pub fn inside(stream: DuplexStream, info: ConnectInfo) -> Self {
        Self { stream: ServerStream::Inside(stream), info, end: None }
    }
}

impl Connected for Connection {
    type ConnectInfo = ConnectInfo;

    fn connect_info(&self) -> ConnectInfo {
        self.info.clone()
    }
}

#[derive(Debug)]
enum ServerStream {
    Plain(TcpStream),
    Tls(Box<Held<TlsStream<TcpStream>>>),
    Inside(DuplexStream),
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, end, .. } = self.get_mut();
        let read = match stream {
            ServerStream::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            ServerStream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
            ServerStream::Inside(stream) => Pin::new(stream).poll_read(cx, buffer),
        };
        // The reader is always waiting; who writes needs not to be woken as well.
        match end {
            Some(end) if read.is_pending() => end.wait(cx)?,
            Some(end) => end.check()?,
            None => {}
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            ServerStream::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            ServerStream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            ServerStream::Inside(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            ServerStream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            ServerStream::Tls(stream) => Pin::new(stream).poll_flush(cx),
            ServerStream::Inside(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            ServerStream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            ServerStream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            ServerStream::Inside(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}
