//! An agent of the field under our scheduler: it knows the contract and nothing of ours. It takes
//! orders as tasks in the background, tells states in five words, and has the habits of such agents:
//! slow deletes, refusals, states that are not what was ordered.

#![expect(clippy::needless_pass_by_value, reason = "methods of a service take their request")]

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::Ready;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use persys_e2e::stack::{Stack, Wire};
use persys_identity::{Bundle, ClusterName, Credentials, Exposure, Incoming, Role};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::codegen::http::{Request as HttpRequest, Response as HttpResponse};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

use crate::calls::call;
use crate::messages::{agent as wire, control};

const STOPPED: i32 = wire::STOPPED;

/// One workload, and the task under way for it.
#[derive(Debug, Clone)]
pub(crate) struct Has {
    pub(crate) revision: String,
    pub(crate) desired: i32,
    pub(crate) actual: i32,
    pub(crate) message: String,
    kind: i32,
    task: Option<(Instant, Option<wire::ApplyWorkloadRequest>)>,
}

/// Ways in which agents of the field say that they do not have a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// gRPC `Unknown` with the words "status not found".
    Words,
    /// gRPC `NotFound`, for deletes too.
    Code,
    /// A status `FAILED` with the message "workload not found".
    FailedStatus,
}

/// Its workloads and its habits.
#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) has: BTreeMap<String, Has>,
    pub(crate) apply_takes: Duration,
    pub(crate) delete_takes: Duration,
    /// The answer to every apply, in place of taking it.
    pub(crate) refuses: Option<&'static str>,
    /// Its answer for a workload it does not have.
    pub(crate) missing: Missing,
    /// It neither answers nor sends heartbeats.
    pub(crate) away: bool,
    pub(crate) deleted: Vec<String>,
    pub(crate) drained: bool,
    actions: Vec<wire::AgentAction>,
}

/// An agent of the field.
#[derive(Debug, Clone)]
pub(crate) struct TheirAgent(Arc<Mutex<Inside>>);

