//! Agents reached by calling them, over one kept connection each, or over the stream they opened.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use persys_cluster::contract::{Deed, Found, Outcome, Told};
use persys_cluster::input::Probe;
use persys_cluster::settings::Settings;
use persys_identity::{ConnectError, Connector, Credentials, Expected, Lasting, Name};
use persys_model::command::{Answer, Command, Order};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::node::{BY_STREAM, CONTRACT_HOST};
use persys_model::task::{Task, TaskAction, TaskStatus};
use persys_model::time::WallMillis;
use persys_proto::agent::v1 as agent;
use persys_proto::agent::v1::agent_service_client::AgentServiceClient;
use persys_proto::control::v1 as control;
use persys_proto::convert::command::{Call, to_call, to_legacy_call};
use persys_proto::convert::{Said, answer, report, task};
use persys_telemetry::trace;
use tokio::time::timeout;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

use super::contract::Contract;
use super::streams::{Carries, Open, Streams};
use super::{Links, OrderAnswer, Target, Unreachable};
use crate::metrics::Metrics;
use crate::moment::rfc3339;

/// Longest wait for the answer to an order.
const RPC_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the answer to a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a quiet connection with a call under way is trusted.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// How long it takes at most to notice a broken stream once a call on it has failed.
const BREAKING: Duration = Duration::from_millis(200);
/// Most workloads of one agent that are listed: more are no list of a sound agent.
const MOST_LISTED: usize = 10_000;

/// Said of an agent that answers with tokens where none were sent.
const OTHER_KIND: &str = "an agent of another version answers at its address";

/// Actions of an agent that are attached to an attempt that made no progress.
const ACTIONS_TOLD: i32 = 20;

type Attach = fn(Request<()>) -> Result<Request<()>, Status>;
type Client = AgentServiceClient<InterceptedService<Channel, Attach>>;

/// How connections are made.
#[derive(Debug, Clone)]
pub enum Way {
    /// Without certificates.
    Plain,
    /// With them, both sides.
    Tls(Credentials),
}

/// The way to all agents.
#[derive(Debug)]
pub struct GrpcLinks {
    way: Way,
    channels: Mutex<BTreeMap<NodeId, (Arc<str>, Lasting)>>,
    contract: Arc<Contract>,
    streams: Arc<Streams>,
    metrics: Arc<Metrics>,
}

impl GrpcLinks {
    /// No connection yet; each is made with the first call.
    #[must_use]
    pub fn new(way: Way) -> Self {
        Self::counting(way, Arc::default(), Settings::default().status_poll_ms)
    }

    pub(crate) fn counting(way: Way, metrics: Arc<Metrics>, poll_ms: u64) -> Self {
        let (channels, streams) = (Mutex::default(), Arc::default());
        let contract = Arc::new(Contract::new(poll_ms));
        Self { way, channels, contract, streams, metrics }
    }

    /// Agents that know only the contract.
    pub(crate) fn contract(&self) -> Arc<Contract> {
        Arc::clone(&self.contract)
    }

    /// Where calls are counted.
    pub(crate) fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// The streams agents keep open.
    pub(crate) fn streams(&self) -> Arc<Streams> {
        Arc::clone(&self.streams)
    }

    /// The kept connection; a new one when the node has moved. Dropping the old one ends its calls.
    pub(crate) fn channel(&self, to: &Target) -> Result<Channel, Unreachable> {
        if *to.endpoint == *BY_STREAM {
            let channel = self.streams.tunnel(&to.node);
            return channel.ok_or_else(|| Unreachable::never_sent("it keeps no stream open"));
        }
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = match channels.get(&to.node) {
            Some((at, lasting)) if *at == to.endpoint => lasting.channel(),
            Some(_) | None => {
                let lasting = self.open(&to.node, &to.endpoint)?;
                let channel = lasting.channel();
                channels.insert(to.node.clone(), (Arc::clone(&to.endpoint), lasting));
                channel
            }
        };
        Ok(channel)
    }

    fn client(&self, to: &Target) -> Result<Client, Unreachable> {
        let attach: Attach = trace::attach;
        Ok(AgentServiceClient::with_interceptor(self.channel(to)?, attach))
    }

    fn open(&self, node: &NodeId, endpoint: &str) -> Result<Lasting, Unreachable> {
        let connector = match &self.way {
            Way::Plain => Connector::plain(),
            Way::Tls(credentials) => {
                let name = Name::new(node.as_str()).map_err(Unreachable::never_sent)?;
                let expected = Expected::Agent(name);
                Connector::tls(credentials, expected).map_err(Unreachable::never_sent)?
            }
        };
        let endpoint = Endpoint::from_shared(format!("http://{endpoint}"));
        let endpoint = endpoint.map_err(Unreachable::never_sent)?;
        let endpoint = endpoint.http2_keep_alive_interval(KEEPALIVE).keep_alive_timeout(KEEPALIVE);
        Ok(Lasting::new(endpoint, connector))
    }

