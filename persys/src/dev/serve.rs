//! Runs everything, until it is told to stop.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use persys_agent::app as agent;
use persys_cli::context::{self, Context};
use persys_cluster::settings::Settings;
use persys_model::spec::WorkloadType;
use persys_node::settings::AgentSettings;
use persys_scheduler::app as scheduler;
use persys_scheduler::discovery::{Discovery, Dns};

use super::certificates::{Certificates, certify};
use super::folder::{Folder, Note};
use super::options::{Options, RuntimeName};
use super::{Error, NODE, docker_host, home};
use crate::component::{until_told, watchdog_command};

/// Serves, tells where, and waits.
pub(super) async fn run(options: &Options) -> Result<(), Error> {
    // Started twice by a test, the second log has nowhere to go.
    drop(crate::tell::log("warn", "text"));
    let folder = Folder::open_or_make(&options.folder())?;
    folder.take()?;
    // What a killed process left there names a process that may be anybody's by now.
    folder.take_note_away();
    println!("starting, with everything kept in {}", folder.path.display());
    let certificates = certify(&folder)?;
    let scheduler = start_scheduler(options, &folder, &certificates).await?;
    let agent = start_agent(options, &folder, &certificates, scheduler.grpc).await?;
    let note = Note {
        pid: std::process::id(),
        grpc: scheduler.grpc,
        http: scheduler.http,
        agent: agent.grpc.unwrap_or_else(|| local(options.agent_port)),
        dns: scheduler.dns,
        runtime: options.runtime.word().to_owned(),
        operator: certificates.operator,
        missing: missing(&agent).await,
    };
    folder.leave_note(&note)?;
    leave_context(&note)?;
    tell(&note, &folder);
    println!("Ctrl-C stops it; containers go on, and everything is known again next time");
    until_told().await;
    println!("stopping");
    agent.stop().await;
    scheduler.stop().await;
    folder.take_note_away();
    Ok(())
}

async fn start_scheduler(
    options: &Options,
    folder: &Folder,
    certificates: &Certificates,
) -> Result<scheduler::Running, Error> {
    let config = scheduler::Config {
        grpc: local(options.port),
        http: local(options.http),
        advertise: scheduler::Advertise::default(),
        state_dir: folder.path.join("scheduler"),
        store: persys_scheduler::place::Place::File,
        cluster: folder.cluster.to_string(),
        security: scheduler::Security::Mtls(certificates.scheduler.clone()),
        settings: Settings::default(),
        git: scheduler::GitSettings::default(),
        secrets_key: None,
        discovery: Discovery { dns: Dns::Near(local(options.dns_port)), ..Discovery::default() },
    };
    Ok(scheduler::start(config).await?)
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
        http: None,
    };
    Ok(agent::start(config).await?)
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
fn leave_context(note: &Note) -> Result<(), Error> {
    let remark = (note.runtime == "sim").then(|| "runtime sim: nothing real runs".to_owned());
    let context = Context {
        endpoint: note.grpc.to_string(),
        identity: Some(note.operator.clone()),
        insecure: false,
        note: remark,
    };
    context::write(&home(), context::DEV, &context)?;
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
    println!("  operator   {}", note.operator.display());
    println!("  kept in    {}", folder.path.display());
    if note.runtime == "sim" {
        println!("  runtime    sim: NOTHING REAL RUNS");
    }
    for missing in &note.missing {
        println!("  missing    {missing}");
    }
    println!();
    println!("next, in another terminal:");
    println!();
    println!("  persys nodes");
    println!("  persys run nginx --name web -p 8081:80");
    if let Some(dns) = note.dns {
        let (ip, port) = (dns.ip(), dns.port());
        println!("  dig @{ip} -p {port} web.workloads.persys.local");
    }
    println!();
}
