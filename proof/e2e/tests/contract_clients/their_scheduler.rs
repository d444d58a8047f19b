//! An agent of ours under a scheduler that knows the contract and nothing of ours: it answers
//! registrations and heartbeats as such schedulers do, and commands the agent as they do.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use persys_e2e::stack::{Stack, Wire};
use persys_identity::{Connector, Credentials, Expected, Incoming, Name, Source};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::codegen::http::{Request as HttpRequest, Response as HttpResponse};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

use crate::behind_our_back;
use crate::calls::{call, until};
use crate::messages::{agent as wire, control};
use crate::openssl::{Files, OpenSsl};

/// Seconds between heartbeats and of a lease, as such a scheduler answers a registration.
const INTERVAL: i32 = 60;
const LEASE: i64 = 180;
/// The project name it gives every stack.
const PROJECT: &str = "workload";

/// A scheduler of the field: it keeps what agents tell it.
#[derive(Debug, Clone, Default)]
struct Double(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    registered: BTreeMap<String, control::RegisterNodeRequest>,
    beats: Vec<control::HeartbeatRequest>,
    /// Heartbeats come each second instead of each minute.
    quick: bool,
    /// Heartbeats are answered with `drain_node`.
    drain: bool,
}

fn lease() -> prost_types::Timestamp {
    let mut at = prost_types::Timestamp::from(SystemTime::now());
    at.seconds += LEASE;
    at
}

impl UnaryService<control::RegisterNodeRequest> for Double {
    type Response = control::RegisterNodeResponse;
    type Future = std::future::Ready<Result<Response<Self::Response>, Status>>;

    fn call(&mut self, request: Request<control::RegisterNodeRequest>) -> Self::Future {
        let request = request.into_inner();
        let room = request.capabilities.clone().unwrap_or_default();
        let accepted = room.cpu_total_millicores > 0 && room.memory_total_mb > 0;
        let mut told = self.0.lock().unwrap();
        told.registered.insert(request.node_id.clone(), request);
        std::future::ready(Ok(Response::new(control::RegisterNodeResponse {
            accepted,
            reason: String::new(),
            heartbeat_interval_seconds: if told.quick { 1 } else { INTERVAL },
            lease_expires_at: Some(lease()),
        })))
    }
}

impl UnaryService<control::HeartbeatRequest> for Double {
    type Response = control::HeartbeatResponse;
    type Future = std::future::Ready<Result<Response<Self::Response>, Status>>;

    fn call(&mut self, request: Request<control::HeartbeatRequest>) -> Self::Future {
        let request = request.into_inner();
        let mut told = self.0.lock().unwrap();
        if !told.registered.contains_key(&request.node_id) {
            return std::future::ready(Err(Status::not_found("node is not registered")));
        }
        told.beats.push(request);
        std::future::ready(Ok(Response::new(control::HeartbeatResponse {
            acknowledged: true,
            drain_node: told.drain,
            lease_expires_at: Some(lease()),
        })))
    }
}

impl NamedService for Double {
    const NAME: &'static str = "persys.control.v1.AgentControl";
}

impl Service<HttpRequest<Body>> for Double {
    type Response = HttpResponse<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        let double = self.clone();
        async move {
            let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            Ok(match method.as_str() {
                "RegisterNode" => {
                    let codec = ProstCodec::<
                        control::RegisterNodeResponse,
                        control::RegisterNodeRequest,
                    >::default();
                    Grpc::new(codec).unary(double, request).await
                }
                "Heartbeat" => {
                    let codec =
                        ProstCodec::<control::HeartbeatResponse, control::HeartbeatRequest>::default(
                        );
                    Grpc::new(codec).unary(double, request).await
                }
                _ => Status::unimplemented("not implemented").into_http(),
            })
        }
        .boxed()
    }
}

async fn double() -> (Double, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let double = Double::default();
    let incoming = TcpIncoming::from(listener);
    let server = Server::builder().add_service(double.clone()).serve_with_incoming(incoming);
    tokio::spawn(server);
    (double, at)
}

async fn agent<Q, A>(channel: &Channel, method: &str, request: Q) -> Result<A, Status>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    call(channel, &format!("persys.agent.v1.AgentService/{method}"), request).await
}

async fn status(channel: &Channel, id: &str) -> Result<wire::WorkloadStatus, Status> {
    let request = wire::Named { id: id.to_owned() };
    let found: wire::GetWorkloadStatusResponse =
        agent(channel, "GetWorkloadStatus", request).await?;
    Ok(found.status.unwrap())
}

