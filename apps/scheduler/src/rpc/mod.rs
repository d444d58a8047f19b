//! `persys.control.v1.AgentControl` and `persys.compute.v1.Compute`: requests in, answers out,
//! nothing decided.
//!
//! ```text
//!   connection ──► guard: who may call this? ──► Control ──► convert ──► Handle
//!                  (access: one table)      │       │ └ events ──► store
//!                     │                     │       └ stream ──► links::streams
//!                     │                     └──► Compute ──► Handle · agents
//!                     └─ does another process lead? ──► forward ──► its guard
//! ```

mod access;
mod agents;
mod attempts;
mod audit;
mod automation;
mod check;
mod compute;
pub(crate) use compute::restart_workload;
mod disks;
mod events;
mod forward;
mod guard;
mod history;
mod leash;
mod logging;
mod nodes;
mod on_behalf;
mod plan;
mod reads;
mod refresh;
mod refusal;
mod rights;
mod secret;
mod secrets;
mod sources;
mod stream;
#[cfg(test)]
mod tests;
mod tokens;
mod workloads;

use std::sync::Arc;

use persys_cluster::settings::Settings;
use persys_git::Fetcher;
use persys_identity::Peer;
use persys_model::node::CONTRACT_LIFE;
use persys_model::time::WallMillis;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::agent_control_server::AgentControl;
use persys_store::Store;
use tokio::sync::{Semaphore, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

use self::agents::Agents;
use self::nodes::Changed;
use crate::clock::Clock;
use crate::handle::{Handle, Looked, Source};
use crate::links::contract::Contract;
use crate::links::streams::Streams;
use crate::metrics::Metrics;
use crate::standing::Role;
use crate::usages::Usages;

pub(crate) use access::Doors;
pub(crate) use audit::AuditService;
pub(crate) use compute::Compute;
pub(crate) use forward::Forward;
pub(crate) use guard::Guarded;
pub(crate) use logging::LoggingService;
pub(crate) use rights::Rights;
pub(crate) use secrets::SecretsService;
pub use tokens::Enrolment;
pub(crate) use tokens::{Tokens, denied};

/// Largest message that is read.
pub(crate) const LARGEST: usize = 4 * 1024 * 1024;
/// Most agents that keep a stream open.
const MOST_STREAMS: usize = 16 * 1024;
/// Most who watch events at a time.
const MOST_WATCHERS: usize = 256;

/// How old an answer is, in milliseconds, when it is not the present; and who gave it.
const AGE: &str = "persys-copy-age-ms";
const ROLE: &str = "persys-role";

const NO_BUCKETS: &str = "object storage is not part of this system";

/// The service.
#[derive(Clone)]
pub(crate) struct Control {
    handle: Handle,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    agents: Arc<Agents>,
    usages: Arc<Usages>,
    streams: Arc<Streams>,
    /// Gets Compose files out of repositories.
    fetcher: Fetcher,
    /// Room for more streams of agents.
    stream_room: Arc<Semaphore>,
    watchers: Arc<Semaphore>,
    /// What is said on a stream is counted like the calls it stands for.
    metrics: Arc<Metrics>,
    stop: watch::Receiver<bool>,
    /// Name of the cluster it serves; empty accepts nodes of any.
    cluster: Arc<str>,
}

impl Control {
    pub(crate) fn new(
        handle: Handle,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: Settings,
        (contract, streams, fetcher, metrics): (Arc<Contract>, Arc<Streams>, Fetcher, Arc<Metrics>),
        stop: watch::Receiver<bool>,
    ) -> Self {
        let watchers = Arc::new(Semaphore::new(MOST_WATCHERS));
        let stream_room = Arc::new(Semaphore::new(MOST_STREAMS));
        let usages = Arc::<Usages>::default();
        let agents = Arc::new(Agents::new(contract, Arc::clone(&usages)));
        Self {
            handle,
            store,
            clock,
            settings,
            agents,
            usages,
            streams,
            fetcher,
            stream_room,
            watchers,
            metrics,
            stop,
            cluster: Arc::from(""),
        }
    }

    /// Takes only nodes that name this cluster, or none.
    pub(crate) fn serving(self, cluster: &str) -> Self {
        Self { cluster: Arc::from(cluster), ..self }
    }

    fn now(&self) -> WallMillis {
        self.clock.now().wall
    }
}

type Answer<T> = Result<Response<T>, Status>;

/// A method that answers with what a function of ours says.
macro_rules! answer {
    ($self:ident . $method:ident ( $($argument:expr),* )) => {
        $self.$method($($argument),*).await.map(Response::new)
    };
}

/// What somebody sees, and in the metadata how old it is when it is not the present.
fn shown<T>(looked: Looked<T>) -> Response<T> {
    let mut response = Response::new(looked.value);
    let (role, age) = match looked.from {
        Source::Present => return response,
        Source::Memory(age) => (Role::Leader, age),
        Source::Copy(age) => (Role::Follower, age),
    };
    let metadata = response.metadata_mut();
    metadata.insert(ROLE, MetadataValue::from_static(role.word()));
    metadata.insert(AGE, MetadataValue::from(age));
    response
}

/// A method that answers with what was seen.
macro_rules! look {
    ($self:ident . $method:ident ( $($argument:expr),* )) => {
        $self.$method($($argument),*).await.map(shown)
    };
}

/// A method whose answer is what became of a node.
macro_rules! node_answer {
    ($self:ident . $method:ident ( $request:ident ) as $response:ident) => {{
        let Changed { message, node } = $self.$method($request.into_inner()).await?;
        Ok(Response::new(wire::$response { accepted: true, message, node }))
    }};
}

#[tonic::async_trait]
impl AgentControl for Control {
    type ControlStreamStream = ReceiverStream<Result<wire::ControlMessage, Status>>;
    type WatchEventsStream = ReceiverStream<Result<wire::SchedulerEventView, Status>>;

    async fn register_node(
        &self,
        request: Request<wire::RegisterNodeRequest>,
    ) -> Answer<wire::RegisterNodeResponse> {
        let peer = Peer::of(&request).cloned();
        answer!(self.register(peer.as_ref(), request.into_inner(), CONTRACT_LIFE))
    }

    async fn heartbeat(
        &self,
        request: Request<wire::HeartbeatRequest>,
    ) -> Answer<wire::HeartbeatResponse> {
        let peer = Peer::of(&request).cloned();
        answer!(self.hear(peer.as_ref(), request.into_inner()))
    }

    async fn apply_workload(
        &self,
        request: Request<wire::ApplyWorkloadRequest>,
    ) -> Answer<wire::ApplyWorkloadResponse> {
        answer!(self.apply(request.into_inner()))
    }

    async fn delete_workload(
        &self,
        request: Request<wire::DeleteWorkloadRequest>,
    ) -> Answer<wire::DeleteWorkloadResponse> {
        answer!(self.delete(request.into_inner()))
    }

    async fn retry_workload(
        &self,
        request: Request<wire::RetryWorkloadRequest>,
    ) -> Answer<wire::RetryWorkloadResponse> {
        answer!(self.retry(request.into_inner()))
    }

    async fn submit_automation_suggestion(
        &self,
        request: Request<wire::SubmitAutomationSuggestionRequest>,
    ) -> Answer<wire::SubmitAutomationSuggestionResponse> {
        answer!(self.suggest(request.into_inner()))
    }

    async fn list_nodes(
        &self,
        request: Request<wire::ListNodesRequest>,
    ) -> Answer<wire::ListNodesResponse> {
        look!(self.nodes(request.into_inner()))
    }

    async fn get_node(
        &self,
        request: Request<wire::GetNodeRequest>,
    ) -> Answer<wire::GetNodeResponse> {
        look!(self.node(request.into_inner()))
    }

    async fn list_workloads(
        &self,
        request: Request<wire::ListWorkloadsRequest>,
    ) -> Answer<wire::ListWorkloadsResponse> {
        look!(self.workloads(request.into_inner()))
    }

    async fn get_workload(
        &self,
        request: Request<wire::GetWorkloadRequest>,
    ) -> Answer<wire::GetWorkloadResponse> {
        look!(self.workload(request.into_inner()))
    }

    async fn get_cluster_summary(
        &self,
        _request: Request<wire::GetClusterSummaryRequest>,
    ) -> Answer<wire::GetClusterSummaryResponse> {
        look!(self.summary())
    }

    async fn control_stream(
        &self,
        request: Request<Streaming<wire::ControlMessage>>,
    ) -> Answer<Self::ControlStreamStream> {
        self.open_stream(request).map(Response::new)
    }

    async fn drain_node(
        &self,
        request: Request<wire::DrainNodeRequest>,
    ) -> Answer<wire::DrainNodeResponse> {
        answer!(self.drain(request.into_inner()))
    }

    async fn undrain_node(
        &self,
        request: Request<wire::UndrainNodeRequest>,
    ) -> Answer<wire::UndrainNodeResponse> {
        node_answer!(self.undrain(request) as UndrainNodeResponse)
    }

    async fn taint_node(
        &self,
        request: Request<wire::TaintNodeRequest>,
    ) -> Answer<wire::TaintNodeResponse> {
        node_answer!(self.taint(request) as TaintNodeResponse)
    }

    async fn untaint_node(
        &self,
        request: Request<wire::UntaintNodeRequest>,
    ) -> Answer<wire::UntaintNodeResponse> {
        node_answer!(self.untaint(request) as UntaintNodeResponse)
    }

    async fn set_node_label(
        &self,
        request: Request<wire::SetNodeLabelRequest>,
    ) -> Answer<wire::SetNodeLabelResponse> {
        node_answer!(self.set_label(request) as SetNodeLabelResponse)
    }

    async fn delete_node_label(
        &self,
        request: Request<wire::DeleteNodeLabelRequest>,
    ) -> Answer<wire::DeleteNodeLabelResponse> {
        node_answer!(self.delete_label(request) as DeleteNodeLabelResponse)
    }

    async fn list_events(
        &self,
        request: Request<wire::ListEventsRequest>,
    ) -> Answer<wire::ListEventsResponse> {
        self.find_events(request.into_inner()).await.map(Response::new)
    }

    async fn watch_events(
        &self,
        request: Request<wire::WatchEventsRequest>,
    ) -> Answer<Self::WatchEventsStream> {
        self.follow_events(request.into_inner()).await.map(Response::new)
    }

    async fn create_disk(
        &self,
        request: Request<wire::CreateDiskRequest>,
    ) -> Answer<wire::CreateDiskResponse> {
        answer!(self.create_disk_alone(request.into_inner()))
    }

    async fn list_disks(
        &self,
        _request: Request<wire::ListDisksRequest>,
    ) -> Answer<wire::ListDisksResponse> {
        look!(self.disks())
    }

    async fn get_disk(
        &self,
        request: Request<wire::GetDiskRequest>,
    ) -> Answer<wire::GetDiskResponse> {
        look!(self.disk(request.into_inner()))
    }

    async fn delete_disk(
        &self,
        request: Request<wire::DeleteDiskRequest>,
    ) -> Answer<wire::DeleteDiskResponse> {
        answer!(self.delete_disk_of(request.into_inner()))
    }

    async fn create_bucket(
        &self,
        _request: Request<wire::CreateBucketRequest>,
    ) -> Answer<wire::CreateBucketResponse> {
        Err(Status::unimplemented(NO_BUCKETS))
    }

    async fn list_buckets(
        &self,
        _request: Request<wire::ListBucketsRequest>,
    ) -> Answer<wire::ListBucketsResponse> {
        Err(Status::unimplemented(NO_BUCKETS))
    }

    async fn get_bucket(
        &self,
        _request: Request<wire::GetBucketRequest>,
    ) -> Answer<wire::GetBucketResponse> {
        Err(Status::unimplemented(NO_BUCKETS))
    }

    async fn delete_bucket(
        &self,
        _request: Request<wire::DeleteBucketRequest>,
    ) -> Answer<wire::DeleteBucketResponse> {
        Err(Status::unimplemented(NO_BUCKETS))
    }

    async fn get_bucket_access(
        &self,
        _request: Request<wire::GetBucketAccessRequest>,
    ) -> Answer<wire::GetBucketAccessResponse> {
        Err(Status::unimplemented(NO_BUCKETS))
    }

    async fn list_bucket_objects(
        &self,
        _request: Request<wire::ListBucketObjectsRequest>,
    ) -> Answer<wire::ListBucketObjectsResponse> {
        Err(Status::unimplemented(NO_BUCKETS))
    }
}
