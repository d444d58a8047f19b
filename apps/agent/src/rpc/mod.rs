//! What a node can be asked: `persys.agent.v1.AgentService`.
//!
//! - orders of schedulers of ours go to the core as they are, tokens and all;
//! - [`legacy`]: orders of those who know no tokens;
//! - [`status`]: how workloads and actions look on the wire;
//! - [`inside`]: a service of its own, output of workloads and commands inside them;
//! - [`logging`]: another, how much the log tells.
//!
//! [`guard`] stands before all of it. A refusal of an order is in the answer and never a gRPC
//! error, because that is where old schedulers read it.

mod console;
mod guard;
pub mod inside;
pub(crate) mod legacy;
pub mod logging;
mod session;
mod status;

use std::sync::Arc;
use std::time::Duration;

use persys_model::command::{Answer, Command, Order};
use persys_model::id::WorkloadId;
use persys_node::ledger::Goal;
use persys_proto::agent::v1 as wire;
use persys_proto::agent::v1::agent_service_server::{AgentService, AgentServiceServer};
use persys_proto::convert::{Said, answer, command, task};
use persys_runtime::Runtime as _;
use persys_telemetry::trace::{TraceLayer, Trail};
use persys_volumes::Volumes;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::{Request, Response, Status};

pub use self::guard::Guarded;
use crate::handle::{Handle, Obeyed, Unanswered};
use crate::history::History;
use crate::host::Meter;
use crate::operations;
use crate::runtimes::Runtimes;
use crate::storage;
use crate::version::Version;

/// Largest message taken.
pub const MESSAGE_BYTES: usize = 4 * 1024 * 1024;
/// How long a removal is waited for; it goes on after that.
const REMOVAL: Duration = Duration::from_secs(5);
/// How long a runtime may take to say more about a workload.
const LOOK: Duration = Duration::from_secs(2);

/// The service of one agent.
#[derive(Debug)]
pub struct Service {
    handle: Handle,
    runtimes: Runtimes,
    volumes: Volumes,
    meter: Arc<Meter>,
    version: Version,
    /// Orders without tokens are taken one at a time: each draws its epoch from what is held.
    one_at_a_time: Mutex<()>,
}

/// The service behind its guard.
pub type Behind = Guarded<AgentServiceServer<Service>>;

/// The service behind its guard; `alone` says that the agent has no schedulers.
#[must_use]
pub fn service(
    handle: Handle,
    (runtimes, volumes): (Runtimes, Volumes),
    (meter, version): (Arc<Meter>, Version),
    alone: bool,
) -> Behind {
    let one_at_a_time = Mutex::default();
    let service = Service { handle, runtimes, volumes, meter, version, one_at_a_time };
    let server = AgentServiceServer::new(service).max_decoding_message_size(MESSAGE_BYTES);
    Guarded::new(server, alone)
}

/// A span for each request, written down where `home` does: a layer before all services.
#[must_use]
pub fn spans(home: &Trail) -> TraceLayer<Body> {
    TraceLayer::new(home, operations::span_of)
}

pub(crate) fn unanswered(error: Unanswered) -> Status {
    match error {
        Unanswered::TimedOut => Status::deadline_exceeded(error.to_string()),
        Unanswered::Stopping => Status::unavailable(error.to_string()),
    }
}

/// Gives an order. A removal that takes long is accepted once its intent is held; the tombstone
/// follows with a beat.
pub(crate) async fn command_to(handle: &Handle, order: Command) -> Result<Obeyed, Unanswered> {
    let removes = match order.order {
        Order::Remove { .. } => true,
        Order::Apply(_) => false,
    };
    if !removes {
        return handle.order(order).await;
    }
    let (workload, epoch) = (order.workload.clone(), order.epoch);
    match timeout(REMOVAL, handle.order(order)).await {
        Ok(Err(Unanswered::TimedOut)) | Err(_) => {}
        Ok(answered) => return answered,
    }
    let look = move |agent: &persys_node::agent::Agent, history: &History| {
        let intent = agent.intents().get(&workload);
        let held = intent.is_some_and(|intent| {
            intent.epoch == epoch && matches!(intent.goal, Goal::Gone { .. })
        });
        let task = history.task(&agent.facts().id, &workload, epoch);
        (held && !agent.holding()).then_some(task)
    };
    match handle.read(look).await? {
        Some(task) => Ok(Obeyed { answer: Answer::Accepted, task }),
        None => Err(Unanswered::TimedOut),
    }
}

impl Service {
    async fn command(&self, order: Command) -> Result<Obeyed, Status> {
        command_to(&self.handle, order).await.map_err(unanswered)
    }