/// The actions of a workload as such a scheduler asks for them, newest first.
async fn actions(channel: &Channel, id: &str) -> Vec<wire::AgentAction> {
    let request = wire::ListActionsRequest {
        workload_id: id.to_owned(),
        limit: 20,
        newest_first: true,
        ..wire::ListActionsRequest::default()
    };
    let found: wire::ListActionsResponse = agent(channel, "ListActions", request).await.unwrap();
    found.actions
}

/// Applies as such a scheduler does: the order, its task, polls until the state is reached, and the
/// actions in the end.
async fn apply(channel: &Channel, request: wire::ApplyWorkloadRequest) {
    let (id, revision) = (request.id.clone(), request.revision_id.clone());
    let wanted = match request.desired_state {
        wire::STOPPED => wire::ACTUALLY_STOPPED,
        _ => wire::ACTUALLY_RUNNING,
    };
    let answer: wire::ApplyWorkloadResponse =
        agent(channel, "ApplyWorkload", request).await.unwrap();
    assert!(answer.applied && !answer.skipped, "{id}: {answer:?}");
    let first = answer.status.unwrap();
    assert_eq!(first.actual_state, wire::ACTUALLY_PENDING, "{id}");
    assert_eq!(first.metadata["task_status"], "pending", "{id}");
    let task = first.metadata["task_id"].clone();
    let look = || async {
        let shown = status(channel, &id).await.ok()?;
        (shown.actual_state == wanted && shown.revision_id == revision).then_some(())
    };
    until(&format!("{id} is in state {wanted} of {revision}"), look).await;
    let done = || async {
        let all = actions(channel, &id).await;
        let mine = all.into_iter().find(|one| one.task_id == task)?;
        assert_eq!(mine.action_type, "apply_workload", "the task is the apply");
        assert_ne!(mine.status, "failed", "{mine:?}");
        (mine.status == "completed").then_some(mine)
    };
    let mine = until(&format!("the task of {id} is completed"), done).await;
    assert!(mine.created_at > 0 && mine.started_at > 0 && mine.ended_at > 0, "{mine:?}");
}

/// Deletes as such a scheduler does: polls until the status is not found.
async fn delete(channel: &Channel, id: &str) {
    let request = wire::Named { id: id.to_owned() };
    let answer: wire::DeleteWorkloadResponse =
        agent(channel, "DeleteWorkload", request).await.unwrap();
    assert!(answer.success, "{}", answer.message);
    let gone = until("it is gone", || async { status(channel, id).await.err() }).await;
    assert_eq!(gone.code(), Code::Unknown);
    assert_eq!(gone.message(), format!("status not found: {id}"));
    let all = actions(channel, id).await;
    assert_eq!(all.first().map(|one| one.action_type.as_str()), Some("delete_workload"));
}

fn order(
    id: &str,
    kind: i32,
    revision: &str,
    spec: wire::WorkloadSpec,
) -> wire::ApplyWorkloadRequest {
    wire::ApplyWorkloadRequest {
        id: id.to_owned(),
        kind,
        revision_id: revision.to_owned(),
        desired_state: wire::RUNNING,
        spec: Some(spec),
    }
}

fn container(image: &str) -> wire::WorkloadSpec {
    let command = ["sh", "-c", "sleep 60"].map(str::to_owned).into();
    let container = Some(wire::ContainerSpec { image: image.to_owned(), command });
    wire::WorkloadSpec { container, ..wire::WorkloadSpec::default() }
}

/// Such a scheduler passes the file on as it came: in base64.
fn stack(image: &str) -> wire::WorkloadSpec {
    let file = format!("services: {{web: {{image: \"{image}\"}}}}\n");
    let compose_yaml = STANDARD.encode(file);
    let compose = Some(wire::ComposeSpec { project_name: PROJECT.to_owned(), compose_yaml });
    wire::WorkloadSpec { compose, ..wire::WorkloadSpec::default() }
}

/// Names, paths and formats of a machine's disks are chosen by such a scheduler.
fn machine(id: &str) -> wire::WorkloadSpec {
    let disk = wire::DiskConfig {
        path: format!("/var/lib/libvirt/images/{id}-vda.qcow2"),
        device: "vda".to_owned(),
        format: "qcow2".to_owned(),
        size_gb: 1,
        kind: "disk".to_owned(),
        boot: false,
    };
    let vm = Some(wire::VmSpec {
        name: PROJECT.to_owned(),
        vcpus: 1,
        memory_mb: 512,
        disks: vec![disk],
    });
    wire::WorkloadSpec { vm, ..wire::WorkloadSpec::default() }
}

