//! A collector of spans for tests and benchmarks: OTLP over gRPC, as real ones speak it, with what it
//! was sent kept to be looked at.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use persys_model::hex::hex;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// One span as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Who sent it.
    pub service: String,
    /// What it is called.
    pub name: String,
    /// Its trace, in hexadecimal digits.
    pub trace: String,
    /// Its own number, the same way.
    pub id: String,
    /// The one it belongs to; empty where it is the first.
    pub parent: String,
    /// What is said about it.
    pub attributes: BTreeMap<String, String>,
    /// Why it did not go well; `None` where it did.
    pub failed: Option<String>,
}

/// Takes spans on a port of this machine. Dropping it ends that.
#[derive(Debug)]
pub struct Collector {
    /// Where it listens.
    pub at: SocketAddr,
    kept: Arc<Kept>,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
struct Kept {
    /// Whether spans are kept, or only counted.
    keeps: bool,
    spans: Mutex<Vec<Seen>>,
    count: AtomicU64,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Collector {
    /// One that keeps what it is sent.
    pub async fn start() -> io::Result<Self> {
        Self::with(true).await
    }

    /// One that only counts.
    pub async fn counting() -> io::Result<Self> {
        Self::with(false).await
    }

    async fn with(keeps: bool) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let at = listener.local_addr()?;
        let (spans, count) = (Mutex::default(), AtomicU64::new(0));
        let kept = Arc::new(Kept { keeps, spans, count });
        let service = TraceServiceServer::new(Taking(Arc::clone(&kept)));
        let server = Server::builder().add_service(service);
        let serving = tokio::spawn(async move {
            // It ends with whoever started it.
            drop(server.serve_with_incoming(TcpListenerStream::new(listener)).await);
        });
        Ok(Self { at, kept, serving })
    }

    /// How many spans came.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.kept.count.load(Ordering::Relaxed)
    }

    /// All that came, in the order of their coming.
    #[must_use]
    pub fn spans(&self) -> Vec<Seen> {
        self.kept.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Taking(Arc<Kept>);

#[tonic::async_trait]
impl TraceService for Taking {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for ResourceSpans { resource, scope_spans, .. } in request.into_inner().resource_spans {
            let about = texts(resource.unwrap_or_default().attributes);
            let service = about.get("service.name").cloned().unwrap_or_default();
            for span in scope_spans.into_iter().flat_map(|scope| scope.spans) {
                self.0.count.fetch_add(1, Ordering::Relaxed);
                if self.0.keeps {
                    let mut spans = self.0.spans.lock().unwrap_or_else(PoisonError::into_inner);
                    spans.push(seen(&service, span));
                }
            }
        }
        Ok(Response::new(ExportTraceServiceResponse { partial_success: None }))
    }
}

fn seen(service: &str, span: Span) -> Seen {
    Seen {
        service: service.to_owned(),
        name: span.name,
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        attributes: texts(span.attributes),
        // 2 is the code of a failure.
        failed: span.status.filter(|status| status.code == 2).map(|status| status.message),
    }
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value: Option<any_value::Value>| match value {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        Some(any_value::Value::BoolValue(yes)) => yes.to_string(),
        other => format!("{other:?}"),
    };
    let pairs = attributes.into_iter();
    pairs.map(|pair| (pair.key, text(pair.value.and_then(|value| value.value)))).collect()
}
