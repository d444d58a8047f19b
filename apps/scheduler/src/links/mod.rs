//! The way to the agents: they are called, or keep a stream open and are reached over that.

pub mod grpc;
pub(crate) mod messages;
pub(crate) mod obeyed;
pub(crate) mod streams;
pub(crate) mod tunnel;

use persys_cluster::input::Probe;
use persys_model::command::{Answer, Command};
use persys_model::id::NodeId;

/// Reaches agents. An order that cannot be delivered is an error; whether it arrived may be
/// unknown, and the core sends it again.
#[async_trait::async_trait]
pub trait Links: Send + Sync {
    /// Gives one order and waits for its answer. Orders for one node are given one after another,
    /// in the order of the calls; different nodes do not wait for each other.
    async fn order(
        &self,
        node: &NodeId,
        endpoint: &str,
        command: Command,
    ) -> Result<Answer, Unreachable>;

    /// Asks whether a silent node lives.
    async fn probe(&self, node: &NodeId, endpoint: &str) -> Probe;
}

/// An agent did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the agent does not answer: {0}")]
pub struct Unreachable(pub String);
