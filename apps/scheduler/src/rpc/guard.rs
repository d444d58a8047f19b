//! Stands before every service: settles who is calling, lets through whom the table allows, passes on
//! what another process has to answer, and counts what comes out.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use persys_access::{By, row};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tonic::{Code, Status};
use tower_service::Service;

use super::access::{self, Doors, Identity};
use super::forward::{Forward, Route};
use crate::author::{self, Asker};
use crate::metrics::Metrics;

/// A service behind the table.
#[derive(Debug, Clone)]
pub(crate) struct Guarded<S> {
    inner: S,
    guard: Guard,
}

/// What stands before a service.
#[derive(Debug, Clone)]
struct Guard {
    metrics: Arc<Metrics>,
    forward: Arc<Forward>,
    doors: Arc<Doors>,
}

impl<S> Guarded<S> {
    pub(crate) fn new(
        inner: S,
        metrics: &Arc<Metrics>,
        forward: &Arc<Forward>,
        doors: &Arc<Doors>,
    ) -> Self {
        let (metrics, forward, doors) =
            (Arc::clone(metrics), Arc::clone(forward), Arc::clone(doors));
        Self { inner, guard: Guard { metrics, forward, doors } }
    }
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

/// Somebody who was turned away: everything there is to write down about it.
#[derive(Debug)]
struct Refused<'a> {
    who: &'a str,
    source: Option<std::net::IpAddr>,
    method: &'a str,
    /// The rule that refused, in words.
    rule: &'a str,
    why: &'a str,
}

/// Every refusal of a caller passes here, once: whoever keeps a record of refusals keeps it here.
fn report(refused: &Refused<'_>) {
    let Refused { who, source, method, rule, why } = refused;
    tracing::info!(who, ?source, method, rule, why, "refused");
}

/// A request that may be answered.
struct Admitted {
    method: &'static str,
    route: Route,
    by: By,
    asker: Asker,
    identity: Option<Identity>,
}

impl Guard {
    async fn admit(&self, request: &mut Request<Body>) -> Result<Admitted, Status> {
        let path = request.uri().path().to_owned();
        let told = |who: &str, source, rule: &str, refusal: Status| {
            let why = refusal.message();
            report(&Refused { who, source, method: &path, rule, why });
            refusal
        };
        let identified = self.doors.identify(request).await;
        let (identity, passed_on) =
            identified.map_err(|refusal| told("nobody", None, "who is calling", refusal))?;
        let Some(identity) = identity else {
            // Whoever leads knows who this is; it is judged there.
            let Some((method, _, by)) = row(&path) else {
                return Err(Status::unimplemented("there is no such method"));
            };
            let by = if *by == By::Change { By::Change } else { By::Leader };
            let asker = Asker {
                author: author::named("nobody", request.headers()),
                caller: Arc::default(),
            };
            let route = match self.forward.route(by, passed_on) {
                // It began to lead just now, and knows when it is asked again.
                Route::Here => Route::Nobody(Box::new(super::refusal::unavailable(
                    "this scheduler has just begun to lead; ask again",
                ))),
                route @ (Route::To(_) | Route::Nobody(_)) => route,
            };
            return Ok(Admitted { method, route, by, asker, identity: None });
        };
        let (method, _, by) = access::admit(&path, &identity).map_err(|(decision, refusal)| {
            told(&identity.who, Some(identity.source), decision.rule.word(), refusal)
        })?;
        let author = author::named(&identity.who, request.headers());
        let asker = Asker { author, caller: Arc::new(identity.caller.clone()) };
        let route = self.forward.route(*by, identity.passed_on);
        Ok(Admitted { method, route, by: *by, asker, identity: Some(identity) })
    }

    /// Counts what came out. What a method itself refuses, by the namespace of what it is about, is
    /// told like what the table refuses.
    fn count(&self, method: &'static str, identity: Option<&Identity>, response: &Response<Body>) {
        // A failure has no body, so its code is among the headers; what has a body began well.
        let failed = Status::from_header_map(response.headers());
        if let Some(refusal) = failed.as_ref().filter(|one| one.code() == Code::PermissionDenied)
            && let Some(Identity { who, source, .. }) = identity
        {
            let (rule, why) = ("what it is about", refusal.message());
            report(&Refused { who, source: Some(*source), method, rule, why });
        }
        self.metrics.served(method, failed.map_or(Code::Ok, |status| status.code()));
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        // The one that is ready goes with the request; the next gets ready here.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let guard = self.guard.clone();
        Box::pin(async move {
            let admitted = match guard.admit(&mut request).await {
                Ok(admitted) => admitted,
                Err(refusal) => {
                    guard.metrics.served("refused", refusal.code());
                    return Ok(refusal.into_http());
                }
            };
            let Admitted { method, route, by, asker, identity } = admitted;
            let response = match route {
                Route::Here => author::scope(asker, inner.call(request)).await?,
                Route::To(leader) => {
                    let answer = guard.forward.pass(request, leader, by).await;
                    answer.unwrap_or_else(Status::into_http)
                }
                Route::Nobody(refusal) => refusal.into_http(),
            };
            guard.count(method, identity.as_ref(), &response);
            Ok(response)
        })
    }
}
