//! The way to the scheduler.
//!
//! - [`grpc`]: over the wire, to whichever of several leads.
//! - `stream`: the way back, for an agent that nobody can call.
//! - [`messages`]: a shorter way for beats and orders, while it lasts; `gathered`, what goes up on it.
//! - `cause`: why one did not answer, for the log.
//! - [`alone`]: none at all; the node is commanded directly.

pub mod alone;
mod cause;
mod gathered;
pub mod grpc;
mod lease;
pub mod messages;
mod mode;
pub(crate) mod stream;

use std::convert::Infallible;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use persys_identity::{Connection, Incoming, Peer};
use persys_model::id::NodeId;
use persys_model::link::{Beat, BeatAnswer, Registration, RegistrationAnswer};
use tokio::task::JoinSet;

pub use self::mode::ToldMode;
use crate::handle::Handle;

/// Reaches whichever scheduler leads.
#[async_trait::async_trait]
pub trait Scheduler: Send + Sync {
    /// Begins a life.
    async fn register(&self, registration: Registration)
    -> Result<RegistrationAnswer, Unreachable>;

    /// Goes on with it.
    async fn beat(&self, beat: Beat) -> Result<BeatAnswer, Unreachable>;
}

/// No scheduler answered, or none leads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no scheduler answers: {0}")]
pub struct Unreachable(pub String);

/// Those who call: at the address it listens at, or over the stream it opens. One that listens takes
/// its orders from a stream too, unless it has no schedulers.
pub(crate) fn reached(
    incoming: Option<Incoming>,
    (grpc, talks): (Arc<grpc::Grpc>, Option<Handle>),
    (node, caller): (NodeId, Peer),
    beside: &mut JoinSet<()>,
) -> BoxStream<'static, Result<Connection, Infallible>> {
    let Some(incoming) = incoming else {
        return stream::keep(grpc, node, caller, beside).boxed();
    };
    // Without a certificate a stream does not say whose it is.
    if let Some(handle) = talks.filter(|_| grpc.renewals().is_some()) {
        beside.spawn(messages::keep(grpc, handle));
    }
    incoming.boxed()
}
