//! Runs everything, until it is told to stop.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use persys_agent::app as agent;
use persys_cli::context::{self, Context};
use persys_cluster::effects::Reply;
use persys_cluster::input::Ask;
use persys_cluster::settings::Settings;
use persys_gateway::app as gateway;
use persys_gateway::caller::Caller;
use persys_gateway::clusters::file::{ClusterPlan, Plan, SchedulerPlan};
use persys_gateway::clusters::order::Routing;
use persys_gateway::limits::Limits;
use persys_identity::Role;
use persys_model::entry::{Binding, Entry, Scope, Subject, UserRole};
use persys_model::id::{EntryName, SubjectName};
use persys_model::spec::WorkloadType;
use persys_node::settings::AgentSettings;
use persys_scheduler::app as scheduler;
use persys_scheduler::discovery::{Discovery, Dns};
use persys_scheduler::standing::Standing;
use persys_telemetry::log::Level;
use persys_telemetry::trace::{self, Exporting};
use tokio::time::timeout;

use super::certificates::{Certificates, certify};
use super::folder::{Folder, Note};
use super::options::{Options, RuntimeName};
use super::own_context;
use super::{Error, NODE, docker_host, home};
use crate::component::{until_told, watchdog_command};
use crate::enrol;
use crate::telemetry::{of_variables, plain_log};

/// The user of the dashboard.
const ADMIN: &str = "admin";
/// How long the scheduler may take until it leads.
const LEADS: Duration = Duration::from_secs(10);
/// How long the last spans may take to be sent.
const LAST_SPANS: Duration = Duration::from_secs(1);

/// Serves, tells where, and waits.
pub(super) async fn run(options: &Options) -> Result<(), Error> {
    // Started twice by a test, the second log has nowhere to go.
    let _writing = plain_log(Level::Warn);
    let traces = ["persys-scheduler", "persys-agent", "persys-gateway"]
        .map(|name| of_variables(name, false));
    let [on_scheduler, on_agent, on_gateway] =
        traces.each_ref().map(|one| one.as_ref().map(Exporting::home).unwrap_or_default());
    let folder = Folder::open_or_make(&options.folder())?;
    folder.take()?;
    // What a killed process left there names a process that may be anybody's by now.
    folder.take_note_away();
    println!("starting, with everything kept in {}", folder.path.display());
    let certificates = certify(&folder)?;
    let starting = start_scheduler(options, &folder, &certificates);
    let scheduler = trace::scope(on_scheduler, starting).await?;
    let enrolment = open_enrolment(options, &folder, &scheduler).await?;
    let starting = start_agent(options, &folder, &certificates, scheduler.grpc);
    let agent = trace::scope(on_agent, starting).await?;
    let starting = start_gateway(options, &folder, &certificates, scheduler.grpc);
    let gateway = trace::scope(on_gateway, starting).await?;
    let note = Note {
        pid: std::process::id(),
        grpc: scheduler.grpc,
        http: scheduler.http,
        agent: agent.grpc.unwrap_or_else(|| local(options.agent_port)),
        dns: scheduler.dns,
        enrol: enrolment.as_ref().map(|enrolment| enrolment.address),
        dashboard: gateway.login_link(admin(&scheduler).await?)?,
        runtime: options.runtime.word().to_owned(),
        operator: certificates.operator,
        missing: missing(&agent).await,
    };
    folder.leave_note(&note)?;
    leave_context(&note, &folder)?;
    tell(&note, &folder);
    println!("Ctrl-C stops it; containers go on, and everything is known again next time");
    until_told().await;
    println!("stopping");
    gateway.stop().await;
    agent.stop().await;
    if let Some(enrolment) = enrolment {
        enrolment.stop().await;
    }
    scheduler.stop().await;
    for exporting in traces.iter().flatten() {
        exporting.flush(LAST_SPANS).await;
    }
    folder.take_note_away();
    Ok(())
}

