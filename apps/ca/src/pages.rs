//! Pages for probes and dashboards: `/health` and `/metrics` of an authority that serves alone.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use persys_identity::Credentials;
use persys_identity::certificate::shown;
use persys_metrics::Answer;
use persys_telemetry::trace::{self, TraceLayer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::metrics::Metrics;
use crate::office::Office;

/// Shown to whoever asks; the cause is in the log, for the operator.
const BROKEN: &str = "the authority cannot sign at present; its log has the cause";
const NO_REGISTER: &str =
    "the list of tokens and revocations cannot be read; the log has the cause";

/// What the pages are made from.
#[derive(Debug, Clone)]
pub struct Pages {
    office: Arc<Office>,
    metrics: Arc<Metrics>,
    credentials: Credentials,
    /// The mode that was last seen, and since when.
    mode: Arc<Mutex<(&'static str, SystemTime)>>,
}

/// Pages that are served; they end when this is dropped.
#[derive(Debug)]
pub struct Served {
    /// Where they are.
    pub address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Pages {
    /// The pages of this authority.
    #[must_use]
    pub fn new(office: Arc<Office>, metrics: Arc<Metrics>, credentials: Credentials) -> Self {
        metrics.shows(&credentials);
        let mode = Arc::new(Mutex::new((NORMAL, SystemTime::now())));
        Self { office, metrics, credentials, mode }
    }

    /// Serves them at `listen`; they answer when this returns.
    pub async fn serve(self, listen: SocketAddr) -> io::Result<Served> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let router = Router::new()
            .route("/health", get(health))
            .route("/metrics", get(metrics))
            .layer(TraceLayer::new(&trace::current(), trace::page_span))
            .with_state(self);
        let serving = tokio::spawn(async move {
            if let Err(fault) = axum::serve(listener, router).await {
                tracing::error!(%fault, "pages are no longer served");
            }
        });
        Ok(Served { address, serving })
    }

    /// Why it cannot do its job, if so.
    async fn trouble(&self) -> Option<&'static str> {
        if let Err(fault) = self.office.authority(SystemTime::now()) {
            tracing::debug!(%fault, "the authority cannot be used");
            return Some(BROKEN);
        }
        if let Err(fault) = self.office.register().denied().await {
            tracing::debug!(%fault, "the register cannot be read");
            return Some(NO_REGISTER);
        }
        None
    }

    /// Takes in the mode of the moment; gives since when it is so.
    fn since(&self, mode: &'static str) -> SystemTime {
        let mut last = self.mode.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0 != mode {
            *last = (mode, SystemTime::now());
        }
        last.1
    }
}

const NORMAL: &str = "normal";
const DEGRADED: &str = "degraded";

/// 200 only while machines can join and renew.
async fn health(State(pages): State<Pages>) -> Response {
    let trouble = pages.trouble().await;
    let (code, status, mode) = match trouble {
        None => (StatusCode::OK, "ok", NORMAL),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable", DEGRADED),
    };
    let (bundle, since) = (pages.credentials.current(), pages.since(mode));
    let body = json!({
        "status": status,
        "mode": mode,
        "reason": trouble.unwrap_or_default(),
        "modeChangedAt": shown(since).to_string(),
        "service": "persys-ca",
        "cluster": bundle.identity().cluster.to_string(),
        "certificate": {
            "identity": bundle.identity().to_string(),
            "serial": bundle.certificate().serial.as_str(),
            "notAfter": shown(bundle.certificate().not_after).to_string(),
            "alarm": pages.credentials.trouble(SystemTime::now()),
        },
        "version": env!("CARGO_PKG_VERSION"),
    });
    (code, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

async fn metrics(State(pages): State<Pages>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let Answer { content_type, text } = pages.metrics.answer(accept);
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}
