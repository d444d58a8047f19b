//! What is counted, as Prometheus reads it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use persys_cluster::world::World;
use persys_model::phase::Phase;
use persys_model::workload::Desired;
use tonic::Code;

/// Counters of this process. All labels come from closed sets, so that nobody outside can grow it.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    served: Counter,
    called: Counter,
    stored: Stored,
}

/// What went into the store.
#[derive(Debug, Default)]
struct Stored {
    transactions: AtomicU64,
    records: AtomicU64,
    events: AtomicU64,
}

type Counter = Mutex<BTreeMap<(&'static str, &'static str), u64>>;

impl Metrics {
    /// A request was answered.
    pub(crate) fn served(&self, method: &'static str, code: Code) {
        count(&self.served, method, code);
    }

    /// A call to an agent came back.
    pub(crate) fn called(&self, rpc: &'static str, code: Code) {
        count(&self.called, rpc, code);
    }

    /// A transaction with so many changes is durable.
    pub(crate) fn committed(&self, records: usize, events: usize) {
        let add = |to: &AtomicU64, more: usize| {
            to.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
        };
        add(&self.stored.transactions, 1);
        add(&self.stored.records, records);
        add(&self.stored.events, events);
    }

    /// Everything, as text. `looks` says how often it was looked what is due.
    pub(crate) fn text(&self, gauges: &Gauges, looks: u64) -> String {
        let mut text = String::new();
        total(&mut text, "reconciliation_cycles_total", looks);
        counter(&mut text, "grpc_server_requests_total", "method", &self.served);
        counter(&mut text, "agent_rpc_requests_total", "rpc", &self.called);
        total(&mut text, "store_transactions_total", read(&self.stored.transactions));
        total(&mut text, "store_records_written_total", read(&self.stored.records));
        total(&mut text, "store_events_written_total", read(&self.stored.events));
        gauge(&mut text, "nodes_status", "status", &gauges.nodes);
        gauge(&mut text, "workloads_status", "status", &gauges.workloads);
        gauge(&mut text, "workloads_desired_state", "desired_state", &gauges.desired);
        text
    }
}

fn count(counter: &Counter, what: &'static str, code: Code) {
    let mut counts = counter.lock().unwrap_or_else(PoisonError::into_inner);
    let count = counts.entry((what, code_word(code))).or_default();
    *count = count.saturating_add(1);
}

/// How many there are of what.
#[derive(Debug, Clone)]
pub(crate) struct Gauges {
    nodes: BTreeMap<&'static str, u64>,
    workloads: BTreeMap<&'static str, u64>,
    desired: BTreeMap<&'static str, u64>,
}

impl Gauges {
    /// A cluster without anything. Dashboards expect these words to be there.
    pub(crate) fn none() -> Self {
        let zero = |words: &[&'static str]| words.iter().map(|word| (*word, 0)).collect();
        Self {
            nodes: zero(&["ready", "active", "notready", "unknown"]),
            workloads: zero(&[
                "pending", "running", "stopped", "failed", "deleted", "updating", "unknown",
            ]),
            desired: zero(&["running", "stopped", "deleted", "unknown"]),
        }
    }

    /// The cluster, counted.
    pub(crate) fn of(world: &World) -> Self {
        let mut gauges = Self::none();
        for view in world.nodes() {
            more(&mut gauges.nodes, node_word(view.node.status_word()));
        }
        for view in world.workloads() {
            more(&mut gauges.workloads, phase_word(view.assignment.phase));
            more(&mut gauges.desired, desired_word(view.workload.desired));
        }
        gauges
    }
}

fn more(counts: &mut BTreeMap<&'static str, u64>, word: &'static str) {
    let count = counts.entry(word).or_default();
    *count = count.saturating_add(1);
}

fn node_word(status: &str) -> &'static str {
    match status {
        "Ready" => "ready",
        "Draining" => "draining",
        _ => "notready",
    }
}

fn phase_word(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "pending",
        Phase::Starting => "scheduled",
        Phase::Running => "running",
        Phase::Restarting => "restarting",
        Phase::Stopping => "stopping",
        Phase::Stopped => "stopped",
        Phase::Completed => "completed",
        Phase::Backoff => "retrypending",
        Phase::Failed => "failed",
        Phase::Deleting => "deleting",
    }
}

fn desired_word(desired: Desired) -> &'static str {
    match desired {
        Desired::Running => "running",
        Desired::Stopped => "stopped",
        Desired::Deleted => "deleted",
    }
}

fn code_word(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

fn counter(text: &mut String, name: &str, label: &str, counter: &Counter) {
    line(text, format_args!("# TYPE persys_scheduler_{name} counter"));
    for ((what, code), count) in &*counter.lock().unwrap_or_else(PoisonError::into_inner) {
        let labels = format_args!("{label}=\"{what}\",code=\"{code}\"");
        line(text, format_args!("persys_scheduler_{name}{{{labels}}} {count}"));
    }
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

fn total(text: &mut String, name: &str, count: u64) {
    line(text, format_args!("# TYPE persys_scheduler_{name} counter"));
    line(text, format_args!("persys_scheduler_{name} {count}"));
}

fn gauge(text: &mut String, name: &str, label: &str, counts: &BTreeMap<&'static str, u64>) {
    line(text, format_args!("# TYPE persys_scheduler_{name} gauge"));
    for (word, count) in counts {
        line(text, format_args!("persys_scheduler_{name}{{{label}=\"{word}\"}} {count}"));
    }
}

fn line(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let written = writeln!(text, "{what}");
    debug_assert!(written.is_ok(), "writing to a text failed");
}
