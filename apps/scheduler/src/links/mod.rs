//! The way to the agents: they are called, or keep a stream open and are reached over that.

pub(crate) mod contract;
pub mod grpc;
pub(crate) mod messages;
pub(crate) mod streams;
pub(crate) mod tunnel;

use std::sync::Arc;

use persys_cluster::contract::OrderContext;
use persys_cluster::input::Probe;
use persys_model::command::{Answer, Command};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::task::Task;

/// One agent, as it was when something was to be sent to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its node.
    pub node: NodeId,
    /// Where it listens.
    pub endpoint: Arc<str>,
    /// The machine it is on; tells old agents from ours.
    pub host: Arc<str>,
    /// What a contract agent's order needs beside itself.
    pub context: Option<Arc<OrderContext>>,
}

/// Reaches agents. An order that cannot be delivered is an error; whether it arrived may be
/// unknown, and the core sends it again.
#[async_trait::async_trait]
pub trait Links: Send + Sync {
    /// Gives one order and waits for its answer. Orders about one workload are given one after
    /// another, in the order of the calls; others do not wait for each other.
    async fn order(&self, to: &Target, command: Command) -> Result<OrderAnswer, Unreachable>;

    /// Asks an agent for its last actions about a workload, newest first, one line each.
    async fn actions(&self, of: &Target, workload: &WorkloadId) -> Result<String, Unreachable>;

    /// Asks whether a silent node lives.
    async fn probe(&self, of: &Target) -> Probe;
}

/// An agent's answer to an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderAnswer {
    /// The answer.
    pub answer: Answer,
    /// The action the agent began or finished for the order, where it names one.
    pub task: Option<Arc<Task>>,
}

impl From<Answer> for OrderAnswer {
    fn from(answer: Answer) -> Self {
        Self { answer, task: None }
    }
}

/// An agent did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the agent does not answer: {why}")]
pub struct Unreachable {
    /// The cause, as people read it.
    pub why: String,
    /// False only if the message surely never left this process.
    pub may_have_arrived: bool,
}

impl Unreachable {
    /// A message whose fate is unknown.
    pub fn unknown(why: impl std::fmt::Display) -> Self {
        Self { why: why.to_string(), may_have_arrived: true }
    }

    /// A message that was never sent.
    pub fn never_sent(why: impl std::fmt::Display) -> Self {
        Self { why: why.to_string(), may_have_arrived: false }
    }
}
