//! A connection that ends when its other end is no longer believed.
//!
//! TLS asks who somebody is once, at the beginning. This asks again whenever the list of the revoked
//! changes, and when the certificate that was shown has ended: a connection that lives for months must
//! not outlive what it was opened with. Whoever renews in time opens a new one before that.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::ReusableBoxFuture;

use crate::certificate::Certificate;
use crate::credentials::Credentials;
use crate::mapping::CertificateNames;

/// Furthest end that is waited for; nobody holds a connection that long.
const FURTHEST: Duration = Duration::from_hours(24 * 366);

/// Watches over one connection.
pub(crate) struct Leash {
    peer: Arc<Certificate>,
    credentials: Credentials,
    /// For which list and mapping the mapped identity was found to be the same; 0: not yet.
    mapped_at: u64,
    change: ReusableBoxFuture<'static, watch::Receiver<u64>>,
    end: Pin<Box<Sleep>>,
    /// Who is woken by both of these. A busy connection waits thousands of times a second, nearly
    /// always by the same task, and saying so again each time would cost more than the rest of this.
    wakes: Option<Waker>,
    /// Which list that was said about.
    version: u64,
    cut: bool,
}

impl Leash {
    pub(crate) fn new(peer: Arc<Certificate>, credentials: &Credentials, now: SystemTime) -> Self {
        let left = peer.not_after.duration_since(now).unwrap_or_default().min(FURTHEST);
        Self {
            peer,
            credentials: credentials.clone(),
            mapped_at: 0,
            change: ReusableBoxFuture::new(next(credentials.revoked().watch())),
            end: Box::pin(sleep_until(Instant::now() + left)),
            wakes: None,
            version: 0,
            cut: false,
        }
    }

    /// Whether it may go on.
    fn check(&mut self) -> io::Result<()> {
        self.cut = self.cut || self.credentials.revoked().has(&self.peer);
        if self.cut {
            let text = format!("{} was revoked", self.peer.identity);
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, text));
        }
        if let Some(names) = &self.peer.mapped {
            let version = self.credentials.revoked().version().saturating_add(1);
            if version != self.mapped_at {
                if !is_mapped(&self.credentials, names, &self.peer) {
                    let text = format!("{names} is no longer {}", self.peer.identity);
                    return Err(io::Error::new(io::ErrorKind::ConnectionAborted, text));
                }
                self.mapped_at = version;
            }
        }
        Ok(())
    }

    /// Whether it may go on waiting; wakes the task when that changes.
    fn wait(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let version = self.credentials.revoked().version();
        self.check()?;
        let known = self.wakes.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if known && version == self.version && Instant::now() < self.end.deadline() {
            return Ok(());
        }
        (self.wakes, self.version) = (Some(cx.waker().clone()), version);
        while let Poll::Ready(watch) = self.change.poll(cx) {
            self.change.set(next(watch));
            self.check()?;
        }
        if self.end.as_mut().poll(cx).is_ready() {
            let text = format!("the certificate of {} has ended", self.peer.identity);
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, text));
        }
        Ok(())
    }
}

/// True if the mapping in use still gives a certificate the identity it was let in with.
fn is_mapped(credentials: &Credentials, names: &CertificateNames, peer: &Certificate) -> bool {
    let bundle = credentials.current();
    bundle.mapping().is_some_and(|mapping| mapping.identity(names).as_ref() == Ok(&peer.identity))
}

async fn next(mut watch: watch::Receiver<u64>) -> watch::Receiver<u64> {
    if watch.changed().await.is_err() {
        // Nobody can change the list any more.
        std::future::pending::<()>().await;
    }
    watch
}

/// A stream on a leash.
pub struct Held<S> {
    stream: S,
    leash: Option<Leash>,
}

impl<S> Held<S> {
    /// Without anybody to watch for.
    pub(crate) fn free(stream: S) -> Self {
        Self { stream, leash: None }
    }

    pub(crate) fn on(stream: S, leash: Leash) -> Self {
        Self { stream, leash: Some(leash) }
    }
}

impl<S> std::fmt::Debug for Held<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("watched", &self.leash.is_some()).finish_non_exhaustive()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Held<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let held = self.get_mut();
        let read = Pin::new(&mut held.stream).poll_read(cx, buffer);
        match &mut held.leash {
            Some(leash) if read.is_pending() => leash.wait(cx)?,
            Some(leash) => leash.check()?,
            None => {}
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Held<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let held = self.get_mut();
        // The reader is always waiting and is woken; a writer only must not go on.
        if let Some(leash) = &mut held.leash {
            leash.check()?;
        }
        Pin::new(&mut held.stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
