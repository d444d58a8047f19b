//! What becomes of what was asked: spans from the request to the state it led to, and one line in
//! the log for each order once it is known how it ended.
//!
//! ```text
//!   ask ──► "commit" ──► order ──► "dispatch" ──► the agent … ──► event: Running ──► "settle", a line
//! ```
//!
//! All of it is kept in this process alone, within limits, and nothing depends on it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use persys_cluster::input::Ask;
use persys_model::command::{Answer, Command, Order};
use persys_model::event::{Event, Happening};
use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::phase::Phase;
use persys_model::task::Task;
use persys_model::time::WallMillis;
use persys_model::token::Epoch;
use persys_telemetry::trace::{self, Kind, Span, Trails};
use tokio::sync::broadcast::{Receiver, error::RecvError};

use crate::announce::Nodes;
use crate::handle::Handle;
use crate::links::{OrderAnswer, Target, Unreachable};
use crate::moment::rfc3339;

/// Orders whose end is waited for; of more than that the end is told without what was ordered.
const MOST_ORDERS: usize = 32 * 1024;
/// How long an order is remembered whose end nobody tells.
const LONGEST: Duration = Duration::from_mins(15);

/// What is under way.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    trails: Trails,
    ordered: Mutex<HashMap<WorkloadId, Ordered>>,
}

/// An order that was given.
#[derive(Debug, Clone)]
struct Ordered {
    node: NodeId,
    epoch: Epoch,
    /// The version that is to be there; none where nothing is.
    revision: Option<RevisionId>,
    desired: &'static str,
    at: Instant,
    /// When the agent was first asked.
    requested: WallMillis,
    /// The action the agent named in its answer.
    task: Option<Arc<Task>>,
}

impl Operations {
    /// Somebody asks: what follows from it belongs to their trace.
    pub(crate) fn asked(&self, ask: &Ask) -> Span {
        let trail = trace::current();
        if !trail.is_on() {
            return Span::default();
        }
        let (verb, workload, node) = ask.summary();
        if let Some(workload) = workload {
            self.trails.keep(workload, trail.clone());
        }
        let mut span = trail.begin("commit", Kind::Internal);
        span.set("persys.ask", verb);
        if let Some(workload) = workload {
            span.set("persys.workload", workload.as_str());
        }
        if let Some(node) = node {
            span.set("persys.node", node.as_str());
        }
        span
    }

    /// An order is given.
    pub(crate) fn dispatched(&self, to: &Target, command: &Command) -> Span {
        let (revision, desired) = match &command.order {
            Order::Apply(apply) if apply.run => (Some(&apply.revision), "Running"),
            Order::Apply(apply) => (Some(&apply.revision), "Stopped"),
            Order::Remove { .. } => (None, "Deleted"),
        };
        if tracing::enabled!(tracing::Level::INFO) {
            let (node, revision) = (to.node.clone(), revision.cloned());
            let (epoch, at, requested) = (command.epoch, Instant::now(), today());
            let ordered = Ordered { node, epoch, revision, desired, at, requested, task: None };
            self.remember(&command.workload, ordered);
        }
        let mut span = self.trails.of(&command.workload).begin("dispatch", Kind::Client);
        if span.is_recorded() {
            span.set("persys.node", to.node.as_str());
            span.set("persys.workload", command.workload.as_str());
            span.set("persys.desired", desired);
            span.set("persys.epoch", i64::try_from(command.epoch.0).unwrap_or(i64::MAX));
            if let Some(revision) = revision {
                span.set("persys.revision", revision.as_str());
            }
        }
        span
    }

    fn remember(&self, workload: &WorkloadId, ordered: Ordered) {
        let mut all = self.ordered();
        let is_same = |known: &Ordered| known.epoch == ordered.epoch && known.node == ordered.node;
        if all.get(workload).is_some_and(is_same) {
            // The same order is sent again: it counts from the first time.
            return;
        }
        if all.len() >= MOST_ORDERS {
            all.retain(|_, ordered| ordered.at.elapsed() < LONGEST);
        }
        if all.len() < MOST_ORDERS || all.contains_key(workload) {
            all.insert(workload.clone(), ordered);
        }
    }

    /// Follows an event: a change of phase may be the end of an operation.
    fn happened(&self, event: &Event) {
        let Happening::Workload { id, to, message, .. } = &event.what else { return };
        let Some((state, went)) = end_of(*to) else { return };
        if went != Went::On
            && let Some((trail, since)) = self.trails.reached(id)
        {
            let began = SystemTime::now().checked_sub(since);
            let mut span = trail.begin_at("settle", Kind::Internal, began);
            span.set("persys.workload", id.as_str());
            span.set("persys.state", state);
            if went == Went::Badly {
                span.fail(message);
            }
        }
        let ordered = self.ordered().remove(id);
        if ordered.is_none() && went == Went::Well {
            // Nobody ordered this: an agent started again what had ended.
            return;
        }
        log_end(&event.what, (state, went), ordered.as_ref());
    }

