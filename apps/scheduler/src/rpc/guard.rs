//! Stands before every service: settles who is calling, lets through whom the table allows, passes on
//! what another process has to answer, and counts what comes out.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use persys_access::{By, row};
use tokio::time::sleep;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::server::NamedService;
use tonic::{Code, Status};
use tower_service::Service;

use super::access::{self, Doors, Identity};
use super::forward::{Forward, Route};
use super::leash::{self, Leashed};
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

/// The same before it is told whom they called.
struct Turned {
    who: String,
    source: Option<std::net::IpAddr>,
    rule: &'static str,
    refusal: Box<Status>,
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
    /// Every refusal of a caller passes here, once, and is written down.
    fn report(&self, refused: &Refused<'_>, headers: &HeaderMap) {
        let Refused { who, source, method, rule, why } = refused;
        tracing::info!(who, ?source, method, rule, why, "refused");
        self.forward.refused(author::calling(who, *source, rule, headers), method);
    }

    async fn admit<B>(&self, request: &mut Request<B>) -> Result<Admitted, Status> {
        let judged = self.judge(request).await;
        judged.map_err(|Turned { who, source, rule, refusal }| {
            let (method, why) = (request.uri().path(), refusal.message());
            let refused = Refused { who: &who, source, method, rule, why };
            self.report(&refused, request.headers());
            *refusal
        })
    }

    async fn judge<B>(&self, request: &mut Request<B>) -> Result<Admitted, Turned> {
        let nobody = |rule| {
            move |refusal| {
                let (who, refusal) = ("nobody".to_owned(), Box::new(refusal));
                Turned { who, source: None, rule, refusal }
            }
        };
        self.forward.believes(request).map_err(nobody("revoked"))?;
        let identified = self.doors.identify(request).await;
        let (identity, passed_on) = identified.map_err(nobody("who is calling"))?;
        let Some(identity) = identity else {
            return self.unknown(request, passed_on).map_err(nobody("there is no such method"));
        };
        let row = match access::admit(request.uri().path(), &identity) {
            Ok(row) => row,
            Err((decision, refusal)) => {
                let (source, rule) = (Some(identity.source), decision.rule.word());
                return Err(Turned { who: identity.who, source, rule, refusal: Box::new(refusal) });
            }
        };
        let (method, who, by) = row;
        let (source, rule) = (Some(identity.source), who.rule());
        let author = author::calling(&identity.who, source, rule, request.headers());
        let asker = Asker { author, caller: Arc::new(identity.caller.clone()) };
        let route = self.forward.route(*by, identity.passed_on);
        Ok(Admitted { method, route, by: *by, asker, identity: Some(identity) })
    }

    /// Whoever leads knows who this is; it is judged there.
    fn unknown<B>(&self, request: &Request<B>, passed_on: bool) -> Result<Admitted, Status> {
        let Some((method, _, by)) = row(request.uri().path()) else {
            return Err(Status::unimplemented("there is no such method"));
        };
        let by = if *by == By::Change { By::Change } else { By::Leader };
        let author = author::named("nobody", request.headers());
        let asker = Asker { author, caller: Arc::default() };
        let route = match self.forward.route(by, passed_on) {
            // It began to lead just now, and knows when it is asked again.
            Route::Here => Route::Nobody(Box::new(super::refusal::unavailable(
                "this scheduler has just begun to lead; ask again",
            ))),
            route @ (Route::To(_) | Route::Nobody(_)) => route,
        };
        Ok(Admitted { method, route, by, asker, identity: None })
    }

    /// Waits until a request, as it came, would be refused.
    async fn lost(self, came: Request<()>) -> Status {
        loop {
            sleep(leash::AGAIN).await;
            let mut again = Request::new(());
            *again.uri_mut() = came.uri().clone();
            again.headers_mut().clone_from(came.headers());
            again.extensions_mut().clone_from(came.extensions());
            if let Err(refusal) = self.admit(&mut again).await {
                return refusal;
            }
        }
    }

    /// Counts what came out. What a method itself refuses, by the namespace of what it is about, is
    /// told like what the table refuses.
    fn count(
        &self,
        (method, took): (&'static str, Duration),
        identity: Option<&Identity>,
        response: &Response<Body>,
    ) {
        // A failure has no body, so its code is among the headers; what has a body began well.
        let failed = Status::from_header_map(response.headers());
        if let Some(refusal) = failed.as_ref().filter(|one| one.code() == Code::PermissionDenied)
            && let Some(Identity { who, source, .. }) = identity
        {
            let (rule, why) = ("what it is about", refusal.message());
            let refused = Refused { who, source: Some(*source), method, rule, why };
            self.report(&refused, &HeaderMap::new());
        }
        let code = failed.map_or(Code::Ok, |status| status.code());
        self.metrics.served.ended(method, code, took);
    }
}

fn leashed(
    answer: Response<Body>,
    lost: impl Future<Output = Status> + Send + 'static,
) -> Response<Body> {
    answer.map(|body| Body::new(Leashed::new(body, lost)))
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
        let (guard, began) = (self.guard.clone(), Instant::now());
        Box::pin(async move {
            let came = leash::kept(&request);
            let admitted = match guard.admit(&mut request).await {
                Ok(admitted) => admitted,
                Err(refusal) => {
                    guard.metrics.served.ended("refused", refusal.code(), began.elapsed());
                    return Ok(refusal.into_http());
                }
            };
            let Admitted { method, route, by, asker, identity } = admitted;
            let response = match route {
                Route::Here => {
                    let answer = author::scope(asker, inner.call(request)).await?;
                    match came {
                        Some(came) => leashed(answer, guard.clone().lost(came)),
                        None if leash::never_ends(method) => {
                            leashed(answer, guard.forward.stopping())
                        }
                        None => answer,
                    }
                }
                Route::To(leader) => match guard.forward.pass(request, leader, by).await {
                    Ok(answer) if leash::goes_on(method) => {
                        leashed(answer, guard.forward.stopping())
                    }
                    Ok(answer) => answer,
                    Err(refusal) => refusal.into_http(),
                },
                Route::Nobody(refusal) => refusal.into_http(),
            };
            guard.count((method, began.elapsed()), identity.as_ref(), &response);
            Ok(response)
        })
    }
}