    /// Calls, counts, and gives up in time. An agent that restarted leaves a dead connection behind,
    /// which only a call finds out; orders and questions may be repeated, so that is done at once.
    async fn call<T, F>(&self, rpc: &'static str, call: impl Fn() -> F) -> Result<T, Status>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let began = Instant::now();
        let twice = async {
            match call().await {
                Err(why) if is_stale(&why) => call().await.map_err(|second| match second {
                    // The first one may have arrived, whatever became of the second.
                    second if ConnectError::within(&second).is_some() => {
                        Status::unavailable(format!("the connection broke off: {second}"))
                    }
                    second => second,
                }),
                answer => answer,
            }
        };
        let answer = timeout(RPC_TIMEOUT, twice).await;
        let answer = answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")));
        let code = answer.as_ref().map_or_else(Status::code, |_| Code::Ok);
        self.metrics.called.ended(rpc, code, began.elapsed());
        answer.map(Response::into_inner)
    }

    /// The stream of a node that takes its orders as messages, if it has one. Nobody waits for the
    /// stream of one that can be called.
    async fn messages(&self, to: &Target) -> Option<Arc<Open>> {
        let called = !is_legacy(to) && *to.endpoint != *BY_STREAM;
        if *to.endpoint == *BY_STREAM {
            self.streams.await_one(&to.node).await;
        }
        let open = self.streams.of(&to.node)?;
        let messages = matches!(open.carries(), Carries::Messages(_));
        let ready = messages && if called { open.is_ready() } else { open.ready().await };
        ready.then_some(open)
    }

    /// Orders as messages, or says that this stream carries none.
    async fn order_on(
        &self,
        open: &Open,
        to: &Target,
        command: &Command,
    ) -> Option<Result<OrderAnswer, Unreachable>> {
        let Carries::Messages(messages) = open.carries() else { return None };
        let began = Instant::now();
        let answer = if is_legacy(to) {
            messages.tell(open, command).await.map(|()| Answer::Accepted.into())
        } else {
            messages.ask(open, command).await
        };
        let code = if answer.is_ok() { Code::Ok } else { Code::Unavailable };
        let rpc = match &command.order {
            Order::Apply(_) => "ApplyWorkload",
            Order::Remove { .. } => "DeleteWorkload",
        };
        self.metrics.called.ended(rpc, code, began.elapsed());
        Some(answer)
    }

    async fn order_once(&self, to: &Target, command: &Command) -> Result<OrderAnswer, Unreachable> {
        if is_legacy(to) {
            return Box::pin(self.order_contract(to, command)).await;
        }
        if let Some(open) = self.messages(to).await
            && let Some(answer) = self.order_on(&open, to, command).await
        {
            // What broke off with the stream of one that can be called is called for.
            let again = *to.endpoint != *BY_STREAM && open.is_over();
            if answer.is_ok() || !again {
                return answer;
            }
        }
        // Set apart: without it, every order on a stream would have the size of a call.
        Box::pin(self.order_by_call(to, command)).await
    }

    async fn order_by_call(
        &self,
        to: &Target,
        command: &Command,
    ) -> Result<OrderAnswer, Unreachable> {
        let client = self.client(to)?;
        match to_call(command) {
            Call::Apply(request) => {
                let said = self.apply(client, *request).await?;
                match answer::from_apply(&said).map_err(unreachable)? {
                    Said::Ours(answer) => {
                        Ok(OrderAnswer { answer, task: named(said.task.as_ref()) })
                    }
                    Said::Legacy(old) => Err(unreachable(old.message)),
                }
            }
            Call::Delete(request) => {
                let said = self.delete(client, request).await.map_err(|why| failed(&why))?;
                match answer::from_delete(&said).map_err(unreachable)? {
                    Said::Ours(answer) => {
                        Ok(OrderAnswer { answer, task: named(said.task.as_ref()) })
                    }
                    Said::Legacy(old) => Err(unreachable(old.message)),
                }
            }
        }
    }

