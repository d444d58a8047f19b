//! A span for each request that comes in: a layer before all services of a process.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tonic::codegen::http::{HeaderMap, Request, Response, StatusCode};
use tower_layer::Layer;
use tower_service::Service;

use super::trail::{Kind, Span, Trail, scope};

/// How the span of a request is called; nothing where it gets none.
pub type Naming<B> = fn(&Request<B>) -> Option<Cow<'_, str>>;

/// Names the spans of the pages for probes, such as `GET /health`. A path nobody serves has none, so that
/// names come from a closed set.
#[must_use]
pub fn page_span<B>(request: &Request<B>) -> Option<Cow<'_, str>> {
    let path = ["/health", "/metrics"].into_iter().find(|path| *path == request.uri().path())?;
    Some(Cow::Owned(format!("{} {path}", request.method())))
}

/// Begins a span for each request, on the trail its caller tells of, and carries the request out on it.
pub struct TraceLayer<B> {
    home: Trail,
    name: Naming<B>,
}

impl<B> TraceLayer<B> {
    /// Writes down where `home` does.
    #[must_use]
    pub fn new(home: &Trail, name: Naming<B>) -> Self {
        Self { home: home.afresh(), name }
    }
}

impl<B> Clone for TraceLayer<B> {
    fn clone(&self) -> Self {
        Self { home: self.home.clone(), name: self.name }
    }
}

impl<B> fmt::Debug for TraceLayer<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceLayer").finish_non_exhaustive()
    }
}

impl<S, B> Layer<S> for TraceLayer<B> {
    type Service = Traced<S, B>;

    fn layer(&self, inner: S) -> Self::Service {
        Traced { inner, layer: self.clone() }
    }
}

/// A service whose requests have spans.
pub struct Traced<S, B> {
    inner: S,
    layer: TraceLayer<B>,
}

impl<S: Clone, B> Clone for Traced<S, B> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S: fmt::Debug, B> fmt::Debug for Traced<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traced").field("inner", &self.inner).finish_non_exhaustive()
    }
}

type Answering<R, E> = Pin<Box<dyn Future<Output = Result<R, E>> + Send>>;

impl<S, B, C> Service<Request<B>> for Traced<S, B>
where
    S: Service<Request<B>, Response = Response<C>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    C: Send + 'static,
{
    type Response = Response<C>;
    type Error = S::Error;
    type Future = Answering<Response<C>, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let TraceLayer { home, name } = &self.layer;
        let name = if home.is_on() { name(&request) } else { None };
        let Some(name) = name else { return Box::pin(self.inner.call(request)) };
        let mut span = home.told(request.headers()).begin(&name, Kind::Server);
        drop(name);
        let answering = self.inner.call(request);
        Box::pin(scope(span.trail().clone(), async move {
            let answer = answering.await;
            if let Ok(response) = &answer {
                judge(&mut span, response.status(), response.headers());
            }
            answer
        }))
    }
}

/// How it went, as the answer tells.
fn judge(span: &mut Span, status: StatusCode, headers: &HeaderMap) {
    if !span.is_recorded() {
        return;
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if text("content-type").is_some_and(|kind| kind.starts_with("application/grpc")) {
        // What has a body began well; a failure alone has its code among the headers.
        let code = text("grpc-status").and_then(|code| code.parse::<i64>().ok()).unwrap_or(0);
        span.set("rpc.grpc.status_code", code);
        if code != 0 {
            span.fail(&tonic::Code::from_i32(i32::try_from(code).unwrap_or(2)));
        }
        return;
    }
    span.set("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.fail(&status);
    }
}
