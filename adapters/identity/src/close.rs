//! All connections of a listener ended at once, whatever is under way on them.
//!
//! A server that stops asks its callers to let go, and most do within milliseconds. One that stands
//! still, or does not read, would be waited for until its connection is found to be dead. Whoever has
//! the [`Closer`] of a listener waits as long as seems right, and then no longer.

use std::io;
use std::task::{Context, Poll, Waker};

use tokio::sync::watch;
use tokio_util::sync::ReusableBoxFuture;

/// Ends the connections of one listener.
#[derive(Debug, Clone)]
pub struct Closer(watch::Sender<bool>);

impl Closer {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Ends all that were ever given out, and those that will be. Again does nothing more.
    pub fn close(&self) {
        self.0.send_replace(true);
    }

    /// What one connection is told by.
    pub(crate) fn end(&self) -> End {
        let told = self.0.subscribe();
        End { change: ReusableBoxFuture::new(closed(told.clone())), told, wakes: None }
    }
}

async fn closed(mut told: watch::Receiver<bool>) {
    if told.wait_for(|closed| *closed).await.is_err() {
        // Nobody can end it any more.
        std::future::pending::<()>().await;
    }
}

/// The end of one connection.
pub(crate) struct End {
    told: watch::Receiver<bool>,
    change: ReusableBoxFuture<'static, ()>,
    /// Who is woken by it. A busy connection waits thousands of times a second, nearly always by the
    /// same task, which need not be noted again.
    wakes: Option<Waker>,
}

impl End {
    /// Whether the connection may go on.
    pub(crate) fn check(&self) -> io::Result<()> {
        // An error means that nobody can end it any more. What has changed has changed to the end.
        match self.told.has_changed() {
            Ok(true) => Err(over()),
            Ok(false) | Err(_) => Ok(()),
        }
    }

    /// Whether it may go on waiting; wakes the task when that changes.
    pub(crate) fn wait(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        self.check()?;
        if self.wakes.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            return Ok(());
        }
        self.wakes = Some(cx.waker().clone());
        match self.change.poll(cx) {
            Poll::Ready(()) => Err(over()),
            Poll::Pending => Ok(()),
        }
    }
}

impl std::fmt::Debug for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("End").field("told", &self.told).finish_non_exhaustive()
    }
}

fn over() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the server stops")
}