    /// Gives an order to an agent that knows only the contract. What it means for such an agent, and
    /// what its answer means, is decided by the component of the core.
    async fn order_contract(
        &self,
        to: &Target,
        command: &Command,
    ) -> Result<OrderAnswer, Unreachable> {
        let context = to.context.as_deref().cloned().unwrap_or_default();
        let deed = self.contract.with(|agents, now| agents.order(&to.node, command, &context, now));
        let order = match &deed {
            Deed::Nothing(answer) => return Ok(answer.clone().into()),
            Deed::Apply(apply) | Deed::StopInstead(apply) => Order::Apply(apply.clone()),
            Deed::Delete => Order::Remove { purge: true },
        };
        let given = Command { order, ..command.clone() };
        let told = match self.messages(to).await {
            Some(open) => self.order_on(&open, to, &given).await,
            None => None,
        };
        let (outcome, task) = match told {
            Some(told) => told.map(|_| (Outcome::Accepted, None))?,
            None => self.call_contract(to, &given).await?,
        };
        let about = (&deed, &outcome);
        let answer =
            self.contract.with(|agents, now| agents.ordered(&to.node, command, about, now));
        self.contract.wake();
        Ok(OrderAnswer { answer, task })
    }

    async fn call_contract(
        &self,
        to: &Target,
        command: &Command,
    ) -> Result<(Outcome, Option<Arc<Task>>), Unreachable> {
        let client = self.client(to)?;
        let call = match to_legacy_call(command) {
            Ok(call) => call,
            // Placement keeps such work away; what slips through fails with the cause.
            Err(faults) => {
                return Ok((Outcome::Refused(format!("invalid: {faults}").into()), None));
            }
        };
        match call {
            Call::Apply(request) => {
                let said = self.apply(client, *request).await?;
                match answer::from_apply(&said).map_err(unreachable)? {
                    Said::Legacy(old) if old.done || old.skipped => {
                        let task = old.task;
                        let task = task.map(|(id, status)| Arc::new(begun(&to.node, id, status)));
                        Ok((Outcome::Accepted, task))
                    }
                    Said::Legacy(old) => Ok((Outcome::Refused(old.message), None)),
                    Said::Ours(_) => Err(unreachable(OTHER_KIND)),
                }
            }
            Call::Delete(request) => match self.delete(client, request).await {
                Err(why) if is_gone(&why) => {
                    Ok((Outcome::Refused(Arc::from("workload not found")), None))
                }
                Err(why) => Err(failed(&why)),
                Ok(said) => match answer::from_delete(&said).map_err(unreachable)? {
                    Said::Legacy(old) if old.done => Ok((Outcome::Accepted, None)),
                    Said::Legacy(old) => Ok((Outcome::Refused(old.message), None)),
                    Said::Ours(_) => Err(unreachable(OTHER_KIND)),
                },
            },
        }
    }

    async fn apply(
        &self,
        client: Client,
        request: agent::ApplyWorkloadRequest,
    ) -> Result<agent::ApplyWorkloadResponse, Unreachable> {
        let call = || {
            let (mut client, request) = (client.clone(), request.clone());
            async move { client.apply_workload(request).await }
        };
        self.call("ApplyWorkload", call).await.map_err(|why| failed(&why))
    }

    async fn delete(
        &self,
        client: Client,
        request: agent::DeleteWorkloadRequest,
    ) -> Result<agent::DeleteWorkloadResponse, Status> {
        let call = || {
            let (mut client, request) = (client.clone(), request.clone());
            async move { client.delete_workload(request).await }
        };
        self.call("DeleteWorkload", call).await
    }

    /// Asks a contract agent for the status of one workload.
    pub(crate) async fn status(&self, of: &Target, workload: &WorkloadId) -> Found {
        let Ok(client) = self.client(of) else { return Found::NoAnswer };
        let call = || {
            let request = agent::GetWorkloadStatusRequest { id: workload.to_string() };
            let mut client = client.clone();
            async move { client.get_workload_status(request).await }
        };
        let told = match self.call("GetWorkloadStatus", call).await {
            Ok(said) => said.status,
            Err(why) if is_gone(&why) => return Found::Missing,
            Err(_) => return Found::NoAnswer,
        };
        let read = told.as_ref().and_then(|told| report::from_agent_status(told).ok());
        read.map_or(Found::NoAnswer, Found::Status)
    }

    /// Asks a contract agent for all it holds. Entries that cannot be read are left out.
    pub(crate) async fn list(&self, of: &Target) -> Option<Vec<Told>> {
        let client = self.client(of).ok()?;
        let call = || {
            let mut client = client.clone();
            async move { client.list_workloads(agent::ListWorkloadsRequest::default()).await }
        };
        let said = self.call("ListWorkloads", call).await.ok()?.workloads;
        if said.len() > MOST_LISTED {
            tracing::warn!(node = %of.node, count = said.len(), "an agent lists too many workloads");
            return None;
        }
        let mut list = Vec::with_capacity(said.len());
        for one in &said {
            match report::from_agent_status(one) {
                Ok(told) => list.push(told),
                Err(odd) => tracing::warn!(node = %of.node, %odd, "part of a list is left out"),
            }
        }
        Some(list)
    }

