//! Stands before every service: lets through whom the table allows, and counts what comes out.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use persys_identity::ConnectInfo;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tonic::{Code, Status};
use tower_service::Service;

use super::access;
use crate::author;
use crate::metrics::Metrics;

/// A service behind the table.
#[derive(Debug, Clone)]
pub(crate) struct Guarded<S> {
    inner: S,
    metrics: Arc<Metrics>,
}

impl<S> Guarded<S> {
    pub(crate) fn new(inner: S, metrics: &Arc<Metrics>) -> Self {
        Self { inner, metrics: Arc::clone(metrics) }
    }
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let caller = request.extensions().get::<ConnectInfo>();
        let method = match access::judge(request.uri().path(), caller) {
            Ok(method) => method,
            Err(refusal) => {
                self.metrics.served("refused", refusal.code());
                return Box::pin(ready(Ok(refusal.into_http())));
            }
        };
        let caller = caller.cloned();
        let headers = request.headers().clone();
        let answer = author::of(caller.as_ref(), &headers, self.inner.call(request));
        let metrics = Arc::clone(&self.metrics);
        Box::pin(async move {
            let response = answer.await?;
            // A failure has no body, so its code is among the headers; what has a body began well.
            let failed = Status::from_header_map(response.headers());
            metrics.served(method, failed.map_or(Code::Ok, |status| status.code()));
            Ok(response)
        })
    }
}
