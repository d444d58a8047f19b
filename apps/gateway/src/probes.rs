//! Pages for probes: `/health` and `/metrics`.

use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use persys_metrics::Answer;
use serde_json::json;

use crate::gateway::Gateway;
use crate::problem::Problem;
use crate::proven::prove;
use crate::serve::Origin;
use crate::who::Who;

pub(crate) fn router() -> Router<Gateway> {
    Router::new().route("/health", get(health)).route("/metrics", get(metrics))
}

/// 200 only while it can do its job: while some scheduler of the usual cluster may answer.
async fn health(State(gateway): State<Gateway>) -> Response {
    let well = gateway.clusters.find(None).is_ok_and(|cluster| cluster.is_well());
    let (code, status) = if well {
        (StatusCode::OK, "healthy")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    };
    let body = json!({
        "status": status,
        "service": "persys-gateway",
        "prow_proxy_enabled": true,
        "prow_scheduler": gateway.clusters.default_id(),
    });
    (code, Json(body)).into_response()
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
