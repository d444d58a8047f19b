//! A scheduler of which only the two calls of agents are there.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use persys_identity::{ClusterName, Exposure, Incoming};
use persys_proto::control::v1 as wire;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// How it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It is one of ours and leads.
    Leads,
    /// It is one of ours and does not.
    Follows,
    /// It knows nothing of our fields.
    Old,
}

#[derive(Clone)]
pub(crate) struct Fake {
    kind: Kind,
    pub(crate) registrations: Arc<Mutex<Vec<wire::RegisterNodeRequest>>>,
    pub(crate) beats: Arc<Mutex<Vec<wire::HeartbeatRequest>>>,
    /// Set: it answers nobody.
    pub(crate) away: Arc<AtomicBool>,
    /// Calls that came while it was away.
    pub(crate) missed: Arc<AtomicUsize>,
    /// Set: it wants the node drained.
    pub(crate) drains: Arc<AtomicBool>,
}

/// Serves until dropped.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    pub(crate) fake: Fake,
    _tasks: JoinSet<()>,
}

pub(crate) async fn serve(kind: Kind) -> Serving {
    let fake = Fake {
        kind,
        registrations: Arc::default(),
        beats: Arc::default(),
        away: Arc::default(),
        missed: Arc::default(),
        drains: Arc::default(),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let cluster = ClusterName::new("test").unwrap();
    let incoming =
        Incoming::plain(listener, cluster, Exposure::Loopback, Arc::new(|_| {})).unwrap();
    let mut tasks = JoinSet::new();
    let service = fake.clone();
    tasks.spawn(async move {
        Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
    });
    Serving { address, fake, _tasks: tasks }
}

impl Fake {
    fn ours(&self) -> Result<(u64, u64), Status> {
        if self.away.load(Ordering::SeqCst) {
            self.missed.fetch_add(1, Ordering::SeqCst);
            return Err(Status::unavailable("away"));
        }
        match self.kind {
            Kind::Leads => Ok((5, 9)),
            Kind::Old => Ok((0, 0)),
            Kind::Follows => Err(Status::unavailable("another scheduler leads")),
        }
    }
}

impl NamedService for Fake {
    const NAME: &'static str = "persys.control.v1.AgentControl";
}

type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Service<http::Request<Body>> for Fake {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answer<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let fake = self.clone();
        Box::pin(async move {
            Ok(if request.uri().path().ends_with("/RegisterNode") {
                let codec =
                    ProstCodec::<wire::RegisterNodeResponse, wire::RegisterNodeRequest>::default();
                Grpc::new(codec).unary(fake, request).await
            } else {
                let codec =
                    ProstCodec::<wire::HeartbeatResponse, wire::HeartbeatRequest>::default();
                Grpc::new(codec).unary(fake, request).await
            })
        })
    }
}

impl UnaryService<wire::RegisterNodeRequest> for Fake {
    type Response = wire::RegisterNodeResponse;
    type Future = Answer<Result<Response<Self::Response>, Status>>;

    fn call(&mut self, request: Request<wire::RegisterNodeRequest>) -> Self::Future {
        let answer = self.ours().map(|(term, session)| {
            self.registrations.lock().unwrap().push(request.into_inner());
            Response::new(wire::RegisterNodeResponse {
                accepted: true,
                heartbeat_interval_seconds: 1,
                session,
                term,
                lease_ms: if term == 0 { 0 } else { 6_000 },
                heartbeat_interval_ms: if term == 0 { 0 } else { 100 },
                ..wire::RegisterNodeResponse::default()
            })
        });
        Box::pin(async { answer })
    }
}

impl UnaryService<wire::HeartbeatRequest> for Fake {
    type Response = wire::HeartbeatResponse;
    type Future = Answer<Result<Response<Self::Response>, Status>>;

    fn call(&mut self, request: Request<wire::HeartbeatRequest>) -> Self::Future {
        let answer = self.ours().map(|(term, session)| {
            let beat = request.into_inner();
            let seq = if term == 0 { 0 } else { beat.seq };
            self.beats.lock().unwrap().push(beat);
            let acknowledged = true;
            let drain_node = self.drains.load(Ordering::SeqCst);
            Response::new(wire::HeartbeatResponse {
                acknowledged,
                drain_node,
                term,
                session,
                seq,
                ..wire::HeartbeatResponse::default()
            })
        });
        Box::pin(async { answer })
    }
}
