//! The health of this process in numbers and words: for `/health`, and for gateways that ask the
//! standard health service over gRPC.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use persys_cluster::world::World;
use persys_model::failure::clip;
use persys_model::node::Condition;
use serde_json::{Value, json};
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::server::NamedService;
use tower_service::Service;

use crate::handle::Handle;
use crate::moment::rfc3339;

/// The header of the answer to a health check that has the mode and the node counts, as JSON.
const HEADER: &str = persys_proto::HEALTH_HEADER;
/// The method whose answer has it.
const CHECK: &str = "/grpc.health.v1.Health/Check";
/// Longest wait for the driver: a probe is answered without counts rather than late.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of a reason that go into a header.
const REASON_BYTES: usize = 512;

/// Mode, role and node counts of this process. Counts are missing where none are at hand: a follower
/// does not read the store for a probe.
pub(crate) async fn summary(handle: &Handle) -> Value {
    let standing = handle.standing().borrow().clone();
    let counted = handle.glance(|world| (count_nodes(world), shadow(world)));
    let counted = timeout(PATIENCE, counted).await.ok().flatten();
    let (nodes, shadow) =
        counted.map_or((None, None), |(nodes, shadow)| (Some(nodes), Some(shadow)));
    json!({
        "mode": standing.word(),
        "reason": &*standing.why,
        "modeChangedAt": rfc3339(standing.since),
        "role": standing.role().word(),
        "leader": standing.leader.as_deref(),
        "nodes": nodes,
        "shadow": shadow,
    })
}

fn shadow(world: &World) -> Value {
    json!({ "cluster": world.is_shadow(), "workloads": world.shadow_count() })
}

fn count_nodes(world: &World) -> Value {
    let (mut ready, mut not_ready, mut lost, mut draining) = (0_u64, 0_u64, 0_u64, 0_u64);
    for view in world.nodes() {
        match view.node.condition {
            Condition::Ready => ready += 1,
            Condition::NotReady => not_ready += 1,
            Condition::Lost => lost += 1,
        }
        draining += u64::from(view.node.drain.is_some());
    }
    json!({
        "total": ready + not_ready + lost,
        "ready": ready,
        "notReady": not_ready,
        "lost": lost,
        "draining": draining,
    })
}

/// The standard health service, whose answers also have the mode and the node counts.
#[derive(Debug, Clone)]
pub(crate) struct Described<S> {
    inner: S,
    handle: Handle,
}

impl<S> Described<S> {
    pub(crate) fn new(inner: S, handle: &Handle) -> Self {
        Self { inner, handle: handle.clone() }
    }
}

impl<S: NamedService> NamedService for Described<S> {
    const NAME: &'static str = S::NAME;
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<S> Service<Request<Body>> for Described<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let described = request.uri().path() == CHECK;
        let (answering, handle) = (self.inner.call(request), self.handle.clone());
        Box::pin(async move {
            let mut answer = answering.await?;
            if described {
                let mut said = summary(&handle).await;
                if let Some(reason) = said.get_mut("reason") {
                    *reason = clip(reason.as_str().unwrap_or_default(), REASON_BYTES).into();
                }
                let mut headers = MetadataMap::from_headers(std::mem::take(answer.headers_mut()));
                headers.insert_bin(HEADER, MetadataValue::from_bytes(said.to_string().as_bytes()));
                *answer.headers_mut() = headers.into_headers();
            }
            Ok(answer)
        })
    }
}