impl TheirAgent {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Inside {
            has: BTreeMap::new(),
            apply_takes: Duration::from_millis(300),
            delete_takes: Duration::from_millis(300),
            refuses: None,
            missing: Missing::Words,
            away: false,
            deleted: Vec::new(),
            drained: false,
            actions: Vec::new(),
        })))
    }

    /// Looks inside, after all tasks whose time has come.
    pub(crate) fn inside<T>(&self, look: impl FnOnce(&mut Inside) -> T) -> T {
        let mut inside = self.0.lock().unwrap();
        let now = Instant::now();
        inside.has.retain(|_, one| {
            let Some((at, apply)) = one.task.clone() else { return true };
            if now < at {
                return true;
            }
            one.task = None;
            let Some(apply) = apply else { return false };
            one.revision = apply.revision_id;
            one.desired = apply.desired_state;
            one.message.clear();
            one.actual = if one.desired == STOPPED {
                wire::ACTUALLY_STOPPED
            } else {
                wire::ACTUALLY_RUNNING
            };
            true
        });
        look(&mut inside)
    }

    fn answers<T>(&self, look: impl FnOnce(&mut Inside) -> T) -> Result<T, Status> {
        self.inside(
            |inside| {
                if inside.away { Err(Status::unavailable("away")) } else { Ok(look(inside)) }
            },
        )
    }

    fn apply(
        &self,
        request: wire::ApplyWorkloadRequest,
    ) -> Result<wire::ApplyWorkloadResponse, Status> {
        self.answers(|inside| {
            if let Some(why) = inside.refuses {
                let message = why.to_owned();
                return wire::ApplyWorkloadResponse { message, ..Default::default() };
            }
            let id = request.id.clone();
            let same = inside.has.get(&id).is_some_and(|one| {
                let as_told = one.revision == request.revision_id
                    && one.desired == request.desired_state
                    && one.task.is_none();
                as_told && one.actual == wire::ACTUALLY_RUNNING
            });
            let until = Instant::now() + inside.apply_takes;
            let one = inside.has.entry(id.clone()).or_insert_with(|| Has {
                revision: request.revision_id.clone(),
                desired: request.desired_state,
                actual: wire::ACTUALLY_PENDING,
                message: String::new(),
                kind: request.kind,
                task: None,
            });
            if !same {
                one.task = Some((until, Some(request)));
            }
            let mut status = status_of(&id, one);
            status.actual_state = wire::ACTUALLY_PENDING;
            let task = format!("task-{}", inside.actions.len());
            status.metadata.insert("task_id".to_owned(), task.clone());
            status.metadata.insert("task_status".to_owned(), "pending".to_owned());
            inside.actions.push(action(task, &id, "apply_workload"));
            wire::ApplyWorkloadResponse {
                applied: true,
                skipped: same,
                message: String::new(),
                status: Some(status),
            }
        })
    }

    fn delete(&self, named: wire::Named) -> Result<wire::DeleteWorkloadResponse, Status> {
        let by_code = self.answers(|inside| {
            inside.missing == Missing::Code && !inside.has.contains_key(&named.id)
        })?;
        if by_code {
            return Err(Status::not_found("no such workload"));
        }
        self.answers(|inside| {
            inside.deleted.push(named.id.clone());
            let until = Instant::now() + inside.delete_takes;
            let task = format!("task-{}", inside.actions.len());
            inside.actions.push(action(task, &named.id, "delete_workload"));
            let Some(one) = inside.has.get_mut(&named.id) else {
                let message = "workload not found".to_owned();
                return wire::DeleteWorkloadResponse { success: false, message };
            };
            if !matches!(one.task, Some((_, None))) {
                one.task = Some((until, None));
            }
            wire::DeleteWorkloadResponse { success: true, message: String::new() }
        })
    }

    fn status(&self, named: wire::Named) -> Result<wire::GetWorkloadStatusResponse, Status> {
        let (found, missing) = self.answers(|inside| {
            (inside.has.get(&named.id).map(|one| status_of(&named.id, one)), inside.missing)
        })?;
        let status = match (found, missing) {
            (Some(found), _) => found,
            (None, Missing::Words) => {
                return Err(Status::unknown(format!("status not found: {}", named.id)));
            }
            (None, Missing::Code) => return Err(Status::not_found("no such workload")),
            (None, Missing::FailedStatus) => wire::WorkloadStatus {
                id: named.id,
                actual_state: wire::ACTUALLY_FAILED,
                message: "workload not found".to_owned(),
                ..Default::default()
            },
        };
        Ok(wire::GetWorkloadStatusResponse { status: Some(status) })
    }

    fn list(&self, _: wire::ListWorkloadsRequest) -> Result<wire::ListWorkloadsResponse, Status> {
        self.answers(|inside| wire::ListWorkloadsResponse {
            workloads: inside.has.iter().map(|(id, one)| status_of(id, one)).collect(),
        })
    }

    fn health(&self, (): ()) -> Result<wire::HealthCheckResponse, Status> {
        self.answers(|_| wire::HealthCheckResponse { healthy: true, ..Default::default() })
    }

    fn actions(
        &self,
        request: wire::ListActionsRequest,
    ) -> Result<wire::ListActionsResponse, Status> {
        self.answers(|inside| {
            let mine = inside.actions.iter().filter(|one| one.workload_id == request.workload_id);
            wire::ListActionsResponse { actions: mine.rev().cloned().collect() }
        })
    }

    fn beat(&self, node: &str) -> Option<control::HeartbeatRequest> {
        self.inside(|inside| {
            if inside.away {
                return None;
            }
            let status = |(id, one): (&String, &Has)| control::HeartbeatStatus {
                workload_id: id.clone(),
                state: match one.actual {
                    wire::ACTUALLY_PENDING => "Pending",
                    wire::ACTUALLY_RUNNING => "Running",
                    wire::ACTUALLY_STOPPED => "Stopped",
                    _ => "Unknown",
                }
                .to_owned(),
                failure_reason: 0,
                message: one.message.clone(),
            };
            Some(control::HeartbeatRequest {
                node_id: node.to_owned(),
                usage: Some(control::NodeUsage::default()),
                workload_statuses: inside.has.iter().map(status).collect(),
                timestamp: Some(SystemTime::now().into()),
            })
        })
    }
}

fn status_of(id: &str, one: &Has) -> wire::WorkloadStatus {
    wire::WorkloadStatus {
        id: id.to_owned(),
        kind: one.kind,
        revision_id: one.revision.clone(),
        desired_state: one.desired,
        actual_state: one.actual,
        message: one.message.clone(),
        created_at: 1,
        ..wire::WorkloadStatus::default()
    }
}

fn action(task_id: String, id: &str, kind: &str) -> wire::AgentAction {
    wire::AgentAction {
        task_id,
        workload_id: id.to_owned(),
        action_type: kind.to_owned(),
        status: "completed".to_owned(),
        created_at: 1,
        ..wire::AgentAction::default()
    }
}

/// One method of the service.
struct Method<Q, A>(TheirAgent, fn(&TheirAgent, Q) -> Result<A, Status>);