    /// An agent answered an order, or did not.
    pub(crate) fn answered(
        &self,
        span: &mut Span,
        to: &Target,
        order: (&WorkloadId, Epoch),
        answer: &Answered,
    ) {
        let (node, workload, epoch) = (to.node.as_str(), order.0.as_str(), order.1.0);
        let given = match answer {
            Ok(given) => given,
            Err(error) => {
                span.fail(error);
                tracing::debug!(node, workload, epoch, %error, "an order was not answered");
                return;
            }
        };
        if let Some(task) = &given.task {
            span.set("persys.task", &*task.id);
            if let Some(ordered) = self.ordered().get_mut(order.0)
                && ordered.epoch == order.1
            {
                ordered.task = Some(Arc::clone(task));
            }
        }
        match &given.answer {
            Answer::Accepted => span.set("persys.answer", "accepted"),
            Answer::Removed { .. } => span.set("persys.answer", "removed"),
            Answer::Refused(why) => {
                let why = format!("{why:?}");
                span.fail(&why);
                tracing::debug!(node, workload, epoch, why, "an order was refused");
            }
        }
    }

    fn ordered(&self) -> MutexGuard<'_, HashMap<WorkloadId, Ordered>> {
        // A map is never half changed.
        self.ordered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the line about an operation that has ended.
fn log_end(what: &Happening, (state, went): (&str, Went), ordered: Option<&Ordered>) {
    let Happening::Workload { id, code, message, node, epoch, revision, task, .. } = what else {
        return;
    };
    let node = node.as_ref().or(ordered.map(|ordered| &ordered.node)).map(NodeId::as_str);
    let epoch = epoch.or(ordered.map(|ordered| ordered.epoch)).map(|epoch| epoch.0);
    let revision = ordered.and_then(|ordered| ordered.revision.as_ref()).or(revision.as_ref());
    let revision = revision.map(RevisionId::as_str);
    let desired = ordered.map(|ordered| ordered.desired);
    let requested_at = ordered.map(|ordered| rfc3339(ordered.requested));
    let ms = ordered.map(|one| u64::try_from(one.at.elapsed().as_millis()).unwrap_or(u64::MAX));
    let named = task.as_ref().or(ordered.and_then(|ordered| ordered.task.as_ref()));
    let task = named.map(|task| &*task.id);
    let action = named.map(|task| task.action.word());
    let workload = id.as_str();
    if went == Went::Well {
        tracing::info!(
            node,
            workload,
            revision,
            desired,
            epoch,
            requested_at,
            task,
            action,
            state,
            ms,
            "operation"
        );
        return;
    }
    let (reason, error) = (code.word(), &**message);
    let task_error = named.and_then(|task| task.error.as_deref());
    tracing::warn!(
        node,
        workload,
        revision,
        desired,
        epoch,
        requested_at,
        task,
        action,
        task_error,
        state,
        reason,
        error,
        ms,
        "operation"
    );
}

fn today() -> WallMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// What comes of an order.
pub(crate) type Answered = Result<OrderAnswer, Unreachable>;

/// How an operation went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Went {
    Well,
    Badly,
    /// It is tried again.
    On,
}

/// The end of an operation, if this phase is one.
fn end_of(phase: Option<Phase>) -> Option<(&'static str, Went)> {
    let Some(phase) = phase else { return Some(("Deleted", Went::Well)) };
    let went = match phase {
        Phase::Running | Phase::Paused | Phase::Stopped | Phase::Completed => Went::Well,
        Phase::Failed => Went::Badly,
        Phase::Backoff => Went::On,
        Phase::Pending
        | Phase::Starting
        | Phase::Unresponsive
        | Phase::Restarting
        | Phase::Stopping
        | Phase::Deleting => return None,
    };
    Some((phase.word(), went))
}

/// Tells of what is done, for as long as anything is. Spans are written down where those of whoever
/// starts this are.
pub(crate) fn told(handle: &Handle) -> impl Future<Output = ()> + Send + 'static {
    handle.operations.trails.settle(&trace::current());
    follow(Arc::clone(&handle.operations), handle.events())
}

/// Follows events for as long as there are any.
async fn follow(operations: Arc<Operations>, mut events: Receiver<Arc<Event>>) {
    let mut nodes = Nodes::default();
    loop {
        match events.recv().await {
            Ok(event) => {
                nodes.log(&event);
                operations.happened(&event);
            }
            // What was missed is missing in the log; the store has it.
            Err(RecvError::Lagged(missed)) => {
                tracing::debug!(missed, "events came faster than they were told");
            }
            Err(RecvError::Closed) => return,
        }
    }
}
