//! Pages for probes: `/health` and `/metrics`.

use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use persys_metrics::Answer;
use serde_json::{Value, json};

use crate::clusters::Cluster;
use crate::clusters::scheduler::Health;
use crate::gateway::Gateway;
use crate::problem::Problem;
use crate::proven::prove;
use crate::serve::Origin;
use crate::who::Who;

pub(crate) fn router() -> Router<Gateway> {
    Router::new().route("/health", get(health)).route("/metrics", get(metrics))
}

/// 200 only while it can do its job: while some scheduler of the usual cluster may answer. Reasons, node
/// counts and further clusters are for the same callers as `/metrics`; everybody sees status and mode.
async fn health(State(gateway): State<Gateway>, Extension(origin): Extension<Origin>) -> Response {
    let well = gateway.clusters.find(None).is_ok_and(|cluster| cluster.is_well());
    let (code, status) = if well {
        (StatusCode::OK, "healthy")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    };
    let told = gateway.clusters.find(None).ok().and_then(|cluster| cluster.told());
    let mut body = json!({
        "status": status,
        "mode": told.as_ref().map_or(UNKNOWN, |told| told.mode.as_str()),
        "modeChangedAt": told.as_ref().map(|told| told.mode_changed_at.as_str()),
        "service": "persys-gateway",
        "prow_proxy_enabled": true,
        "prow_scheduler": gateway.clusters.default_id(),
    });
    let trusted = origin.is_certified || origin.remote.ip().to_canonical().is_loopback();
    if let Some(body) = body.as_object_mut().filter(|_| trusted) {
        let reason = told.as_ref().map_or(NO_WORD, |told| told.reason.as_str());
        body.insert("reason".to_owned(), reason.into());
        let clusters = gateway.clusters.all().into_iter().map(|cluster| of_cluster(cluster));
        body.insert("clusters".to_owned(), clusters.collect());
        body.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
    }
    (code, Json(body)).into_response()
}

/// The mode of a cluster whose schedulers do not say theirs, and the reason shown then.
const UNKNOWN: &str = "unknown";
const NO_WORD: &str = "no scheduler of the cluster has said its mode";

/// One cluster: its mode, its node counts, and how many of its schedulers answer.
fn of_cluster(cluster: &Cluster) -> Value {
    let (told, schedulers) = (cluster.told(), cluster.schedulers());
    let answer = schedulers.iter().filter(|one| one.health() == Health::Well).count();
    let told = told.as_ref();
    json!({
        "id": cluster.id,
        "mode": told.map_or(UNKNOWN, |told| told.mode.as_str()),
        "reason": told.map_or(NO_WORD, |told| told.reason.as_str()),
        "modeChangedAt": told.map(|told| told.mode_changed_at.as_str()),
        "nodes": told.and_then(|told| told.nodes),
        "schedulers": { "total": schedulers.len(), "answering": answer },
    })
}

/// For those who show a certificate of the cluster, who may ask anything, or who are on this machine.
async fn metrics(
    State(gateway): State<Gateway>,
    Extension(origin): Extension<Origin>,
    Extension(who): Extension<Who>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !origin.is_certified && !origin.remote.ip().to_canonical().is_loopback() {
        prove(&gateway, who.known()?, &origin).await?;
    }
    let streams = gateway.limits.streams.saturating_sub(gateway.streams.available_permits());
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let connections = gateway.connections.count();
    let Answer { content_type, text } = gateway.metrics.answer(connections, streams, accept);
    Ok(([(header::CONTENT_TYPE, content_type)], text).into_response())
}