impl<Q: Send + 'static, A: Send + 'static> UnaryService<Q> for Method<Q, A> {
    type Response = A;
    type Future = Ready<Result<Response<A>, Status>>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        std::future::ready((self.1)(&self.0, request.into_inner()).map(Response::new))
    }
}

impl NamedService for TheirAgent {
    const NAME: &'static str = "persys.agent.v1.AgentService";
}

async fn serve<Q, A>(method: Method<Q, A>, request: HttpRequest<Body>) -> HttpResponse<Body>
where
    Q: prost::Message + Default + Send + 'static,
    A: prost::Message + Default + Send + 'static,
{
    Grpc::new(ProstCodec::<A, Q>::default()).unary(method, request).await
}

impl Service<HttpRequest<Body>> for TheirAgent {
    type Response = HttpResponse<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        let agent = self.clone();
        async move {
            let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            Ok(match method.as_str() {
                "ApplyWorkload" => serve(Method(agent, TheirAgent::apply), request).await,
                "DeleteWorkload" => serve(Method(agent, TheirAgent::delete), request).await,
                "GetWorkloadStatus" => serve(Method(agent, TheirAgent::status), request).await,
                "ListWorkloads" => serve(Method(agent, TheirAgent::list), request).await,
                "HealthCheck" => serve(Method(agent, TheirAgent::health), request).await,
                "ListActions" => serve(Method(agent, TheirAgent::actions), request).await,
                _ => Status::unimplemented("not implemented").into_http(),
            })
        }
        .boxed()
    }
}

/// Starts one: it listens, registers, and beats as the scheduler tells it; after a refusal or an error
/// it registers again, as such agents do.
pub(crate) async fn start(stack: &Stack, node: &str) -> TheirAgent {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let agent = TheirAgent::new();
    let report: persys_identity::Report = Arc::new(|_| {});
    let incoming = if let Some(issued) = stack.issued(Role::Agent, node) {
        let bundle = Bundle::from_issued(&issued, SystemTime::now()).unwrap();
        Incoming::tls(listener, &Credentials::new(bundle), report).unwrap()
    } else {
        let cluster = ClusterName::new("stack").unwrap();
        Incoming::plain(listener, cluster, Exposure::Loopback, report).unwrap()
    };
    tokio::spawn(Server::builder().add_service(agent.clone()).serve_with_incoming(incoming));
    let channel = stack.channel(Role::Agent, node).await;
    tokio::spawn(live(agent.clone(), channel, node.to_owned(), at));
    agent
}

async fn live(agent: TheirAgent, channel: Channel, node: String, at: SocketAddr) {
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        if agent.inside(|inside| inside.away) {
            continue;
        }
        let Ok(registered) = control_call::<_, control::RegisterNodeResponse>(
            &channel,
            "RegisterNode",
            registration(&node, at),
        )
        .await
        else {
            continue;
        };
        if !registered.accepted {
            continue;
        }
        let seconds = u64::try_from(registered.heartbeat_interval_seconds).unwrap_or(10);
        while let Some(beat) = agent.beat(&node) {
            let heard: Result<control::HeartbeatResponse, _> =
                control_call(&channel, "Heartbeat", beat).await;
            let Ok(heard) = heard else { break };
            agent.inside(|inside| inside.drained = heard.drain_node);
            tokio::time::sleep(Duration::from_secs(seconds.max(1))).await;
        }
    }
}

async fn control_call<Q, A>(channel: &Channel, method: &str, request: Q) -> Result<A, Status>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    call(channel, &format!("persys.control.v1.AgentControl/{method}"), request).await
}

fn registration(node: &str, at: SocketAddr) -> control::RegisterNodeRequest {
    control::RegisterNodeRequest {
        node_id: node.to_owned(),
        capabilities: Some(control::NodeCapabilities {
            cpu_total_millicores: 4_000,
            memory_total_mb: 4_096,
            supported_workload_types: vec!["container".to_owned()],
            supported_storage_drivers: vec!["local".to_owned()],
        }),
        grpc_endpoint: at.to_string(),
        agent_version: "1.0.0".to_owned(),
        timestamp: Some(SystemTime::now().into()),
        ..control::RegisterNodeRequest::default()
    }
}

/// Names of the agents that have a workload, whatever its state.
pub(crate) fn holders<'a>(agents: &[(&'a str, TheirAgent)], id: &str) -> BTreeSet<&'a str> {
    let has = |agent: &TheirAgent| agent.inside(|inside| inside.has.contains_key(id));
    agents.iter().filter(|(_, agent)| has(agent)).map(|(name, _)| *name).collect()
}

/// The wire of a stack, for those who only start one.
pub(crate) async fn stack(wire: Wire) -> Stack {
    Stack::start(wire).await
}