async fn start_scheduler(
    options: &Options,
    folder: &Folder,
    certificates: &Certificates,
) -> Result<scheduler::Running, Error> {
    let config = scheduler::Config {
        grpc: SocketAddr::new(options.listen, options.port),
        http: local(options.http),
        advertise: scheduler::Advertise::default(),
        state_dir: folder.path.join("scheduler"),
        store: persys_scheduler::place::Place::File,
        cluster: folder.cluster.to_string(),
        security: scheduler::Security::Mtls(certificates.scheduler.clone()),
        settings: Settings::default(),
        logins: None,
        git: scheduler::GitSettings::default(),
        secrets_key: None,
        vault: None,
        discovery: Discovery { dns: Dns::Near(local(options.dns_port)), ..Discovery::default() },
    };
    Ok(scheduler::start(config).await?)
}

/// Lets other machines join, where the port is free or another one is.
async fn open_enrolment(
    options: &Options,
    folder: &Folder,
    scheduler: &scheduler::Running,
) -> Result<Option<persys_ca::Running>, Error> {
    let authority = folder.path.join("ca");
    let at = |port| SocketAddr::new(options.listen, port);
    match enrol::open(scheduler, &authority, at(options.enrol_port), None).await {
        Err(enrol::Error::Serve(persys_ca::serve::Error::Listen { .. })) => {
            Ok(enrol::open(scheduler, &authority, at(0), None).await?)
        }
        opened => Ok(opened?),
    }
}

async fn start_agent(
    options: &Options,
    folder: &Folder,
    certificates: &Certificates,
    scheduler: SocketAddr,
) -> Result<agent::Running, Error> {
    let runtime = match options.runtime {
        RuntimeName::Docker => {
            folder.use_docker()?;
            agent::RuntimeChoice::Docker { host: docker_host() }
        }
        RuntimeName::Sim => agent::RuntimeChoice::Sim(None),
    };
    let config = agent::Config {
        node: Some(NODE.to_owned()),
        grpc: local(options.agent_port),
        reach: agent::Reach::Called,
        advertise: None,
        schedulers: vec![scheduler.to_string()],
        state_dir: folder.path.join("agent"),
        cluster: folder.cluster.to_string(),
        runtime,
        security: agent::Security::Mtls(certificates.agent.clone()),
        labels: BTreeMap::new(),
        // A developer's machine is busy with building; its use says nothing about what fits.
        settings: AgentSettings {
            admit_percent: 0,
            admit_disk_percent: 0,
            ..AgentSettings::default()
        },
        watchdog: match options.runtime {
            RuntimeName::Docker => watchdog_command(),
            RuntimeName::Sim => None,
        },
        volumes: agent::VolumeSettings::within(
            &folder.path.join("agent"),
            match options.runtime {
                RuntimeName::Docker => agent::Limit::Auto,
                RuntimeName::Sim => agent::Limit::None,
            },
        ),
        compose: agent::ComposeChoice::default(),
        registry_auth: std::env::var_os("PERSYS_REGISTRY_AUTH").map(Into::into),
        machines: Some(persys_runtime::vm::settings::Settings::default()),
        http: Some(agent_pages(options)),
    };
    Ok(agent::start(config).await?)
}

/// Where the agent shows `/health` and `/metrics`: at the usual port beside a scheduler at its usual one,
/// if that is free.
fn agent_pages(options: &Options) -> SocketAddr {
    let usual = local(8089);
    let free = || std::net::TcpListener::bind(usual).is_ok();
    if options.http == 8084 && free() { usual } else { local(0) }
}