/// Names of certificates as such an installation makes them: DNS names and addresses, no URI.
const NAMES: &str = "\
cluster stack
trust-domain example.org
dns:persys-scheduler.persys.local  scheduler  s1
dns:*.agents.persys.cloud          agent      *
";
const SCHEDULER: &str = "subjectAltName = DNS:persys-scheduler,\
                         DNS:persys-scheduler.persys.local,DNS:localhost,IP:127.0.0.1";
const AGENT: &str = "subjectAltName = DNS:n1.agents.persys.cloud,DNS:localhost,IP:127.0.0.1";
const BOTH: &str = "extendedKeyUsage = serverAuth,clientAuth";

/// Both sides have certificates of one authority that is not ours, with the names such an installation
/// uses; the operator's mapping says who they are.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_lives_under_a_scheduler_of_the_field_with_its_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let openssl = OpenSsl::at(&folder.path().join("ca"));
    let names = folder.path().join("names");
    std::fs::write(&names, NAMES).unwrap();
    let source = |name: &str, subject: &str, alternative: &str| {
        let Files { certificate, key, roots } = openssl.issue(name, subject, &[alternative, BOTH]);
        Source::Separate { certificate, key, roots }.mapped(Some(names.clone()))
    };
    let theirs = source("scheduler", "/CN=persys-scheduler", SCHEDULER);
    let theirs = Credentials::new(theirs.load(SystemTime::now()).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let double = Double::default();
    let incoming = Incoming::tls(listener, &theirs, Arc::new(|_| {})).unwrap();
    tokio::spawn(Server::builder().add_service(double.clone()).serve_with_incoming(incoming));

    let mut stack_of_ours = Stack::start(Wire::Plain).await;
    let own = source("n1", "/CN=compute-agent", AGENT);
    stack_of_ours.add_agent_with("n1", at, own).await;
    let endpoint = stack_of_ours.agent_at("n1");
    registered(&double, endpoint).await;
    let connector = Connector::tls(&theirs, Expected::Agent(Name::new("n1").unwrap())).unwrap();
    let dialled = Endpoint::from_shared(format!("http://{endpoint}")).unwrap();
    let channel = dialled.connect_with_connector(connector).await.unwrap();
    apply(&channel, order("web", 1, "rev-1", container("nginx:1"))).await;
    apply(&channel, order("web", 1, "rev-2", container("nginx:2"))).await;
    delete(&channel, "web").await;
    stack_of_ours.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_lives_under_a_scheduler_of_the_field() {
    let (double, at) = double().await;
    let mut stack_of_ours = Stack::start(Wire::Plain).await;
    stack_of_ours.add_agent_under("n1", at).await;
    let channel = stack_of_ours.agent_channel("n1").await;
    registered(&double, stack_of_ours.agent_at("n1")).await;

    // Everything at once: several of a kind share a node, whatever such a scheduler calls them.
    let orders = [
        order("web", 1, "rev-1", container("nginx:1")),
        order("Web-2", 1, "rev-1", container("nginx:1")),
        order("shop", 2, "rev-1", stack("nginx:1")),
        order("blog", 2, "rev-1", stack("nginx:2")),
        order("vm-1", 3, "rev-1", machine("vm-1")),
    ];
    for order in &orders {
        apply(&channel, order.clone()).await;
    }
    let all: wire::ListWorkloadsResponse =
        agent(&channel, "ListWorkloads", wire::ListWorkloadsRequest { kind: 0 }).await.unwrap();
    let ids: Vec<_> = all.workloads.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["Web-2", "blog", "shop", "vm-1", "web"], "each under its own id");

    // A reapply changes nothing; an update, a stop and a start go through.
    let again: wire::ApplyWorkloadResponse =
        agent(&channel, "ApplyWorkload", orders[0].clone()).await.unwrap();
    assert!(again.applied && again.skipped, "{again:?}");
    apply(&channel, order("web", 1, "rev-2", container("nginx:2"))).await;
    apply(&channel, order("shop", 2, "rev-2", stack("nginx:2"))).await;
    for desired_state in [wire::STOPPED, wire::RUNNING] {
        let order = order("blog", 2, "rev-1", stack("nginx:2"));
        apply(&channel, wire::ApplyWorkloadRequest { desired_state, ..order }).await;
    }
    drift(&stack_of_ours, &channel, &["web", "shop", "vm-1"]).await;
    for order in &orders {
        delete(&channel, &order.id).await;
        let left = behind_our_back::running(&stack_of_ours, "n1", &order.id).await;
        assert_eq!(left, None, "{}", order.id);
    }
    stack_of_ours.stop().await;
}

