//! The same reads both ways, in turns.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use persys_identity::{Connector, Expected, Role};
use persys_proto::control::v1::GetWorkloadRequest;
use persys_proto::json::Message as _;
use persys_proto::json::{self, Style};
use reqwest::Client;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::Request;
use tonic::transport::{Channel, Endpoint};

use super::process::Site;
use super::{Options, WORKLOADS};
use crate::cpu;
use crate::fleet::Fault;

/// Clients of each kind, each with a connection and one question at a time.
const CLIENTS: usize = 32;
/// In whose name everything is read, both ways.
pub(super) const USER: &str = "alice";
/// Largest answer that is taken.
const LARGEST: usize = 64 * 1024 * 1024;
/// How long after its end a turn waits for its last answers. Who waits longer would wait for ever.
const HANGS: Duration = Duration::from_secs(30);
/// How long a turn begins before it counts.
const WARM: Duration = Duration::from_millis(300);

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One workload, another one each time.
    Get,
    /// All workloads.
    List,
    /// All nodes.
    Nodes,
    /// How many there are of each.
    Summary,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Get, Self::List, Self::Nodes, Self::Summary];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Get => "one workload",
            Self::List => "200 workloads",
            Self::Nodes => "20 nodes",
            Self::Summary => "summary",
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::Get => "/persys.control.v1.AgentControl/GetWorkload",
            Self::List => "/persys.control.v1.AgentControl/ListWorkloads",
            Self::Nodes => "/persys.control.v1.AgentControl/ListNodes",
            Self::Summary => "/persys.control.v1.AgentControl/GetClusterSummary",
        }
    }

    fn message(self, nth: usize) -> Bytes {
        match self {
            Self::Get => GetWorkloadRequest { workload_id: workload(nth) }.encode_to_vec().into(),
            Self::List | Self::Nodes | Self::Summary => Bytes::new(),
        }
    }

    pub(super) fn path(self, nth: usize) -> String {
        match self {
            Self::Get => format!("/v1/workloads/{}", workload(nth)),
            Self::List => "/v1/workloads?limit=1000".to_owned(),
            Self::Nodes => "/v1/nodes".to_owned(),
            Self::Summary => "/v1/summary".to_owned(),
        }
    }
}

fn workload(nth: usize) -> String {
    format!("w{:06}", nth % WORKLOADS)
}

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Grpc,
    Rest,
}

#[derive(Clone)]
enum One {
    Grpc(Channel),
    Rest(Client, String),
}

impl One {
    /// Asks once; gives the answer as it came.
    async fn ask(&self, kind: Kind, nth: usize) -> Result<Bytes, Fault> {
        match self {
            Self::Grpc(channel) => {
                let request = Request::new(kind.message(nth));
                let asked =
                    persys_codec::raw::unary(channel.clone(), kind.method(), request, LARGEST);
                Ok(asked.await?.into_inner())
            }
            Self::Rest(client, base) => {
                let answer = client.get(format!("{base}{}", kind.path(nth))).send().await?;
                Ok(answer.error_for_status()?.bytes().await?)
            }
        }
    }
}

/// Clients of both kinds.
pub(super) struct Both {
    grpc: Vec<One>,
    rest: Vec<One>,
}

impl Both {
    pub(super) async fn connect(site: &Site<'_>, scheduler: SocketAddr) -> Result<Self, Fault> {
        let credentials = site.names.credentials(Role::User, USER)?;
        let (mut grpc, mut rest) = (Vec::new(), Vec::new());
        for _ in 0..CLIENTS {
            let connector = Connector::tls(&credentials, Expected::Scheduler)?;
            let endpoint = Endpoint::from_shared(format!("http://{scheduler}"))?;
            grpc.push(One::Grpc(endpoint.connect_with_connector(connector).await?));
            rest.push(One::Rest(site.client(USER)?, site.url("")));
        }
        Ok(Self { grpc, rest })
    }

    /// Both ways tell the same of the same.
    pub(super) async fn agree(&self, workloads: usize) -> Result<(), Fault> {
        let (Some(grpc), Some(rest)) = (self.grpc.first(), self.rest.first()) else {
            return Err("there are no clients".into());
        };
        for kind in Kind::ALL {
            let output = json::method(kind.method()).ok_or("no such method")?.output;
            let direct = json::write_bytes(output, &grpc.ask(kind, 7).await?, Style::Snake);
            let through: Value = serde_json::from_slice(&rest.ask(kind, 7).await?)?;
            let same = match kind {
                Kind::Get => ids(&direct, "/workload") == ids(&through, "/workload"),
                Kind::List => {
                    let list = |shown: &Value| {
                        let list = shown.pointer("/workloads").and_then(Value::as_array).cloned();
                        let mut all: Vec<_> =
                            list.unwrap_or_default().iter().map(|one| ids(one, "")).collect();
                        all.sort();
                        all
                    };
                    list(&direct).len() == workloads && list(&direct) == list(&through)
                }
                Kind::Nodes => {
                    let count = |shown: &Value| {
                        shown.pointer("/nodes").and_then(Value::as_array).map(Vec::len)
                    };
                    count(&direct) == count(&through)
                }
                Kind::Summary => {
                    let counts = |shown: &Value| {
                        ["total_nodes", "ready_nodes", "running_workloads"]
                            .map(|key| shown.get(key).cloned())
                    };
                    counts(&direct) == counts(&through)
                }
            };
            if !same {
                return Err(format!("{}: {direct} and {through} differ", kind.word()).into());
            }
        }
        Ok(())
    }

