//! A connection inside a `ControlStream`: its bytes ride in `tunnel` messages.
//!
//! ```text
//!   HTTP/2 client ◄──► pipe ◄──► carry ◄── ControlStream ──► carry ◄──► pipe ◄──► HTTP/2 server
//!   (the scheduler)                    (the agent opened it)                      (the agent)
//! ```
//!
//! Every queue on the way is bounded, so that whoever reads slowly slows the writer down and nobody
//! else. A tunnel is one connection: when either end of it is gone, so is the stream.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use crate::control::v1::ControlMessage;
use crate::control::v1::control_message::Message;

/// The header by which the opener of a stream says that it is a tunnel, and to which node.
pub const NODE_HEADER: &str = "persys-tunnel-node";
/// Messages on their way in one direction.
pub const MESSAGES: usize = 4;

/// Bytes sent in one message.
const CHUNK: usize = 16 * 1024;
/// Most bytes taken in one message.
const LARGEST_CHUNK: usize = 64 * 1024;
/// Bytes that wait inside the pipe, each way.
const PIPE: usize = 64 * 1024;

/// Two ends: one for the connection, one for [`carry`].
#[must_use]
pub fn pipe() -> (DuplexStream, DuplexStream) {
    tokio::io::duplex(PIPE)
}

/// Carries bytes between a pipe and a stream until one of them ends, and says why.
pub async fn carry<T: Send>(
    pipe: DuplexStream,
    mut from: Streaming<ControlMessage>,
    to: mpsc::Sender<T>,
    wrap: impl Fn(ControlMessage) -> T,
) -> Status {
    let (mut read, mut write) = tokio::io::split(pipe);
    let over = || Status::unavailable("the connection inside the stream has ended");
    let inward = async {
        loop {
            let bytes = match from.message().await {
                Ok(Some(ControlMessage { message: Some(Message::Tunnel(bytes)) })) => bytes,
                // Something of a later version.
                Ok(Some(ControlMessage { message: None })) => continue,
                Ok(Some(ControlMessage { message: Some(_) })) => {
                    return Status::invalid_argument("a tunnel carries nothing else");
                }
                Ok(None) => return Status::unavailable("the stream was closed"),
                Err(status) => return status,
            };
            if bytes.len() > LARGEST_CHUNK {
                let why = format!("more than {LARGEST_CHUNK} bytes in one message of a tunnel");
                return Status::resource_exhausted(why);
            }
            if write.write_all(&bytes).await.is_err() {
                return over();
            }
        }
    };
    let outward = async {
        loop {
            let mut bytes = Vec::with_capacity(CHUNK);
            match read.read_buf(&mut bytes).await {
                Ok(0) | Err(_) => return over(),
                Ok(_) => {}
            }
            let message = ControlMessage { message: Some(Message::Tunnel(bytes)) };
            if to.send(wrap(message)).await.is_err() {
                return Status::unavailable("the stream was closed");
            }
        }
    };
    tokio::select! {
        why = inward => why,
        why = outward => why,
    }
}
