//! `persys.compute.v1.Compute`: explanations, output of workloads, commands inside them, and the
//! operator's last words.
//!
//! | question | file |
//! |---|---|
//! | why is it so | `why.rs`, from `why_workload.rs` and `why_node.rs` |
//! | everything about one workload | `describe.rs`; what is kept back in `mask.rs` |
//! | have it stopped and started | `restart.rs` |
//! | where it runs, how its agent is asked | `inside.rs` |
//! | output and commands passed on | `streams.rs` |
//! | mode and operator's words | `operate.rs` |
//! | a copy of the store | `snapshot.rs` |
//! | the ways out of recovery | `recover.rs` |
//! | where record and nodes differ | `drift.rs` |

mod describe;
mod drift;
mod inside;
mod mask;
pub(super) use mask::mask;
mod operate;
mod pause;
mod recover;
mod restart;
pub(crate) use restart::restart_workload;
mod snapshot;
mod streams;
mod why;
mod why_health;
mod why_home;
mod why_node;
mod why_workload;
mod words;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod update_states;

use std::sync::Arc;

use persys_cluster::discovery::Zones;
use persys_cluster::settings::Settings;
use persys_model::time::WallMillis;
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::compute_server::Compute as Service;
use persys_store::Store;
use tokio::sync::{Semaphore, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::Control;
use super::agents::Agents;
use crate::clock::Clock;
use crate::handle::Handle;
use crate::links::grpc::GrpcLinks;

/// Most streams of output and commands at a time.
const MOST_STREAMS: usize = 256;

/// Most copies of the store that are made or taken in at a time: each is in memory as a whole.
const MOST_COPIES: usize = 2;

/// The service.
pub(crate) struct Compute {
    handle: Handle,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    agents: Arc<Agents>,
    links: Arc<GrpcLinks>,
    cluster: String,
    zones: Zones,
    streams: Arc<Semaphore>,
    copies: Arc<Semaphore>,
    stop: watch::Receiver<bool>,
}

impl Compute {
    /// Beside `control`, on the same cluster.
    pub(crate) fn new(
        control: &Control,
        links: Arc<GrpcLinks>,
        cluster: &str,
        zones: Zones,
    ) -> Self {
        Self {
            handle: control.handle.clone(),
            store: Arc::clone(&control.store),
            clock: Arc::clone(&control.clock),
            settings: control.settings.clone(),
            agents: Arc::clone(&control.agents),
            links,
            cluster: cluster.to_owned(),
            zones,
            streams: Arc::new(Semaphore::new(MOST_STREAMS)),
            copies: Arc::new(Semaphore::new(MOST_COPIES)),
            stop: control.stop.clone(),
        }
    }

    fn now(&self) -> WallMillis {
        self.clock.now().wall
    }
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Service for Compute {
    type LogsStream = ReceiverStream<Result<api::LogChunk, Status>>;
    type ExecStream = ReceiverStream<Result<api::ExecOutput, Status>>;
    type ConsoleStream = ReceiverStream<Result<api::ConsoleOutput, Status>>;
    type SnapshotStream = ReceiverStream<Result<api::SnapshotChunk, Status>>;

    async fn why(&self, request: Request<api::WhyRequest>) -> Answer<api::WhyResponse> {
        self.explain(request.into_inner()).await.map(Response::new)
    }

    async fn describe(
        &self,
        request: Request<api::DescribeRequest>,
    ) -> Answer<api::DescribeResponse> {
        self.tell_all(request.into_inner()).await.map(Response::new)
    }

    async fn restart(&self, request: Request<api::RestartRequest>) -> Answer<api::RestartResponse> {
        self.start_anew(&request.into_inner().workload_id).await.map(Response::new)
    }

    async fn pause(&self, request: Request<api::PauseRequest>) -> Answer<api::PauseResponse> {
        self.hold_still(&request.into_inner().workload_id).await.map(Response::new)
    }

    async fn resume(&self, request: Request<api::ResumeRequest>) -> Answer<api::ResumeResponse> {
        self.let_run(&request.into_inner().workload_id).await.map(Response::new)
    }

    async fn logs(&self, request: Request<api::LogsRequest>) -> Answer<Self::LogsStream> {
        self.pass_logs(request.into_inner()).await.map(Response::new)
    }

    async fn exec(&self, request: Request<Streaming<api::ExecInput>>) -> Answer<Self::ExecStream> {
        self.pass_exec(request.into_inner()).await.map(Response::new)
    }

    async fn console(
        &self,
        request: Request<Streaming<api::ConsoleInput>>,
    ) -> Answer<Self::ConsoleStream> {
        self.pass_console(request.into_inner()).await.map(Response::new)
    }

    async fn standing(
        &self,
        _request: Request<api::StandingRequest>,
    ) -> Answer<api::StandingResponse> {
        self.tell_standing().await.map(Response::new)
    }

    async fn operate(&self, request: Request<api::OperateRequest>) -> Answer<api::OperateResponse> {
        self.take_word(request.into_inner()).await.map(Response::new)
    }

    async fn snapshot(
        &self,
        _request: Request<api::SnapshotRequest>,
    ) -> Answer<Self::SnapshotStream> {
        self.copy_store().await.map(Response::new)
    }

    async fn recover(
        &self,
        request: Request<Streaming<api::RecoverInput>>,
    ) -> Answer<api::RecoverResponse> {
        self.leave_recovery(request.into_inner()).await.map(Response::new)
    }

    async fn list_drifts(
        &self,
        request: Request<api::ListDriftsRequest>,
    ) -> Answer<api::ListDriftsResponse> {
        self.tell_drifts(request.into_inner()).await.map(Response::new)
    }
}
