//! The services of a scheduler behind one door.

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use futures::StreamExt as _;
use persys_cluster::discovery::Zones;
use persys_cluster::settings::Settings;
use persys_git::Fetcher;
use persys_identity::{Connection, Incoming};
use persys_oidc::Verifier;
use persys_proto::compute::v1::access_server::AccessServer;
use persys_proto::compute::v1::audit_server::AuditServer;
use persys_proto::compute::v1::check_server::CheckServer;
use persys_proto::compute::v1::compute_server::ComputeServer;
use persys_proto::compute::v1::history_server::HistoryServer;
use persys_proto::compute::v1::logging_server::LoggingServer;
use persys_proto::compute::v1::reads_server::ReadsServer;
use persys_proto::compute::v1::secrets_server::SecretsServer;
use persys_proto::compute::v1::sources_server::SourcesServer;
use persys_proto::compute::v1::tokens_server::TokensServer;
use persys_proto::control::v1::agent_control_server::AgentControlServer;
use persys_store::Store;
use persys_telemetry::trace::{self, TraceLayer};
use tokio::sync::watch;
use tonic::body::Body;
use tonic::codegen::http::Request;
use tonic::transport::Server;
use tonic::transport::server::Connected as _;

use crate::announce;
use crate::app::{Error, Task, stopped};
use crate::clock::Clock;
use crate::handle::Handle;
use crate::health::Described;
use crate::links::grpc::{GrpcLinks, Way};
use crate::metrics::Metrics;
use crate::operations;
use crate::rpc::{
    AuditService, Compute, Control, Doors, Enrolment, Forward, Guarded, LARGEST, LoggingService,
    Rights, SecretsService, Tokens,
};
use crate::secrets::Secrets;
use crate::standing::Standing;

/// How often a quiet connection is asked whether it is still there, and how long it may take.
const KEEPALIVE: Duration = Duration::from_mins(1);
/// Most requests at a time on one connection.
const MOST_STREAMS: u32 = 1024;

/// What services work with.
pub(crate) struct Behind {
    pub(crate) handle: Handle,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) links: Arc<GrpcLinks>,
    pub(crate) secrets: Arc<Secrets>,
}

/// What they were told.
pub(crate) struct Told<'a> {
    pub(crate) way: Way,
    pub(crate) enrolment: Enrolment,
    pub(crate) fetcher: Fetcher,
    pub(crate) logins: Option<Verifier>,
    pub(crate) settings: Settings,
    pub(crate) cluster: &'a str,
    pub(crate) zones: Zones,
}

/// What is served, and what stands before it.
pub(crate) struct Services {
    control: Control,
    compute: Compute,
    rights: Rights,
    tokens: Tokens,
    secrets: SecretsService,
    audit: AuditService,
    logging: LoggingService,
    forward: Arc<Forward>,
    doors: Arc<Doors>,
}

impl Services {
    pub(crate) fn new(behind: Behind, told: Told<'_>, stopping: &watch::Receiver<bool>) -> Self {
        let Behind { handle, store, clock, links, secrets } = behind;
        secrets.follow(handle.watch_entries());
        let (same, at) = (|| handle.clone(), || Arc::clone(&clock));
        let beside = (links.contract(), links.streams(), told.fetcher, links.metrics());
        let control =
            Control::new(same(), Arc::clone(&store), at(), told.settings, beside, stopping.clone())
                .serving(told.cluster);
        let logging = LoggingService { handle: same(), links: Arc::clone(&links) };
        Self {
            compute: Compute::new(&control, links, told.cluster, told.zones),
            control,
            rights: Rights::new(same(), at()),
            tokens: Tokens { handle: same(), clock: at(), enrolment: told.enrolment },
            secrets: SecretsService::new(same(), secrets, at()),
            audit: AuditService::new(store),
            logging,
            doors: Doors::new(same(), at(), told.logins, told.way.clone()),
            forward: Forward::new(told.way, same(), stopping.clone()),
        }
    }
}

