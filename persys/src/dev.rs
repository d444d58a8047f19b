//! `persys dev`: everything in one process, over mTLS from the first minute.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use persys_agent::app as agent;
use persys_cluster::settings::Settings;
use persys_identity::authority::{AuthorityError, Validity};
use persys_identity::names::IdentityError;
use persys_identity::{Authority, ClusterName, FileError, Grant, Name, Role, Source, TrustDomain};
use persys_node::settings::AgentSettings;
use persys_scheduler::app as scheduler;

use crate::arguments::DevOptions;

/// The cluster and the node of a development process.
const CLUSTER: &str = "dev";
const NODE: &str = "dev";
const DOMAIN: &str = "persys.local";
/// How long its certificates last; they are made anew with every start.
const LIFETIME: Duration = Duration::from_hours(30 * 24);

/// Why it does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A name that is none.
    #[error("certificates cannot be made")]
    Name(#[from] IdentityError),
    /// No authority.
    #[error("certificates cannot be made")]
    Authority(#[from] AuthorityError),
    /// No room for certificates.
    #[error("certificates cannot be kept")]
    File(#[from] FileError),
    /// No scheduler.
    #[error("the scheduler does not start")]
    Scheduler(#[from] scheduler::Error),
    /// No agent.
    #[error("the agent does not start")]
    Agent(#[from] agent::Error),
    /// The system does not let us.
    #[error("the system refuses")]
    System(#[from] std::io::Error),
}

/// Runs until it is interrupted.
pub(crate) async fn run(options: DevOptions) -> Result<(), Error> {
    tracing_subscriber::fmt().with_env_filter("warn").with_writer(std::io::stderr).init();
    println!("starting, with everything kept in {}", options.state.display());
    let certificates = certify(&options.state)?;
    let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let scheduler = scheduler::start(scheduler::Config {
        grpc: local(options.port),
        http: local(options.http),
        state_dir: options.state.join("scheduler"),
        cluster: CLUSTER.to_owned(),
        security: scheduler::Security::Mtls(certificates.scheduler),
        settings: Settings::default(),
    })
    .await?;
    let runtime = if options.sim {
        agent::RuntimeChoice::Sim(None)
    } else {
        agent::RuntimeChoice::Docker { host: None }
    };
    let agent = agent::start(agent::Config {
        node: Some(NODE.to_owned()),
        grpc: local(options.agent_port),
        advertise: None,
        schedulers: vec![scheduler.grpc.to_string()],
        state_dir: options.state.join("agent"),
        cluster: CLUSTER.to_owned(),
        runtime,
        security: agent::Security::Mtls(certificates.agent),
        labels: BTreeMap::new(),
        settings: AgentSettings::default(),
        watchdog: None,
        registry_auth: None,
        http: None,
    })
    .await?;
    tell(&options, &scheduler, &agent, &certificates.operator);
    tokio::signal::ctrl_c().await?;
    agent.stop().await;
    scheduler.stop().await;
    Ok(())
}

/// Where the certificates of each part are.
struct Certificates {
    scheduler: Source,
    agent: Source,
    operator: PathBuf,
}

/// Opens or makes the authority and certifies every part anew.
fn certify(state: &Path) -> Result<Certificates, Error> {
    let now = SystemTime::now();
    let (domain, cluster) = (TrustDomain::new(DOMAIN)?, ClusterName::new(CLUSTER)?);
    let authority = Authority::open_or_create(&state.join("ca"), &domain, &cluster, now)?;
    let folder = state.join("certificates");
    std::fs::create_dir_all(&folder)?;
    let validity = Validity { now, lifetime: LIFETIME };
    let issue = |role, name: &str, loopback: bool| -> Result<(PathBuf, Source), Error> {
        let grant = Grant::new(role, Name::new(name)?);
        let grant = if loopback { grant.on_loopback() } else { grant };
        let path = folder.join(format!("{name}-{role}.pem"));
        let source = Source::Bundle(path.clone());
        source.save(&authority.issue(&grant, validity)?)?;
        Ok((path, source))
    };
    Ok(Certificates {
        scheduler: issue(Role::Scheduler, "scheduler", true)?.1,
        agent: issue(Role::Agent, NODE, false)?.1,
        operator: issue(Role::Operator, "admin", false)?.0,
    })
}

fn tell(
    options: &DevOptions,
    scheduler: &scheduler::Running,
    agent: &agent::Running,
    operator: &Path,
) {
    println!("scheduler  {}  (gRPC, mTLS)", scheduler.grpc);
    println!("health     http://{}/health", scheduler.http);
    println!("agent      {}  (node {})", agent.grpc, agent.node);
    println!("operator   {}", operator.display());
    if options.sim {
        println!("runtime    sim: nothing real runs");
    }
    println!(
        "Ctrl-C stops it; what runs on Docker goes on, and everything is known again next time"
    );
}
