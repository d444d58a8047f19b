//! What is told of each thing the agent does: spans on the trail of the order behind it, and one line
//! in the log when it has ended.

use std::borrow::Cow;
use std::time::Instant;

use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::inventory::State;
use persys_model::token::Epoch;
use persys_node::effects::{Run, Upward, Verb};
use persys_node::input::Input;
use persys_telemetry::trace::{self, Kind, Span, Trails};
use tonic::body::Body;
use tonic::codegen::http::Request;

use crate::history::Action;

/// How the span of a request is called: as its method. Probes have none.
pub(crate) fn span_of(request: &Request<Body>) -> Option<Cow<'_, str>> {
    let method = request.uri().path().strip_prefix('/')?;
    let ours =
        method.starts_with("persys.") && method != "persys.agent.v1.AgentService/HealthCheck";
    ours.then_some(Cow::Borrowed(method))
}

/// One verb on a runtime, from its beginning to its end.
#[derive(Debug)]
pub(crate) struct Operation {
    span: Span,
    node: NodeId,
    workload: WorkloadId,
    /// Its name among the actions of this agent, which the scheduler is told too.
    task: String,
    verb: &'static str,
    desired: &'static str,
    revision: Option<RevisionId>,
    epoch: Option<Epoch>,
    began: Instant,
}

impl Operation {
    pub(crate) fn begin(trails: &Trails, node: NodeId, run: &Run, action: &Action) -> Self {
        let (verb, desired, revision, epoch) = match &run.verb {
            Verb::Start { revision, epoch, .. } => {
                ("start", "Running", Some(revision.clone()), Some(*epoch))
            }
            Verb::Prepare { .. } => ("prepare", "Running", None, None),
            Verb::Refresh { .. } => ("signal", "Running", None, None),
            Verb::Pause => ("pause", "Paused", None, None),
            Verb::Stop { .. } => ("stop", "Stopped", None, None),
            Verb::Remove { .. } => ("remove", "Deleted", None, None),
        };
        let task = action.task_id();
        let mut span = trails.of(&run.workload).begin(verb, Kind::Internal);
        if span.is_recorded() {
            span.set("persys.node", node.as_str());
            span.set("persys.workload", run.workload.as_str());
            span.set("persys.task", task.as_str());
            if let Some(revision) = &revision {
                span.set("persys.revision", revision.as_str());
            }
        }
        let (workload, began) = (run.workload.clone(), Instant::now());
        Self { span, node, workload, task, verb, desired, revision, epoch, began }
    }

    /// Carries it out, and tells how it went.
    pub(crate) async fn carry_out(
        self,
        work: impl Future<Output = (Input, Result<(), String>)>,
    ) -> (Input, Result<(), String>) {
        let Self { mut span, node, workload, task, verb, desired, revision, epoch, began } = self;
        let (input, told) = trace::scope(span.trail().clone(), work).await;
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let node = node.as_str();
        let (workload, revision) = (workload.as_str(), revision.as_ref().map(RevisionId::as_str));
        let epoch = epoch.map(|epoch| epoch.0);
        match &told {
            Ok(()) => {
                let state = desired;
                tracing::info!(
                    node,
                    workload,
                    revision,
                    desired,
                    task,
                    epoch,
                    verb,
                    state,
                    ms,
                    "operation"
                );
            }
            Err(error) => {
                span.fail(error);
                let state = "Failed";
                tracing::warn!(
                    node,
                    workload,
                    revision,
                    desired,
                    task,
                    epoch,
                    verb,
                    state,
                    error,
                    ms,
                    "operation"
                );
            }
        }
        (input, told)
    }
}

/// A part of what is under way.
pub(crate) async fn part<T, E: std::fmt::Display>(
    name: &'static str,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let mut span = trace::current().begin(name, Kind::Client);
    let done = work.await;
    if let Err(error) = &done {
        span.fail(error);
    }
    done
}

/// The spans of a beat that tells how orders ended: one on the trail of each.
pub(crate) fn reporting(trails: &Trails, message: &Upward) -> Vec<Span> {
    let Upward::Beat(beat) = message else { return Vec::new() };
    if !trails.is_on() {
        return Vec::new();
    }
    let ends =
        beat.reports.iter().filter_map(|report| Some((&report.workload, end(&report.state)?)));
    let gone = beat.removed.iter().map(|tombstone| (&tombstone.workload, "Deleted"));
    let told = ends.chain(gone).filter_map(|(workload, state)| {
        let (trail, _) = trails.reached(workload)?;
        let mut span = trail.begin("report", Kind::Client);
        span.set("persys.workload", workload.as_str());
        span.set("persys.state", state);
        Some(span)
    });
    told.collect()
}

/// Whether a state is one that was ordered, or the end of trying.
fn end(state: &State) -> Option<&'static str> {
    match state {
        State::Running => Some("Running"),
        State::Paused => Some("Paused"),
        State::Stopped => Some("Stopped"),
        State::Completed => Some("Completed"),
        State::Failed(_) => Some("Failed"),
        State::Pending | State::Unresponsive | State::Restarting(_) | State::Unknown => None,
    }
}