    async fn status(&self, workload: &WorkloadId) -> Result<Option<wire::WorkloadStatus>, Status> {
        let workload = workload.clone();
        let look = move |agent: &_, history: &_| status::one(agent, history, &workload);
        self.handle.read(look).await.map_err(unanswered)
    }
}

#[tonic::async_trait]
impl AgentService for Service {
    async fn apply_workload(
        &self,
        request: Request<wire::ApplyWorkloadRequest>,
    ) -> Result<Response<wire::ApplyWorkloadResponse>, Status> {
        let order = match command::from_apply(request.into_inner()) {
            Ok(Said::Ours(order)) => order,
            Ok(Said::Legacy(draft)) => return self.legacy_apply(draft).await.map(Response::new),
            Err(faults) => {
                let message = faults.to_string();
                return Ok(Response::new(legacy::not_applied(message)));
            }
        };
        let (workload, epoch) = (order.workload.clone(), order.epoch);
        let Obeyed { answer, task } = self.command(order).await?;
        let mut response = answer::to_apply(&answer, epoch);
        response.task = task.as_ref().map(task::to_wire);
        response.status = self.status(&workload).await?;
        Ok(Response::new(response))
    }

    async fn delete_workload(
        &self,
        request: Request<wire::DeleteWorkloadRequest>,
    ) -> Result<Response<wire::DeleteWorkloadResponse>, Status> {
        let order = match command::from_delete(request.get_ref()) {
            Ok(Said::Ours(order)) => order,
            Ok(Said::Legacy(workload)) => {
                return self.legacy_delete(workload).await.map(Response::new);
            }
            Err(faults) => {
                let message = faults.to_string();
                return Ok(Response::new(legacy::not_deleted(message)));
            }
        };
        let epoch = order.epoch;
        let Obeyed { answer, task } = self.command(order).await?;
        let task = task.as_ref().map(task::to_wire);
        Ok(Response::new(wire::DeleteWorkloadResponse {
            task,
            ..answer::to_delete(&answer, epoch)
        }))
    }

    async fn get_workload_status(
        &self,
        request: Request<wire::GetWorkloadStatusRequest>,
    ) -> Result<Response<wire::GetWorkloadStatusResponse>, Status> {
        let id = request.into_inner().id;
        // Old schedulers look for exactly these words, and take them for "deleted".
        let unknown = || Status::unknown(format!("status not found: {id}"));
        let workload = WorkloadId::new(&id).ok().ok_or_else(unknown)?;
        let mut status = self.status(&workload).await?.ok_or_else(unknown)?;
        if let Ok(Ok(Some(thing))) = timeout(LOOK, self.runtimes.inspect(&workload)).await {
            status::add_thing(&mut status, &thing);
        }
        if let Ok(Some(end)) = timeout(LOOK, self.runtimes.end_of(&workload)).await {
            status::add_end(&mut status, &end);
        }
        status::add_usage(&mut status, self.runtimes.usages());
        Ok(Response::new(wire::GetWorkloadStatusResponse { status: Some(status) }))
    }

    async fn list_workloads(
        &self,
        request: Request<wire::ListWorkloadsRequest>,
    ) -> Result<Response<wire::ListWorkloadsResponse>, Status> {
        let wanted = request.into_inner().r#type;
        let mut workloads = self.handle.read(status::all).await.map_err(unanswered)?;
        if wanted != i32::from(wire::WorkloadType::Unspecified) {
            workloads.retain(|status| status.r#type == wanted);
        }
        for status in &mut workloads {
            status::add_usage(status, self.runtimes.usages());
        }
        Ok(Response::new(wire::ListWorkloadsResponse { workloads }))
    }

    async fn health_check(
        &self,
        _request: Request<wire::HealthCheckRequest>,
    ) -> Result<Response<wire::HealthCheckResponse>, Status> {
        let load = self.meter.last();
        let percent = |permille: u32| f64::from(permille) / 10.0;
        let mut runtime_status = self.runtimes.told().await;
        runtime_status.extend(storage::status(&self.volumes));
        Ok(Response::new(wire::HealthCheckResponse {
            // The agent answers; how its runtimes are is said beside it.
            healthy: true,
            version: self.version.shown().to_owned(),
            runtime_status,
            memory_utilization: percent(load.memory_permille),
            cpu_utilization: percent(load.cpu_permille),
            disk_utilization: percent(load.disk_permille),
        }))
    }

    async fn list_actions(
        &self,
        request: Request<wire::ListActionsRequest>,
    ) -> Result<Response<wire::ListActionsResponse>, Status> {
        let filter = request.into_inner();
        let look = move |_: &_, history: &_| status::actions(history, &filter);
        let actions = self.handle.read(look).await.map_err(unanswered)?;
        Ok(Response::new(wire::ListActionsResponse { actions }))
    }
}
