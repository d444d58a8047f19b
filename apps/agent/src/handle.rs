//! How everybody else talks to the driver.

use std::sync::Arc;
use std::time::Duration;

use persys_model::command::{Answer, Command};
use persys_model::id::WorkloadId;
use persys_model::node::NodeFacts;
use persys_model::task::WorkloadTask;
use persys_model::token::Epoch;
use persys_node::agent::Agent;
use persys_node::input::Used;
use persys_node::settings::AgentSettings;
use persys_telemetry::trace::{self, Trail, Trails};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::history::{Action, ActionKind, History};
use crate::metrics::Metrics;

/// How long a caller waits for an answer that needs the disk or a runtime.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks at the agent from inside the driver.
type Reader = Box<dyn FnOnce(&Agent, &History) + Send>;

/// What goes to the driver.
pub(crate) enum Inbox {
    Command(Box<Command>, oneshot::Sender<Obeyed>),
    Read(Reader),
    /// An order was taken for which an action is to be shown at once.
    Queue((WorkloadId, Epoch, ActionKind), oneshot::Sender<Action>),
    /// The action with this number will not begin, because of this.
    Unqueue(u64, String),
    /// A runtime says that something changed.
    Wake(Option<WorkloadId>),
    /// What the machine uses.
    Usage(Used),
    /// Bytes containers of a workload wrote into layers of their own, and how many they may.
    Wrote(WorkloadId, u64, u64),
    /// The machine is not what it was.
    BeginAnew(Box<Life>),
    /// The driver is to end.
    Stop,
}

/// What one life of an agent begins with.
pub(crate) struct Life {
    pub(crate) facts: NodeFacts,
    pub(crate) settings: AgentSettings,
}

/// An answer to an order, with the action that was begun or finished for it, if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obeyed {
    /// The answer.
    pub answer: Answer,
    /// The action.
    pub task: Option<WorkloadTask>,
}

/// A way to the driver; cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(crate) inbox: mpsc::Sender<Inbox>,
    pub(crate) trails: Arc<Trails>,
    pub(crate) metrics: Arc<Metrics>,
}

/// The agent did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// Not in time: the order may be carried out later, and giving it again is safe.
    #[error("no answer in time; giving the order again is safe")]
    TimedOut,
    /// The agent is shutting down.
    #[error("the agent is stopping")]
    Stopping,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl Handle {
    /// Writes spans down where `home` does. It is said once, before there is anything to write.
    pub fn settle(&self, home: &Trail) {
        self.trails.settle(home);
    }

    /// Where spans of this process begin.
    pub(crate) fn home(&self) -> Trail {
        self.trails.home()
    }

    /// Gives an order.
    pub async fn command(&self, command: Command) -> Result<Answer, Unanswered> {
        self.order(command).await.map(|obeyed| obeyed.answer)
    }

    /// Gives an order; tells which action was begun for it, too.
    pub async fn order(&self, command: Command) -> Result<Obeyed, Unanswered> {
        // What is done about it later belongs to the trace of the order.
        self.trails.keep(&command.workload, trace::current());
        self.call(|to| Inbox::Command(Box::new(command), to)).await
    }

    /// Has an action shown for an order that is about to be given; its first verb is that action.
    pub(crate) async fn queue(
        &self,
        workload: WorkloadId,
        epoch: Epoch,
        kind: ActionKind,
    ) -> Result<Action, Unanswered> {
        self.call(|to| Inbox::Queue((workload, epoch, kind), to)).await
    }

    /// Ends an action whose order was refused.
    pub(crate) async fn unqueue(&self, action: u64, why: String) {
        // One that is gone shows nothing.
        drop(self.inbox.send(Inbox::Unqueue(action, why)).await);
    }

    /// Looks at the agent.
    pub async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Agent, &History) -> T + Send + 'static,
    ) -> Result<T, Unanswered> {
        self.call(|to: oneshot::Sender<T>| {
            Inbox::Read(Box::new(move |agent, history| drop(to.send(look(agent, history)))))
        })
        .await
    }

    /// Has the agent look at its runtimes soon, because of this workload or anything at all. More
    /// wake-ups than it can take are one.
    pub fn wake(&self, workload: Option<WorkloadId>) {
        drop(self.inbox.try_send(Inbox::Wake(workload)));
    }

    /// Tells what the machine uses. When the agent is busy this one is left out.
    pub fn usage(&self, used: Used) {
        drop(self.inbox.try_send(Inbox::Usage(used)));
    }

    /// Tells what containers of a workload have written into layers of their own. When the agent is busy
    /// this one is left out.
    pub fn wrote(&self, workload: WorkloadId, bytes: u64, limit: u64) {
        drop(self.inbox.try_send(Inbox::Wrote(workload, bytes, limit)));
    }

    /// Begins a new life of the agent with other facts, as a restart would. `facts.incarnation` is
    /// unique to it.
    pub async fn begin_anew(&self, facts: NodeFacts, settings: AgentSettings) {
        // One that is gone begins nothing.
        drop(self.inbox.send(Inbox::BeginAnew(Box::new(Life { facts, settings }))).await);
    }

    /// Has the driver end. What runs on the node goes on.
    pub async fn stop(&self) {
        // One that is gone has ended already.
        drop(self.inbox.send(Inbox::Stop).await);
    }

    async fn call<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<T>) -> Inbox,
    ) -> Result<T, Unanswered> {
        let (to, answer) = oneshot::channel();
        if self.inbox.send(message(to)).await.is_err() {
            return Err(Unanswered::Stopping);
        }
        match timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(Unanswered::Stopping),
            Err(_) => Err(Unanswered::TimedOut),
        }
    }
}
