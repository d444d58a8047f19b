//! Pages for probes and dashboards: `/health` and `/metrics`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use persys_identity::Credentials;
use persys_identity::certificate::shown;
use persys_metrics::Answer;
use persys_model::id::NodeId;
use persys_model::spec::WorkloadType;
use persys_node::agent::Agent;
use persys_proto::convert::time::rfc3339;
use persys_telemetry::trace::{self, TraceLayer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::handle::Handle;
use crate::history::History;
use crate::host::Meter;
use crate::metrics::{Metrics, Present};
use crate::runtimes::Runtimes;
use crate::upward::ToldMode;
use crate::version::Version;

/// What the pages are made from.
#[derive(Debug, Clone)]
pub(crate) struct Pages {
    node: NodeId,
    handle: Handle,
    runtimes: Runtimes,
    meter: Arc<Meter>,
    credentials: Option<Credentials>,
    metrics: Arc<Metrics>,
    /// The scheduler's mode, as it last said; none for an agent without schedulers.
    mode: Option<Arc<ToldMode>>,
    version: Version,
}

impl Pages {
    /// Also tells how the certificate is, and the mode of the schedulers if there are any.
    pub(crate) fn certified(
        self,
        credentials: Option<Credentials>,
        mode: Option<Arc<ToldMode>>,
    ) -> Self {
        self.metrics.shows(self.runtimes.usages(), credentials.as_ref());
        Self { credentials, mode, ..self }
    }

    /// Also shows this version.
    pub(crate) fn of_version(self, version: Version) -> Self {
        Self { version, ..self }
    }

    /// The mode, and since when it is so.
    fn mode(&self) -> (&'static str, Option<String>) {
        let Some(mode) = &self.mode else { return ("standalone", None) };
        match mode.get() {
            Some((word, since)) => (word, Some(rfc3339(since))),
            None => ("unknown", None),
        }
    }

    pub(crate) fn new(
        node: &NodeId,
        handle: &Handle,
        runtimes: &Runtimes,
        meter: &Arc<Meter>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let (node, handle) = (node.clone(), handle.clone());
        let (runtimes, meter) = (runtimes.clone(), Arc::clone(meter));
        let metrics = Arc::clone(metrics);
        let version = Version::default();
        Self { node, handle, runtimes, meter, credentials: None, metrics, mode: None, version }
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
    let router = Router::new()
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .layer(TraceLayer::new(&trace::current(), trace::page_span))
        .with_state(pages);
    beside.spawn(serve(listener, router));
    at
}

async fn serve(listener: TcpListener, router: Router) {
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

    /// The state of the node, as far as the agent can know.
    fn node_state(&self) -> &'static str {
        match (self.connected, self.holding, &self.busy) {
            (false, ..) => "Disconnected",
            (true, true, _) => "Held",
            (true, false, Some(_)) => "Busy",
            (true, false, None) => "Ready",
        }
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
    let (mode, mode_changed_at) = pages.mode();
    let body = json!({
        "status": status,
        "mode": mode,
        "reason": faults.join("; "),
        "modeChangedAt": mode_changed_at,
        "nodeState": standing.node_state(),
        "node": pages.node.as_str(),
        "scheduler": { "connected": standing.connected },
        "runtimes": runtimes,
        "fence": standing.fence,
        "takesNewWork": standing.takes(),
        "busy": standing.busy.unwrap_or_default(),
        "certificate": pages.credentials.as_ref().map(certificate),
        "version": pages.version.shown(),
        "programVersion": Version::program(),
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

async fn metrics(State(pages): State<Pages>, headers: HeaderMap) -> Response {
    let look = |agent: &Agent, history: &History| {
        let standing = Standing::of(agent);
        let flags = [
            ("scheduler_connected", standing.connected),
            ("fence_available", standing.fence),
            ("takes_new_work", standing.takes()),
        ];
        Present::of(agent, history, flags)
    };
    let present = match pages.handle.read(look).await {
        Ok(present) => present,
        Err(error) => return (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    };
    let runtimes = pages.runtimes.told().await;
    let well: Vec<_> = WorkloadType::ALL
        .into_iter()
        .map(|kind| (kind, runtimes.get(kind.word()).is_some_and(|how| how == HEALTHY)))
        .collect();
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let Answer { content_type, text } =
        pages.metrics.answer(&present, &well, pages.meter.last(), accept);
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}
