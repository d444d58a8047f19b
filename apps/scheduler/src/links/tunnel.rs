//! A channel over the bytes of a stream, for everything that is asked of an agent.
//!
//! The channel gets its one connection when it is first used. When that is broken there is no
//! other: the stream has ended, and the agent opens a new one, with a new channel.

use std::future::{Ready, ready};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower_service::Service;

/// How long a quiet connection with a call under way is trusted.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// A channel whose connection is this pipe.
pub(crate) fn channel(pipe: DuplexStream) -> Channel {
    let endpoint = Endpoint::from_static("http://stream.invalid:1")
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE);
    endpoint.connect_with_connector_lazy(Once(Arc::new(Mutex::new(Some(pipe)))))
}

/// Hands the pipe out, once.
#[derive(Clone)]
struct Once(Arc<Mutex<Option<DuplexStream>>>);

impl Service<Uri> for Once {
    type Response = TokioIo<DuplexStream>;
    type Error = io::Error;
    type Future = Ready<Result<Self::Response, io::Error>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        let pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let gone = || io::Error::new(io::ErrorKind::NotConnected, "the agent's stream has ended");
        ready(pipe.map(TokioIo::new).ok_or_else(gone))
    }
}
