//! Stands before every service: settles who is calling, lets through whom the table allows, passes on
//! what another process has to answer, and counts what comes out.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use persys_access::By;
use persys_identity::ConnectInfo;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tonic::{Code, Status};
use tower_service::Service;

use super::access;
use super::forward::{Forward, Route};
use super::on_behalf;
use crate::author;
use crate::metrics::Metrics;

/// A service behind the table.
#[derive(Debug, Clone)]
pub(crate) struct Guarded<S> {
    inner: S,
    metrics: Arc<Metrics>,
    forward: Arc<Forward>,
}

impl<S> Guarded<S> {
    pub(crate) fn new(inner: S, metrics: &Arc<Metrics>, forward: &Arc<Forward>) -> Self {
        Self { inner, metrics: Arc::clone(metrics), forward: Arc::clone(forward) }
    }
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

/// A request that may be answered.
struct Admitted {
    method: &'static str,
    by: By,
    passed_on: bool,
}

fn admit(request: &mut Request<Body>) -> Result<Admitted, Status> {
    let passed_on = on_behalf::settle(request)?;
    let caller = request.extensions().get::<ConnectInfo>();
    let (method, by) = access::judge(request.uri().path(), caller)?;
    Ok(Admitted { method, by, passed_on })
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Admitted { method, by, passed_on } = match admit(&mut request) {
            Ok(admitted) => admitted,
            Err(refusal) => {
                self.metrics.served("refused", refusal.code());
                self.forward.refused(author::of(&request), request.uri().path(), &refusal);
                return Box::pin(ready(Ok(refusal.into_http())));
            }
        };
        let answer: Answering = match self.forward.route(by, passed_on) {
            Route::Here => Box::pin(author::scope(author::of(&request), self.inner.call(request))),
            Route::To(leader) => {
                let forward = Arc::clone(&self.forward);
                Box::pin(async move {
                    let answer = forward.pass(request, leader, by).await;
                    Ok(answer.unwrap_or_else(Status::into_http))
                })
            }
            Route::Nobody(refusal) => Box::pin(ready(Ok(refusal.into_http()))),
        };
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
