//! Agents: the real core, driver and service, with a ledger and a runtime in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use persys_agent::disks::Disks;
use persys_agent::driver::{Driver, Parts};
use persys_agent::host::{self, Meter};
use persys_agent::ledger::Memory;
use persys_agent::rpc;
use persys_agent::runtimes::Runtimes;
use persys_agent::upward::grpc::Grpc;
use persys_agent::upward::messages;
use persys_agent::usage;
use persys_agent::version::Version;
use persys_identity::{Connector, Expected, Incoming, Role};
use persys_model::id::NodeId;
use persys_model::node::NodeFacts;
use persys_model::resources::Compute;
use persys_node::agent::Agent;
use persys_node::input::Existing;
use persys_node::ledger::Ledger;
use persys_node::settings::AgentSettings;
use persys_runtime::sim::{Settings, Sim};
use persys_runtime::{Clock, Runtime as _};
use persys_telemetry::trace;
use persys_volumes::Volumes;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::transport::Server;

use super::Fault;
use super::load::REQUEST;
use super::names::Names;

/// As the agent's own program has it.
const KEEPALIVE: (Duration, Duration) = (Duration::from_mins(1), Duration::from_secs(20));

/// All agents. Dropping it ends them.
pub(crate) struct Fleet {
    /// What runs where.
    runtimes: BTreeMap<NodeId, Sim>,
    /// How many workloads fit on one.
    room: usize,
    _tasks: JoinSet<()>,
}

impl Fleet {
    /// So many agents with room for all workloads and a quarter more.
    pub(crate) async fn start(
        count: usize,
        workloads: usize,
        names: &Names,
        scheduler: SocketAddr,
    ) -> Result<Self, Fault> {
        let room = (workloads * 5 / 4).div_ceil(count);
        let each = u64::try_from(room)?;
        let (cpu, memory) = REQUEST;
        let capacity = Compute::new(u64::try_from(cpu)? * each, u64::try_from(memory)? * each);
        let meter = Arc::new(Meter::new(capacity, Disks::default()));
        let (mut runtimes, mut tasks) = (BTreeMap::new(), JoinSet::new());
        for nth in 0..count {
            let node = NodeId::new(&format!("n{nth:05}"))?;
            let sim = Sim::new(Settings::default(), Clock::since_boot());
            let agent = One { node: node.clone(), capacity, sim: sim.clone() };
            agent.start(names, scheduler, &meter, &mut tasks).await?;
            runtimes.insert(node, sim);
        }
        Ok(Self { runtimes, room, _tasks: tasks })
    }

    /// Every workload runs once, and no node has more than fits.
    pub(crate) async fn check(&self, workloads: usize) -> Result<(), Fault> {
        let mut seen = BTreeSet::new();
        for (node, sim) in &self.runtimes {
            let there = sim.list().await?;
            if there.len() > self.room {
                return Err(
                    format!("{node} has {} workloads, {} fit", there.len(), self.room).into()
                );
            }
            for one in there {
                if one.state != Existing::Running || !seen.insert(one.workload.clone()) {
                    return Err(format!("{} is not running, or twice", one.workload).into());
                }
            }
        }
        if seen.len() != workloads {
            return Err(format!("{} of {workloads} workloads run", seen.len()).into());
        }
        Ok(())
    }
}

struct One {
    node: NodeId,
    capacity: Compute,
    sim: Sim,
}

impl One {
    async fn start(
        self,
        names: &Names,
        scheduler: SocketAddr,
        meter: &Arc<Meter>,
        tasks: &mut JoinSet<()>,
    ) -> Result<(), Fault> {
        let credentials = names.credentials(Role::Agent, self.node.as_str())?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = listener.local_addr()?;
        let incoming = Incoming::tls(listener, &credentials, Arc::new(|_| {}))?;
        let connector = Connector::tls(&credentials, Expected::Scheduler)?;
        let upward = Grpc::new(&[scheduler.to_string()], &connector, Arc::new(host::date))?;
        let runtimes = Runtimes::sim(self.sim);
        let upward = Arc::new(upward.telling(runtimes.usages()));
        let facts = NodeFacts {
            host: Arc::from(format!("host-{}", self.node)),
            id: self.node,
            incarnation: host::random_id()?,
            endpoint: Arc::from(endpoint.to_string()),
            capacity: self.capacity,
            pools: Vec::new(),
            types: runtimes.offered(),
            drivers: BTreeSet::new(),
            labels: BTreeMap::new(),
            fence: false,
            pauses: true,
            checks_health: true,
            signals: true,
            addresses: true,
            missing: BTreeMap::new(),
        };
        let clock = host::clock();
        let settings =
            AgentSettings { admit_percent: 0, admit_disk_percent: 0, ..AgentSettings::default() };
        let (agent, effects) = Agent::start(facts, Ledger::default(), settings, clock());
        let parts = Parts {
            clock,
            keeper: Arc::new(Memory::default()),
            runtime: Arc::new(runtimes.clone()),
            scheduler: Arc::<Grpc>::clone(&upward),
        };
        let (driver, handle) = Driver::new(parts, agent);
        let spans = rpc::spans(&trace::current());
        handle.settle(&trace::current());
        tasks.spawn(driver.run(effects));
        tasks.spawn(messages::keep(upward, handle.clone()));
        tasks.spawn(runtimes.clone().listen(handle.clone()));
        tasks.spawn(usage::sample(runtimes.clone()));
        // Nothing here has a volume.
        let volumes = Volumes::of(Vec::new(), PathBuf::new());
        let service = rpc::service(
            handle,
            (runtimes, volumes),
            (Arc::clone(meter), Version::default()),
            false,
        );
        tasks.spawn(async move {
            let server = Server::builder()
                .layer(spans)
                .http2_keepalive_interval(Some(KEEPALIVE.0))
                .http2_keepalive_timeout(Some(KEEPALIVE.1))
                .add_service(service);
            // It ends with the benchmark.
            drop(server.serve_with_incoming(incoming).await);
        });
        Ok(())
    }
}