/// What somebody changed behind our back is as ordered again, and such a scheduler never sees another
/// revision of it.
async fn drift(stack: &Stack, channel: &Channel, ids: &[&str]) {
    for id in ids {
        let revision = status(channel, id).await.unwrap().revision_id;
        behind_our_back::removed(stack, "n1", id).await;
        if *id == "web" {
            // It waits before it repairs that: once is enough.
            behind_our_back::paused(stack, "n1", id).await;
        }
        let runs = || async {
            let shown = status(channel, id).await.unwrap();
            assert_eq!(shown.revision_id, revision, "{id}");
            (shown.actual_state == wire::ACTUALLY_RUNNING).then_some(())
        };
        until(&format!("{id} is shown as running"), runs).await;
    }
}

/// Such a scheduler drains its nodes by a flag, and forgets them when its store is lost.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_drained_and_forgotten_by_a_scheduler_of_the_field() {
    let (double, at) = double().await;
    double.0.lock().unwrap().quick = true;
    let mut stack_of_ours = Stack::start(Wire::Plain).await;
    stack_of_ours.add_agent_under("n1", at).await;
    let channel = stack_of_ours.agent_channel("n1").await;
    registered(&double, stack_of_ours.agent_at("n1")).await;
    apply(&channel, order("web", 1, "rev-1", container("nginx:1"))).await;

    // Drained, it takes nothing new and can be emptied.
    double.0.lock().unwrap().drain = true;
    let refused = || async {
        let order = order("late", 1, "rev-1", container("nginx:1"));
        let answer: wire::ApplyWorkloadResponse =
            agent(&channel, "ApplyWorkload", order).await.unwrap();
        if answer.applied {
            delete(&channel, "late").await;
        }
        (!answer.applied && !answer.message.is_empty()).then_some(())
    };
    until("it takes nothing new", refused).await;
    assert_eq!(status(&channel, "web").await.unwrap().actual_state, wire::ACTUALLY_RUNNING);
    delete(&channel, "web").await;
    double.0.lock().unwrap().drain = false;
    let taken = || async {
        let order = order("web", 1, "rev-1", container("nginx:1"));
        let answer: wire::ApplyWorkloadResponse =
            agent(&channel, "ApplyWorkload", order).await.unwrap();
        answer.applied.then_some(())
    };
    until("it takes work again", taken).await;

    // Forgotten, it registers anew and tells of what runs on.
    {
        let mut told = double.0.lock().unwrap();
        told.registered.clear();
        told.beats.clear();
    }
    let back = || async {
        let told = double.0.lock().unwrap();
        let runs = |beat: &control::HeartbeatRequest| {
            beat.workload_statuses
                .iter()
                .any(|one| one.workload_id == "web" && one.state == "Running")
        };
        (told.registered.contains_key("n1") && told.beats.iter().any(runs)).then_some(())
    };
    until("it comes back with what it runs", back).await;
    delete(&channel, "web").await;
    stack_of_ours.stop().await;
}

/// It registers with all that such a scheduler asks for, and sends its first heartbeat at once.
async fn registered(double: &Double, endpoint: SocketAddr) {
    let first = || async {
        let told = double.0.lock().unwrap();
        let beat = told.beats.first()?.clone();
        Some((told.registered.get("n1")?.clone(), beat))
    };
    let (joined, beat) = until("it registers and beats", first).await;
    let room = joined.capabilities.unwrap();
    assert!(room.cpu_total_millicores > 0 && room.memory_total_mb > 0);
    for kind in ["container", "compose", "vm"] {
        assert!(room.supported_workload_types.iter().any(|one| one == kind), "{kind}");
    }
    assert_eq!(joined.grpc_endpoint, endpoint.to_string());
    assert!(joined.timestamp.is_some());
    let arch = if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" };
    assert_eq!(joined.labels["arch"], arch, "the name that such a scheduler's users know");
    assert_eq!((&*beat.node_id, beat.usage.is_some()), ("n1", true));
}
