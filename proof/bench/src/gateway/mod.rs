//! What a gateway costs those who go through it.
//!
//! ```text
//!   this process                        gateway gateway …         gateway scheduler FOLDER
//!   ┌ clients ── gRPC over mTLS ───────────────────────────────►┐ east: 20 agents, 200 workloads
//!   ├ clients ── HTTP over mTLS ──► persys_gateway::app ──────►┤
//!   └ agents  ◄─ beats, orders ────────────┬──────────────────►┘
//!                                          └──► west: answers, or stands still
//! ```
//!
//! Both kinds of clients are as many, each with a connection of its own and one question at a time, and
//! both take the answer as bytes. They take turns, a few seconds each, so that whatever else the machine
//! does meets both. All processes share its cores: a rate is that of clients and servers together.

mod frozen;
mod process;
mod reads;
mod report;
mod streams;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use persys_identity::{Connector, Expected, Role};
use persys_proto::compute::v1::access_client::AccessClient;
use persys_proto::compute::v1::{PutBindingRequest, RoleBinding, RoleScope};
use tokio::runtime::Builder;
use tonic::transport::Endpoint;

use self::frozen::Frozen;
use self::process::{Gateway, Site};
use self::reads::{Both, Kind, Reads};
use self::report::Results;
use self::streams::Streams;
use crate::fleet::Fault;
use crate::fleet::agents::Fleet;
use crate::fleet::load::Clients;
use crate::fleet::names::{Names, scheduler_source};
use crate::fleet::scheduler::Process;
use crate::placement::say;

/// Nodes and workloads of the cluster that is read.
const NODES: usize = 20;
const WORKLOADS: usize = 200;
/// The cluster that stands still for a while.
const OTHER: &str = "s2";

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long one turn is.
    pub turn: Duration,
    /// How many turns each has of each kind of read.
    pub rounds: usize,
    /// Where the numbers go.
    pub json: PathBuf,
}

impl Options {
    /// Reads the command line.
    #[must_use]
    pub fn parse(args: &[String]) -> Option<Self> {
        let mut options = Self {
            turn: Duration::from_secs(3),
            rounds: 5,
            json: PathBuf::from("target/bench/gateway.json"),
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let value = args.next()?;
            match arg.as_str() {
                "--seconds" => options.turn = Duration::from_secs_f64(value.parse().ok()?),
                "--rounds" => {
                    options.rounds = value.parse().ok().filter(|rounds| *rounds > 0)?;
                }
                "--json" => options.json = PathBuf::from(value),
                _ => return None,
            }
        }
        Some(options)
    }
}

/// Runs as the gateway's process until its input ends.
pub fn serve(folder: &Path, clusters: &[(&str, &str)]) -> Result<(), Fault> {
    let at = |(id, at): &(&str, &str)| Ok::<_, Fault>(((*id).to_owned(), at.parse()?));
    let clusters = clusters.iter().map(at).collect::<Result<Vec<(String, SocketAddr)>, _>>()?;
    runtime()?.block_on(process::serve(folder, &clusters))
}

/// Measures, prints and keeps. Says whether every bar was met.
pub fn run(options: &Options) -> Result<bool, Fault> {
    let results = runtime()?.block_on(measure(options))?;
    say(&results.table());
    if let Some(folder) = options.json.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&options.json, results.json())?;
    Ok(results.met())
}

fn runtime() -> Result<tokio::runtime::Runtime, Fault> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}

async fn measure(options: &Options) -> Result<Results, Fault> {
    let folder = tempfile::tempdir()?;
    let names = Names::create(folder.path())?;
    let east = Process::start(folder.path(), None, None).await?;
    let beside = folder.path().join("west");
    std::fs::create_dir(&beside)?;
    names.save(Role::Scheduler, OTHER, &scheduler_source(&beside))?;
    let west = Process::start(&beside, None, None).await?;
    let _fleet = Fleet::start(NODES, WORKLOADS, &names, east.grpc).await?;
    let mut clients = Clients::connect(&names, east.grpc).await?;
    clients.nodes_ready(NODES).await?;
    let mut watch = clients.watch(WORKLOADS).await?;
    clients.burst(0..WORKLOADS, 16).await?;
    watch.wait(WORKLOADS).await?;
    drop(watch);

    for (nth, at) in [east.grpc, west.grpc].into_iter().enumerate() {
        let callers = if nth == 0 { streams::CALLERS } else { 0 };
        let users = (0..callers).map(streams::caller).chain([reads::USER.to_owned()]);
        bind(&names, at, users).await?;
    }
    let gateway = Gateway::start(folder.path(), &names, east.grpc, west.grpc).await?;
    let site = Site { folder: folder.path(), names: &names, gateway: &gateway };
    let both = Both::connect(&site, east.grpc).await?;
    both.agree(WORKLOADS).await?;
    let pids = [east.pid(), gateway.pid()];
    let mut reads = Vec::new();
    for kind in Kind::ALL {
        let measured = Reads::measure(&both, kind, options, pids).await?;
        say(&measured.line());
        reads.push(measured);
    }
    drop(both);
    let streams = Streams::measure(&site).await?;
    say(&streams.line());
    let frozen = Frozen::measure(&site, west.pid(), options).await?;
    say(&frozen.line());
    Ok(Results { reads, streams, frozen })
}

/// Lets these users look at everything.
async fn bind(
    names: &Names,
    scheduler: SocketAddr,
    users: impl Iterator<Item = String>,
) -> Result<(), Fault> {
    let credentials = names.credentials(Role::Operator, "operator")?;
    let connector = Connector::tls(&credentials, Expected::Scheduler)?;
    let endpoint = Endpoint::from_shared(format!("http://{scheduler}"))?;
    let mut access = AccessClient::new(endpoint.connect_with_connector(connector).await?);
    for user in users {
        let binding = RoleBinding {
            user,
            role: "viewer".to_owned(),
            scope: Some(RoleScope { cluster: true, ..RoleScope::default() }),
            ..RoleBinding::default()
        };
        access.put_binding(PutBindingRequest { binding: Some(binding) }).await?;
    }
    Ok(())
}
