//! Pages for probes and dashboards: `/health` and `/metrics`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use persys_identity::Credentials;
use persys_identity::certificate::shown;
use persys_model::id::NodeId;
use persys_model::inventory::Held;
use persys_node::agent::{Agent, Collected};
use persys_proto::convert::report::word_of;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::handle::Handle;
use crate::history::{ActionKind, History, Tally};
use crate::host::{Load, Meter};
use crate::runtimes::Runtimes;

/// What the pages are made from.
#[derive(Debug, Clone)]
pub(crate) struct Pages {
    node: NodeId,
    handle: Handle,
    runtimes: Runtimes,
    meter: Arc<Meter>,
    credentials: Option<Credentials>,
}

impl Pages {
    /// Also tells how the certificate is.
    pub(crate) fn certified(self, credentials: Option<Credentials>) -> Self {
        Self { credentials, ..self }
    }

    pub(crate) fn new(
        node: &NodeId,
        handle: &Handle,
        runtimes: &Runtimes,
        meter: &Arc<Meter>,
    ) -> Self {
        let (node, handle) = (node.clone(), handle.clone());
        let (runtimes, meter) = (runtimes.clone(), Arc::clone(meter));
        Self { node, handle, runtimes, meter, credentials: None }
    }
}

/// Serves the pages beside the agent, if there is a place for them; says where.
pub(crate) fn open(
    listener: Option<TcpListener>,
    pages: Pages,
    beside: &mut JoinSet<()>,
) -> Option<SocketAddr> {
    let listener = listener?;
    let at = listener.local_addr().ok();
    beside.spawn(serve(listener, pages));
    at
}

async fn serve(listener: TcpListener, pages: Pages) {
    let router = Router::new()
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .with_state(pages);
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "pages are no longer served");
    }
}

/// How the agent is.
#[derive(Debug, Clone, Default)]
struct Standing {
    connected: bool,
    holding: bool,
    fence: bool,
    busy: Option<String>,
}

impl Standing {
    fn of(agent: &Agent) -> Self {
        Self {
            connected: agent.connected(),
            holding: agent.holding(),
            fence: agent.facts().fence,
            busy: agent.too_busy(),
        }
    }

    /// Whether new work is taken.
    fn takes(&self) -> bool {
        self.busy.is_none() && !self.holding
    }

    /// What keeps the agent from its job.
    fn faults(&self, runtimes: &BTreeMap<String, String>) -> Vec<&'static str> {
        let well = runtimes.values().any(|text| text == HEALTHY);
        let faults = [
            (!self.connected, "no scheduler answers"),
            (self.holding, "it was told to hold, or its ledger cannot be written"),
            (!well, "no runtime answers"),
        ];
        faults.into_iter().filter_map(|(is, fault)| is.then_some(fault)).collect()
    }
}

/// How a runtime that is well is told.
const HEALTHY: &str = "healthy";

