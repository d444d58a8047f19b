//! The way to the scheduler.
//!
//! - [`grpc`]: over the wire, to whichever of several leads.
//! - `stream`: the way back, for an agent that nobody can call.
//! - [`messages`]: a shorter way for beats and orders, while it lasts.
//! - [`alone`]: none at all; the node is commanded directly.

pub mod alone;
pub mod grpc;
pub mod messages;
pub(crate) mod stream;

use persys_model::link::{Beat, BeatAnswer, Registration, RegistrationAnswer};

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