    async fn turn(&self, way: Way, kind: Kind, length: Duration) -> Result<Vec<Duration>, Fault> {
        let clients = if way == Way::Grpc { &self.grpc } else { &self.rest };
        let (warm, begun) = (Instant::now() + WARM, Instant::now());
        let mut tasks = JoinSet::new();
        for (nth, client) in clients.iter().cloned().enumerate() {
            tasks.spawn(async move {
                let (mut took, mut nth) = (Vec::new(), nth);
                while begun.elapsed() < length + WARM {
                    let asked = Instant::now();
                    client.ask(kind, nth).await?;
                    if asked >= warm {
                        took.push(asked.elapsed());
                    }
                    nth += CLIENTS - 1;
                }
                Ok::<_, Fault>(took)
            });
        }
        let mut all = Vec::new();
        let ended = async {
            while let Some(took) = tasks.join_next().await {
                all.extend(took??);
            }
            Ok::<_, Fault>(())
        };
        let hangs = |_| format!("{way:?}, {}: a question hangs", kind.word());
        timeout(length + WARM + HANGS, ended).await.map_err(hangs)??;
        Ok(all)
    }
}

fn ids(shown: &Value, place: &str) -> Vec<String> {
    let one = shown.pointer(place).unwrap_or(&Value::Null);
    let text = |key: &str| one.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    vec![text("workload_id"), text("status"), text("assigned_node_id"), text("revision_id")]
}

/// What one turn gave.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub(super) per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// CPU of each process per answer: scheduler, gateway, clients and agents.
    pub(super) cpu_us: [f64; 3],
    pub(super) foreign_percent: f64,
}

/// What all turns of one kind gave: gRPC and REST of each round.
#[derive(Debug)]
pub(super) struct Reads {
    pub(super) kind: Kind,
    pub(super) turns: Vec<(Turn, Turn)>,
}

impl Reads {
    pub(super) async fn measure(
        both: &Both,
        kind: Kind,
        options: &Options,
        pids: [u32; 2],
    ) -> Result<Self, Fault> {
        let mut turns = Vec::new();
        for round in 0..options.rounds {
            // Who is first changes, so that neither always follows the other.
            let ways = if round % 2 == 0 { [Way::Grpc, Way::Rest] } else { [Way::Rest, Way::Grpc] };
            let mut given = Vec::new();
            for way in ways {
                given.push(Turn::measure(both, way, kind, options.turn, pids).await?);
            }
            if let [first, second] = given.as_slice() {
                let pair = if round % 2 == 0 { (*first, *second) } else { (*second, *first) };
                turns.push(pair);
            }
        }
        Ok(Self { kind, turns })
    }
}

impl Turn {
    async fn measure(
        both: &Both,
        way: Way,
        kind: Kind,
        length: Duration,
        [scheduler, gateway]: [u32; 2],
    ) -> Result<Self, Fault> {
        let pids = [scheduler, gateway, std::process::id()];
        let used = || pids.iter().map(|pid| cpu::process_time(*pid)).collect::<Result<Vec<_>, _>>();
        let (before, machine, begun) = (used()?, cpu::machine_time()?, Instant::now());
        let mut took = both.turn(way, kind, length).await?;
        let (after, wall) = (used()?, begun.elapsed().as_secs_f64());
        let machine = cpu::machine_time()?.saturating_sub(machine);
        // What came while it warmed up cost CPU too.
        let answers = super::report::real(took.len()) * wall / length.as_secs_f64();
        let spent: Vec<_> =
            before.iter().zip(&after).map(|(from, to)| to.saturating_sub(*from)).collect();
        let each =
            |nth: usize| spent.get(nth).copied().unwrap_or_default().as_secs_f64() * 1e6 / answers;
        let ours: Duration = spent.iter().sum();
        let cores = super::report::cores();
        took.sort_unstable();
        Ok(Self {
            per_second: super::report::real(took.len()) / length.as_secs_f64(),
            p50_ms: super::report::at(&took, 50),
            p99_ms: super::report::at(&took, 99),
            cpu_us: [each(0), each(1), each(2)],
            foreign_percent: 100.0 * machine.saturating_sub(ours).as_secs_f64() / wall / cores,
        })
    }
}
