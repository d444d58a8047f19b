//! Requests and calls over gRPC: how many, how they ended, how long they took.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tonic::{Code, Status};
use tower_service::Service;

use crate::CALLS;
use crate::families::{Counters, Families, Histograms};

/// Calls by method and code.
#[derive(Debug)]
pub struct Rpcs {
    count: Counters<2>,
    took: Histograms<2>,
}

/// What two families of calls are called, and what they say.
#[derive(Debug, Clone, Copy)]
pub struct Named {
    /// Name of the counter and what it says.
    pub count: (&'static str, &'static str),
    /// Name of the histogram and what it says.
    pub took: (&'static str, &'static str),
    /// The label that tells which method it is.
    pub method: &'static str,
}

/// Requests that are answered. What streams took is the time until they began.
const SERVED: Named = Named {
    count: ("grpc_server_requests_total", "Requests over gRPC that were answered"),
    took: (
        "grpc_server_request_duration_seconds",
        "How long requests over gRPC took; of streams, until they began",
    ),
    method: "method",
};

impl Rpcs {
    /// Calls under these names.
    pub fn new(families: &mut Families, named: &Named) -> Self {
        let labels = [named.method, "code"];
        let count = families.counters(named.count.0, named.count.1, labels);
        let took = families.histograms(named.took.0, named.took.1, labels, CALLS);
        Self { count, took }
    }

    /// Requests that are answered, under the names every component has for them.
    pub fn served(families: &mut Families) -> Self {
        Self::new(families, &SERVED)
    }

    /// One ended.
    pub fn ended(&self, method: &'static str, code: Code, took: Duration) {
        let labels = [method, code_word(code)];
        self.count.inc(labels);
        self.took.took(labels, took);
    }
}

/// The word for a code, as the tools of gRPC have it.
#[must_use]
pub fn code_word(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

/// A service whose requests are counted and timed.
#[derive(Debug, Clone)]
pub struct Timed<S> {
    inner: S,
    rpcs: Arc<Rpcs>,
    /// Paths that are told apart; all others are one.
    methods: &'static [&'static str],
}

impl<S> Timed<S> {
    /// Counts what goes to a service.
    pub fn new(inner: S, rpcs: &Arc<Rpcs>, methods: &'static [&'static str]) -> Self {
        Self { inner, rpcs: Arc::clone(rpcs), methods }
    }
}

impl<S: NamedService> NamedService for Timed<S> {
    const NAME: &'static str = S::NAME;
}

type Answering<R, E> = Pin<Box<dyn Future<Output = Result<Response<R>, E>> + Send>>;

impl<S, B, R> Service<Request<B>> for Timed<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Answering<R, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let began = Instant::now();
        let path = request.uri().path();
        let known = self.methods.iter().find(|method| **method == path);
        let method = known.copied().unwrap_or("other");
        let (rpcs, answering) = (Arc::clone(&self.rpcs), self.inner.call(request));
        Box::pin(async move {
            let answer = answering.await;
            // A failure has no body, so its code is among the headers; what has a body began well.
            let code = answer.as_ref().map_or(Code::Internal, |response| {
                Status::from_header_map(response.headers()).map_or(Code::Ok, |status| status.code())
            });
            rpcs.ended(method, code, began.elapsed());
            answer
        })
    }
}