    async fn health(&self, client: Client) -> Probe {
        let call = || {
            let mut client = client.clone();
            async move { client.health_check(agent::HealthCheckRequest::default()).await }
        };
        match self.call("HealthCheck", call).await {
            Ok(_) => Probe::Answered,
            Err(why) => found_by(&why),
        }
    }
}

#[async_trait::async_trait]
impl Links for GrpcLinks {
    async fn order(&self, to: &Target, command: Command) -> Result<OrderAnswer, Unreachable> {
        let stream = self.streams.of(&to.node).filter(|_| *to.endpoint == *BY_STREAM);
        let answer = self.order_once(to, &command).await;
        if answer.is_err()
            && let Some(stream) = stream
            && timeout(BREAKING, stream.over()).await.is_ok()
        {
            // It broke off with the stream. The agent opens another, and an order may be repeated.
            return Box::pin(self.order_once(to, &command)).await;
        }
        answer
    }

    async fn actions(&self, of: &Target, workload: &WorkloadId) -> Result<String, Unreachable> {
        let client = self.client(of)?;
        let call = || {
            let mut client = client.clone();
            let request = agent::ListActionsRequest {
                workload_id: workload.to_string(),
                limit: ACTIONS_TOLD,
                newest_first: true,
                ..agent::ListActionsRequest::default()
            };
            async move { client.list_actions(request).await }
        };
        let told = self.call("ListActions", call).await.map_err(|why| failed(&why))?;
        let lines: Vec<_> = told.actions.iter().map(action_line).collect();
        Ok(lines.join("\n"))
    }

    async fn probe(&self, of: &Target) -> Probe {
        let Ok(client) = self.client(of) else { return Probe::Silent };
        timeout(PROBE_TIMEOUT, self.health(client)).await.unwrap_or(Probe::Silent)
    }
}

/// The action an agent of ours names in an answer.
fn named(task: Option<&control::WorkloadTask>) -> Option<Arc<Task>> {
    task.and_then(task::from_wire).map(|named| named.task)
}

/// An action of which an agent of an earlier version tells the name and the progress.
fn begun(node: &NodeId, id: Arc<str>, status: TaskStatus) -> Task {
    let (action, error) = (TaskAction::Apply, None);
    let (created, started, ended) = (None, None, None);
    Task { node: node.clone(), id, action, status, error, created, started, ended }
}

/// What a failed probe tells. Whoever answers with a failure of its own lives; another one at the
/// same address proves nothing about ours.
fn found_by(why: &Status) -> Probe {
    match ConnectError::within(why) {
        Some(ConnectError::NotListening { .. }) => return Probe::Refused,
        Some(ConnectError::Handshake { source, .. })
            if source.kind() != io::ErrorKind::TimedOut =>
        {
            return Probe::Refused;
        }
        Some(
            ConnectError::Address { .. }
            | ConnectError::Unreachable { .. }
            | ConnectError::WrongPeer { .. }
            | ConnectError::Handshake { .. },
        ) => return Probe::Silent,
        None => {}
    }
    let own = [Code::Unimplemented, Code::PermissionDenied, Code::Unauthenticated, Code::Internal];
    if own.contains(&why.code()) { Probe::Answered } else { Probe::Silent }
}

/// Whether a call broke off with its connection, as against one that was not made or was answered.
fn is_stale(why: &Status) -> bool {
    let broken = [Code::Cancelled, Code::Unavailable, Code::Unknown, Code::Internal];
    let came_from_here = std::error::Error::source(why).is_some();
    broken.contains(&why.code()) && came_from_here && ConnectError::within(why).is_none()
}

fn is_legacy(to: &Target) -> bool {
    to.host.starts_with(CONTRACT_HOST)
}

fn is_gone(why: &Status) -> bool {
    let old = why.code() == Code::Unknown && why.message().contains("status not found");
    why.code() == Code::NotFound || old
}

fn unreachable(why: impl std::fmt::Display) -> Unreachable {
    Unreachable::unknown(why)
}

fn failed(why: &Status) -> Unreachable {
    match ConnectError::within(why) {
        Some(error) => Unreachable::never_sent(error),
        None => Unreachable::unknown(format!("{}: {}", why.code(), why.message())),
    }
}

/// One action of an agent, for people.
fn action_line(action: &agent::AgentAction) -> String {
    let agent::AgentAction { task_id, action_type, status, error, created_at, .. } = action;
    let since = WallMillis(u64::try_from(*created_at).unwrap_or_default().saturating_mul(1_000));
    let error = if error.is_empty() { String::new() } else { format!(": {error}") };
    format!("{action_type} {status} since {} ({task_id}){error}", rfc3339(since))
}