/// The gateway, without TLS for browsers: it listens on this machine alone.
async fn start_gateway(
    options: &Options,
    folder: &Folder,
    certificates: &Certificates,
    scheduler: SocketAddr,
) -> Result<gateway::Running, Error> {
    let config = |port| gateway::Config {
        inner: None,
        public: local(port),
        security: gateway::Security::Mtls(certificates.gateway.clone()),
        public_is_plain: true,
        plan: Plan {
            default: folder.cluster.to_string(),
            clusters: vec![ClusterPlan {
                id: folder.cluster.to_string(),
                name: "dev".to_owned(),
                routing: Routing::LeaderOnly,
                schedulers: vec![SchedulerPlan {
                    id: "dev".to_owned(),
                    address: scheduler.to_string(),
                    is_leader: true,
                }],
                identity: None,
            }],
            repositories: BTreeMap::new(),
        },
        request_timeout: Duration::from_secs(10),
        health_interval: Duration::from_secs(5),
        discovery: None,
        limits: Limits::default(),
        webhooks: None,
    };
    match gateway::start(config(options.gateway_port)).await {
        Err(gateway::Error::Listen { .. }) => Ok(gateway::start(config(0)).await?),
        started => Ok(started?),
    }
}

/// Whoever opens the dashboard's link: the user for whom all this runs, who may do everything here.
async fn admin(scheduler: &scheduler::Running) -> Result<Caller, Error> {
    let binding = Binding {
        name: EntryName::fixed("dev-admin"),
        subject: Subject::User(SubjectName::new(ADMIN)?),
        role: UserRole::Admin,
        scope: Scope::Cluster,
    };
    let mut standing = scheduler.handle.standing();
    // It leads in a moment, or it says why not on its own pages.
    drop(timeout(LEADS, standing.wait_for(Standing::is_normal)).await);
    let kept = scheduler.handle.ask(Ask::Keep(Arc::new(Entry::Binding(binding)))).await;
    if !matches!(kept, Ok(Reply::Done { .. })) {
        tracing::warn!(?kept, "the dashboard's user has no rights yet; start again for a new link");
    }
    Ok(Caller::certified(Role::User, super::name(ADMIN)?, None))
}

/// What containers lack here, if anything: the other kinds come with later releases.
async fn missing(agent: &agent::Running) -> Vec<String> {
    let lacks = agent.handle.read(|agent, _| {
        let why = agent.facts().missing.get(&WorkloadType::Container);
        why.map(|why| format!("containers: {why}"))
    });
    lacks.await.ok().flatten().into_iter().collect()
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Lets commands find the cluster without being told where it is.
fn leave_context(note: &Note, folder: &Folder) -> Result<(), Error> {
    let remark = (note.runtime == "sim").then(|| "runtime sim: nothing real runs".to_owned());
    let context = Context {
        endpoint: note.grpc.to_string(),
        identity: Some(note.operator.clone()),
        insecure: false,
        note: remark,
    };
    own_context::leave(&home(), &folder.path, &context)?;
    Ok(())
}

/// Where everything is, and what to type next.
pub(super) fn tell(note: &Note, folder: &Folder) {
    println!();
    println!("  scheduler  {}  (gRPC, mTLS)", note.grpc);
    println!("  health     http://{}/health", note.http);
    println!("  agent      {}  (node {NODE})", note.agent);
    if let Some(dns) = note.dns {
        println!("  names      {dns}  (DNS)");
    }
    if let Some(enrol) = note.enrol {
        println!("  joining    {enrol}  (persys token create)");
    }
    println!("  dashboard  {}  (once, within 10 minutes)", note.dashboard);
    println!("  operator   {}", note.operator.display());
    println!("  kept in    {}", folder.path.display());
    let own = own_context::find(&home(), &folder.path).filter(|name| name != context::DEV);
    if let Some(name) = &own {
        println!("  context    {name}");
    }
    if note.runtime == "sim" {
        println!("  runtime    sim: NOTHING REAL RUNS");
    }
    for missing in &note.missing {
        println!("  missing    {missing}");
    }
    println!();
    println!("next, in another terminal:");
    println!();
    if let Some(name) = &own {
        println!("  persys config use {name}      # commands go to another cluster until then");
    }
    println!("  persys nodes");
    println!("  persys run nginx --name web -p 8081:80");
    if let Some(dns) = note.dns {
        let (ip, port) = (dns.ip(), dns.port());
        println!("  dig @{ip} -p {port} web.workloads.persys.local");
    }
    println!();
}
