//! Pages for probes and dashboards: `/health` and `/metrics`.

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
use persys_telemetry::trace::{self, TraceLayer};
use serde_json::json;

use crate::handle::Handle;
use crate::health;
use crate::metrics::{Led, Metrics, Present};
use crate::standing::Role;

/// What the pages are made from.
#[derive(Debug, Clone)]
pub(crate) struct Pages {
    pub(crate) handle: Handle,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) credentials: Option<Credentials>,
}

pub(crate) fn router(pages: Pages) -> Router {
    Router::new()
        .route("/health", get(show_health))
        .route("/metrics", get(metrics))
        .layer(TraceLayer::new(&trace::current(), trace::page_span))
        .with_state(pages)
}

/// A copy of this age still shows the cluster.
const LIVE_MS: u64 = 10_000;

/// 200 only while this process can do its job: for one that follows, to answer from a copy or to
/// pass on.
async fn show_health(State(pages): State<Pages>) -> Response {
    let standing = pages.handle.standing().borrow().clone();
    let live_copy = || pages.handle.copy_age().is_some_and(|age| age < LIVE_MS);
    let follows = standing.role() == Role::Follower;
    let (code, status) = if standing.is_well() || (follows && live_copy()) {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    };
    let mut body = health::summary(&pages.handle).await;
    if let Some(body) = body.as_object_mut() {
        body.insert("status".to_owned(), status.into());
        let certificate = pages.credentials.as_ref().map(certificate);
        body.insert("certificate".to_owned(), certificate.into());
        body.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
    }
    (code, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Which certificate is in use, until when, and whether somebody should look after it.
fn certificate(credentials: &Credentials) -> serde_json::Value {
    let (bundle, now) = (credentials.current(), SystemTime::now());
    json!({
        "identity": bundle.identity().to_string(),
        "serial": bundle.certificate().serial.as_str(),
        "notAfter": shown(bundle.certificate().not_after).to_string(),
        "alarm": credentials.trouble(now),
        "revoked": credentials.revoked().current().lines().len(),
    })
}

/// A process that does not lead counts nothing, so that two of them never add up to twice the
/// cluster.
async fn metrics(State(pages): State<Pages>, headers: HeaderMap) -> Response {
    let handle = &pages.handle;
    let cluster = handle.read(|world| (world.tally(), Led::of(world))).await.ok();
    let present = Present {
        cluster,
        standing: handle.standing().borrow().clone(),
        copy_age: handle.copy_age(),
        requests: handle.waiting(),
        now: handle.date(),
    };
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let Answer { content_type, text } = pages.metrics.answer(&present, accept);
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}
