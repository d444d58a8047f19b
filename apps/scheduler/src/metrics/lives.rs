//! What happens to workloads and nodes, from the events that are published: each is durable already.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use persys_cluster::world::World;
use persys_metrics::{Counters, Families, Histogram, WORK};
use persys_model::event::{Event, Happening};
use persys_model::failure::FailureReason;
use persys_model::id::WorkloadId;
use persys_model::node::Condition;
use persys_model::phase::Phase;
use persys_model::time::WallMillis;

/// What is counted of lives.
#[derive(Debug)]
pub(crate) struct Lives {
    placed: Histogram,
    started: Histogram,
    failures: Counters<1>,
    conditions: Counters<1>,
    events: Counters<1>,
    /// Those that are pending or starting, and since when. The driver alone changes it, so nobody
    /// ever waits for it.
    under_way: Mutex<BTreeMap<WorkloadId, (Phase, WallMillis)>>,
}

const KINDS: [&str; 11] = [
    "workload",
    "workload_delayed",
    "node_trouble",
    "node_registered",
    "node_condition",
    "node_changed",
    "mass_failure_brake",
    "drift",
    "volume",
    "asked",
    "mode_changed",
];

impl Lives {
    pub(super) fn new(families: &mut Families) -> Self {
        let failures = families.counters(
            "workload_failures_total",
            "Attempts to run a workload that failed, and restarts by its node, by why",
            ["reason"],
        );
        let conditions = families.counters(
            "node_conditions_total",
            "Changes of nodes: they become ready, their lease runs out, or they are lost",
            ["to"],
        );
        let events =
            families.counters("events_total", "Events that were published, by kind", ["kind"]);
        Self {
            placed: families.histogram(
                "placement_duration_seconds",
                "How long workloads waited from being accepted, or moved, until a node was chosen",
                WORK,
            ),
            started: families.histogram(
                "workload_start_duration_seconds",
                "How long it took from the choice of a node until the workload ran there",
                WORK,
            ),
            failures: failures.preset(FailureReason::ALL.map(|reason| [reason.code()])),
            conditions: conditions.preset([["ready"], ["notready"], ["lost"]]),
            events: events.preset(KINDS.map(|kind| [kind])),
            under_way: Mutex::default(),
        }
    }

    /// Something happened, in a world that knows of it.
    pub(crate) fn happened(&self, event: &Event, world: Option<&World>) {
        self.events.inc([kind(&event.what)]);
        match &event.what {
            Happening::Workload { id, from, to, .. } => {
                self.went_on(id, *from, *to, event.at);
                if matches!(to, Some(Phase::Backoff | Phase::Failed | Phase::Restarting))
                    && let Some(failure) = world
                        .and_then(|world| world.workload(id))
                        .and_then(|view| view.assignment.reason.failure.as_ref())
                {
                    self.failures.inc([failure.reason.code()]);
                }
            }
            Happening::NodeCondition { to, .. } => self.conditions.inc([condition_word(*to)]),
            Happening::NodeRegistered { .. }
            | Happening::NodeTrouble { .. }
            | Happening::WorkloadDelayed { .. }
            | Happening::SecretChanged { .. }
            | Happening::Health { .. }
            | Happening::NodeChanged { .. }
            | Happening::MassFailureBrake { .. }
            | Happening::Drift { .. }
            | Happening::Volume { .. }
            | Happening::Asked { .. }
            | Happening::Shadow { .. }
            | Happening::ModeChanged { .. } => {}
        }
    }

    /// Only what this process has seen from its beginning is measured.
    fn went_on(&self, id: &WorkloadId, from: Option<Phase>, to: Option<Phase>, at: WallMillis) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let since = under_way.get(id).filter(|(phase, _)| Some(*phase) == from);
        let seconds = since.map(|(_, since)| seconds_between(*since, at));
        match (from, to, seconds) {
            (Some(Phase::Pending), Some(Phase::Starting), Some(waited)) => {
                self.placed.observe(waited);
            }
            (Some(Phase::Starting), Some(Phase::Running), Some(took)) => self.started.observe(took),
            // One that is placed at once is never seen waiting.
            (None, Some(Phase::Starting), _) => self.placed.observe(0.0),
            _ => {}
        }
        match to {
            Some(phase @ (Phase::Pending | Phase::Starting)) if from == Some(phase) => {}
            Some(phase @ (Phase::Pending | Phase::Starting)) => {
                under_way.insert(id.clone(), (phase, at));
            }
            Some(_) | None => {
                under_way.remove(id);
            }
        }
    }

    /// This process leads no more: what goes on without it is not known.
    pub(crate) fn forget(&self) {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn seconds_between(since: WallMillis, at: WallMillis) -> f64 {
    std::time::Duration::from_millis(at.0.saturating_sub(since.0)).as_secs_f64()
}

pub(super) fn condition_word(condition: Condition) -> &'static str {
    match condition {
        Condition::Ready => "ready",
        Condition::NotReady => "notready",
        Condition::Lost => "lost",
    }
}

fn kind(what: &Happening) -> &'static str {
    match what {
        Happening::Workload { .. } => "workload",
        Happening::WorkloadDelayed { .. } => "workload_delayed",
        Happening::SecretChanged { .. } => "secret_changed",
        Happening::Health { .. } => "health",
        Happening::NodeTrouble { .. } => "node_trouble",
        Happening::NodeRegistered { .. } => "node_registered",
        Happening::NodeCondition { .. } => "node_condition",
        Happening::NodeChanged { .. } => "node_changed",
        Happening::MassFailureBrake { .. } => "mass_failure_brake",
        Happening::Drift { .. } => "drift",
        Happening::Volume { .. } => "volume",
        Happening::Asked { .. } => "asked",
        Happening::Shadow { .. } => "shadow",
        Happening::ModeChanged { .. } => "mode_changed",
    }
}