/// 200 only while this agent can do its job.
async fn health(State(pages): State<Pages>) -> Response {
    let standing = match pages.handle.read(|agent, _| Standing::of(agent)).await {
        Ok(standing) => standing,
        Err(error) => return (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    };
    let runtimes = pages.runtimes.told().await;
    let faults = standing.faults(&runtimes);
    let (code, status) = if faults.is_empty() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    };
    let body = json!({
        "status": status,
        "reason": faults.join("; "),
        "node": pages.node.as_str(),
        "scheduler": { "connected": standing.connected },
        "runtimes": runtimes,
        "fence": standing.fence,
        "takesNewWork": standing.takes(),
        "busy": standing.busy.unwrap_or_default(),
        "certificate": pages.credentials.as_ref().map(certificate),
        "version": env!("CARGO_PKG_VERSION"),
    });
    (code, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Which certificate is in use, until when, and whether somebody should look after it.
fn certificate(credentials: &Credentials) -> serde_json::Value {
    let bundle = credentials.current();
    json!({
        "identity": bundle.identity().to_string(),
        "serial": bundle.certificate().serial.as_str(),
        "notAfter": shown(bundle.certificate().not_after).to_string(),
        "alarm": credentials.trouble(SystemTime::now()),
        "revoked": credentials.revoked().current().lines().len(),
    })
}

async fn metrics(State(pages): State<Pages>) -> Response {
    let look = |agent: &Agent, history: &History| {
        let held = (agent.inventory().held, agent.collected());
        (Standing::of(agent), held, history.tallies().clone(), history.open())
    };
    let (standing, (held, collected), tallies, open) = match pages.handle.read(look).await {
        Ok(found) => found,
        Err(error) => return (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    };
    let runtimes = pages.runtimes.told().await;
    let mut text = String::new();
    workloads(&mut text, &held);
    garbage(&mut text, &held, collected);
    actions(&mut text, &tallies, open);
    let well = runtimes.iter().map(|(kind, how)| (kind.as_str(), u64::from(how == HEALTHY)));
    gauges(&mut text, "runtime_health_status", "runtime_type", &well.collect());
    machine(&mut text, pages.meter.last());
    let flags = [
        ("scheduler_connected", standing.connected),
        ("fence_available", standing.fence),
        ("takes_new_work", standing.takes()),
    ];
    for (name, is) in flags {
        line(&mut text, format_args!("# TYPE persys_agent_{name} gauge"));
        line(&mut text, format_args!("persys_agent_{name} {}", u8::from(is)));
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing to a text does not fail.
    writeln!(text, "{words}").ok();
}

fn gauges(text: &mut String, name: &str, label: &str, values: &BTreeMap<&str, u64>) {
    line(text, format_args!("# TYPE persys_agent_{name} gauge"));
    for (word, value) in values {
        line(text, format_args!("persys_agent_{name}{{{label}=\"{word}\"}} {value}"));
    }
}

fn workloads(text: &mut String, held: &[Held]) {
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for Held { report, spec, .. } in held {
        let kind = spec.as_ref().map_or("unknown", |spec| spec.workload_type().word());
        *counts.entry((word_of(&report.state), kind)).or_default() += 1;
    }
    line(text, format_args!("# TYPE persys_agent_workload_count gauge"));
    for ((state, kind), count) in counts {
        let labels = format_args!("state=\"{state}\",type=\"{kind}\"").to_string();
        line(text, format_args!("persys_agent_workload_count{{{labels}}} {count}"));
    }
}

/// What nobody ordered: how often it was looked for, what was found of it, and what became of that.
fn garbage(text: &mut String, held: &[Held], collected: Collected) {
    let kept = held.iter().filter(|held| held.spec.is_none()).count();
    let kept = u64::try_from(kept).unwrap_or(u64::MAX);
    for (name, kind, value) in [
        ("runs_total", "counter", collected.looks),
        ("orphaned_resources_found_total", "counter", collected.found),
        ("orphaned_resources_quarantined", "gauge", kept),
        ("resources_deleted_total", "counter", collected.cleared),
    ] {
        line(text, format_args!("# TYPE persys_agent_garbage_collection_{name} {kind}"));
        line(text, format_args!("persys_agent_garbage_collection_{name} {value}"));
    }
}

/// The word of the contract for a kind of action.
fn word(kind: ActionKind) -> &'static str {
    match kind {
        ActionKind::Apply => "apply_workload",
        ActionKind::Delete => "delete_workload",
    }
}

fn actions(text: &mut String, tallies: &[(ActionKind, Tally)], open: usize) {
    line(text, format_args!("# TYPE persys_agent_task_queue_depth gauge"));
    line(text, format_args!("persys_agent_task_queue_depth {open}"));
    line(text, format_args!("# TYPE persys_agent_task_executions_total counter"));
    for (kind, tally) in tallies {
        for (status, count) in [("completed", tally.done), ("failed", tally.failed)] {
            let labels = format!("type=\"{}\",status=\"{status}\"", word(*kind));
            line(text, format_args!("persys_agent_task_executions_total{{{labels}}} {count}"));
        }
    }
    line(text, format_args!("# TYPE persys_agent_task_failures_total counter"));
    for (kind, tally) in tallies {
        let (kind, failed) = (word(*kind), tally.failed);
        line(text, format_args!("persys_agent_task_failures_total{{type=\"{kind}\"}} {failed}"));
    }
    line(text, format_args!("# TYPE persys_agent_task_latency_seconds summary"));
    for (kind, tally) in tallies {
        let (kind, count) = (word(*kind), tally.done.saturating_add(tally.failed));
        let (seconds, ms) = (tally.ms / 1000, tally.ms % 1000);
        let name = "persys_agent_task_latency_seconds";
        line(text, format_args!("{name}_sum{{type=\"{kind}\"}} {seconds}.{ms:03}"));
        line(text, format_args!("{name}_count{{type=\"{kind}\"}} {count}"));
    }
}

fn machine(text: &mut String, load: Load) {
    let percent = |permille: u32| format!("{}.{}", permille / 10, permille % 10);
    for (what, labels, permille) in [
        ("cpu", "", load.cpu_permille),
        ("memory", "", load.memory_permille),
        ("disk", "{mount_point=\"/\"}", load.disk_permille),
    ] {
        let name = format!("persys_agent_system_{what}_utilization_percent");
        line(text, format_args!("# TYPE {name} gauge"));
        line(text, format_args!("{name}{labels} {}", percent(permille)));
    }
}