/// Serves all of it until the process stops.
pub(crate) fn serve_grpc(
    incoming: Incoming,
    Services { control, compute, rights, tokens, secrets, audit, logging, forward, doors }: Services,
    handle: &Handle,
    metrics: &Arc<Metrics>,
    stopping: watch::Receiver<bool>,
    aside: &mut Vec<Task>,
) -> Result<Task, Error> {
    let sources = SourcesServer::new(control.clone());
    let reads = ReadsServer::new(control.clone()).max_encoding_message_size(usize::MAX);
    let check = CheckServer::new(control.clone()).max_decoding_message_size(LARGEST);
    let history = HistoryServer::new(control.clone()).max_encoding_message_size(usize::MAX);
    let control = AgentControlServer::new(control)
        .max_decoding_message_size(LARGEST)
        .max_encoding_message_size(usize::MAX);
    let compute = ComputeServer::new(compute)
        .max_decoding_message_size(LARGEST)
        .max_encoding_message_size(usize::MAX);
    let audit = AuditServer::new(audit);
    let (reporter, health) = tonic_health::server::health_reporter();
    aside.push(Task::spawn(operations::told(handle)));
    aside.push(Task::spawn(announce::log_standing(handle.standing())));
    aside.push(Task::spawn(report_health(reporter, handle.standing())));
    let described = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(persys_proto::DESCRIPTOR)
    };
    let reflection = described().build_v1()?;
    // Tools of earlier years ask by this name only.
    let reflection_alpha = described().build_v1alpha()?;
    let server = Server::builder()
        .layer(TraceLayer::new(&trace::current(), span_of))
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .max_concurrent_streams(MOST_STREAMS)
        .add_service(Guarded::new(control, metrics, &forward, &doors))
        .add_service(Guarded::new(compute, metrics, &forward, &doors))
        .add_service(Guarded::new(TokensServer::new(tokens), metrics, &forward, &doors))
        .add_service(Guarded::new(sources, metrics, &forward, &doors))
        .add_service(Guarded::new(check, metrics, &forward, &doors))
        .add_service(Guarded::new(reads, metrics, &forward, &doors))
        .add_service(Guarded::new(history, metrics, &forward, &doors))
        .add_service(Guarded::new(AccessServer::new(rights), metrics, &forward, &doors))
        .add_service(Guarded::new(SecretsServer::new(secrets), metrics, &forward, &doors))
        .add_service(Guarded::new(audit, metrics, &forward, &doors))
        .add_service(Guarded::new(LoggingServer::new(logging), metrics, &forward, &doors))
        .add_service(Guarded::new(Described::new(health, handle), metrics, &forward, &doors))
        .add_service(Guarded::new(reflection, metrics, &forward, &doors))
        .add_service(Guarded::new(reflection_alpha, metrics, &forward, &doors));
    Ok(Task::spawn(async move {
        if let Err(fault) = server.serve_with_incoming_shutdown(incoming, stopped(stopping)).await {
            tracing::error!(%fault, "requests are no longer served");
        }
    }))
}

/// How the span of a request is called: as its method. What comes every few seconds from everybody
/// has none.
fn span_of(request: &Request<Body>) -> Option<Cow<'_, str>> {
    let method = request.uri().path().strip_prefix('/')?;
    let often = ["persys.control.v1.AgentControl/Heartbeat", "persys.compute.v1.Compute/Standing"];
    let ours = method.starts_with("persys.") && !often.contains(&method);
    ours.then_some(Cow::Borrowed(method))
}

/// Follows the standing in the standard health service.
async fn report_health(
    reporter: tonic_health::server::HealthReporter,
    mut standing: watch::Receiver<Standing>,
) {
    use tonic_health::ServingStatus;
    loop {
        let well = standing.borrow_and_update().is_well();
        let status = if well { ServingStatus::Serving } else { ServingStatus::NotServing };
        for service in ["", "persys.control.v1.AgentControl", "persys.compute.v1.Compute"] {
            reporter.set_service_status(service, status).await;
        }
        if standing.changed().await.is_err() {
            return;
        }
    }
}

/// Serves the pages for people and probes until the process stops.
pub(crate) fn serve_pages(
    pages: Incoming,
    router: axum::Router,
    stopping: watch::Receiver<bool>,
) -> Task {
    Task::spawn(async move {
        let serving = axum::serve(Callers(pages), router);
        if let Err(fault) = serving.with_graceful_shutdown(stopped(stopping)).await {
            tracing::error!(%fault, "pages are no longer served");
        }
    })
}

/// Those who ask for pages. Their connections can be ended, too: half a question may never end.
struct Callers(Incoming);

impl Listener for Callers {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            if let Some(Ok(connection)) = self.0.next().await {
                let remote = connection.connect_info().remote;
                return (connection, remote);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}
