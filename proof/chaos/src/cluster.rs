//! The topology: schedulers, agents, dockerds and etcd as processes, with a link between every two.
//!
//! | link | from | to |
//! |---|---|---|
//! | `user-s1` | the load | a scheduler |
//! | `peer-s1` | other schedulers | a scheduler |
//! | `a1-s1` | an agent | a scheduler |
//! | `orders-a1` | schedulers | an agent |
//! | `s1-etcd0` | a scheduler | a member of etcd |

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use persys_e2e::daemon::{Daemon, Kind};
use persys_e2e::processes::free_port;
use persys_etcd_host::{Host, Options as EtcdOptions};
use rustix::process::Signal;
use tonic::transport::Channel;

use crate::Fault;
use crate::names::Names;
use crate::process::{self, Process};
use crate::proxy::{Link, Way};
use crate::witness::{self, Folder};

/// Longest time that a look at the cluster may take.
const LOOK: Duration = Duration::from_secs(4);
/// Members of etcd.
const MEMBERS: usize = 3;

/// How large a cluster is.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Schedulers on an etcd of three members; 0: one scheduler on a file.
    pub on_etcd: usize,
    /// Agents without a runtime.
    pub simulated: usize,
    /// Agents with a Docker of their own each.
    pub docker: usize,
}

/// A scheduler.
#[derive(Debug)]
pub struct Scheduler {
    /// Its process.
    pub process: Process,
    /// A way to it past all links.
    pub direct: Channel,
    /// Where it listens.
    pub grpc: SocketAddr,
}

/// An agent.
#[derive(Debug)]
pub struct Agent {
    /// Its process, which has the name of its node.
    pub process: Process,
    /// A way to it past all links.
    pub direct: Channel,
    /// Its folder.
    pub state: PathBuf,
    /// Its Docker; none: it is simulated.
    pub docker: Option<usize>,
}

/// A Docker daemon of our own.
#[derive(Debug)]
pub struct Docker {
    /// The daemon.
    pub daemon: Daemon,
    /// Its address.
    pub host: String,
    /// False while it is killed.
    pub runs: bool,
    /// True while it is paused.
    pub paused: bool,
}

/// Members of etcd.
#[derive(Debug)]
pub struct Etcd {
    /// Them.
    pub host: Host,
    /// Those that are paused.
    pub paused: Vec<usize>,
}

/// Everything that runs. Dropping it ends it.
#[derive(Debug)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// Schedulers.
    pub schedulers: Vec<Scheduler>,
    /// Agents.
    pub agents: Vec<Agent>,
    /// Daemons.
    pub dockers: Vec<Docker>,
    /// etcd, if it is not a file.
    pub etcd: Option<Etcd>,
    /// The folder of the witnesses.
    pub witness: Folder,
    /// Certificates.
    pub names: Names,
    links: BTreeMap<String, (Link, Way)>,
    logs: PathBuf,
    state: tempfile::TempDir,
}

impl Cluster {
    /// Starts everything. Logs go to a folder of their own.
    pub async fn start(program: &Path, size: Size, logs: &Path) -> Result<Self, Fault> {
        let state = tempfile::tempdir()?;
        std::fs::create_dir_all(logs)?;
        let name = format!("chaos-{}-{}", std::process::id(), free_port());
        let mut cluster = Self {
            names: Names::create(state.path(), &name)?,
            witness: Folder::create(state.path().join("witness"))?,
            name,
            schedulers: Vec::new(),
            agents: Vec::new(),
            dockers: Vec::new(),
            etcd: None,
            links: BTreeMap::new(),
            logs: logs.to_owned(),
            state,
        };
        cluster.start_dockers(size.docker)?;
        if size.on_etcd > 0 {
            let host = Host::start(EtcdOptions::new(MEMBERS)).await;
            cluster.etcd = Some(Etcd { host, paused: Vec::new() });
        }
        for nth in 1..=size.on_etcd.max(1) {
            cluster.add_scheduler(program, &format!("s{nth}")).await?;
        }
        for nth in 1..=size.simulated {
            cluster.add_agent(program, &format!("a{nth}"), None).await?;
        }
        for nth in 0..size.docker {
            cluster.add_agent(program, &format!("d{}", nth + 1), Some(nth)).await?;
        }
        Ok(cluster)
    }

    fn start_dockers(&mut self, count: usize) -> Result<(), Fault> {
        let tree = self.state.path().join("image");
        if count > 0 {
            witness::tree(&tree)?;
        }
        for _ in 0..count {
            let daemon = Daemon::empty(Kind::Lasting);
            let host = daemon.host();
            witness::import(&tree, &host)?;
            self.dockers.push(Docker { daemon, host, runs: true, paused: false });
        }
        Ok(())
    }

    async fn link(&mut self, name: String, to: SocketAddr) -> Result<SocketAddr, Fault> {
        let link = Link::to(to).await?;
        let at = link.at;
        self.links.insert(name, (link, Way::Open));
        Ok(at)
    }

    async fn add_scheduler(&mut self, program: &Path, name: &str) -> Result<(), Fault> {
        let grpc = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        self.link(format!("user-{name}"), grpc).await?;
        let peer = self.link(format!("peer-{name}"), grpc).await?;
        let certificate = self.names.scheduler(name)?;
        let state = self.state.path().join(name);
        let mut words = words(&format!(
            "scheduler --grpc-addr 127.0.0.1 --grpc-port {} --metrics-port {} --advertise-ip 127.0.0.1 \
             --advertise-port {} --cluster {} --state-dir {} --identity {} --dns-enabled=false \
             --vault-enabled false --log-format text",
            grpc.port(),
            free_port(),
            peer.port(),
            self.name,
            state.display(),
            certificate.display()
        ));
        if let Some(etcd) = &self.etcd {
            let mut endpoints = Vec::new();
            for (nth, at) in etcd.host.endpoints().into_iter().enumerate() {
                endpoints.push((format!("{name}-etcd{nth}"), at.parse()?));
            }
            let mut through = Vec::new();
            for (link, to) in endpoints {
                through.push(self.link(link, to).await?.to_string());
            }
            words.extend(["--store", "etcd", "--etcd-endpoints"].map(ToOwned::to_owned));
            words.push(through.join(","));
        }
        let mut process = Process::new(name, program, words, &self.logs);
        process.start()?;
        let direct = self.names.to_scheduler(grpc, LOOK)?;
        self.schedulers.push(Scheduler { process, direct, grpc });
        Ok(())
    }

    async fn add_agent(
        &mut self,
        program: &Path,
        node: &str,
        docker: Option<usize>,
    ) -> Result<(), Fault> {
        let grpc = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let orders = self.link(format!("orders-{node}"), grpc).await?;
        let schedulers: Vec<_> =
            self.schedulers.iter().map(|one| (one.process.name.clone(), one.grpc)).collect();
        let mut through = Vec::new();
        for (scheduler, at) in schedulers {
            through.push(self.link(format!("{node}-{scheduler}"), at).await?.to_string());
        }
        let certificate = self.names.agent(node)?;
        let state = self.state.path().join(node);
        let runtime = if docker.is_some() { "docker" } else { "sim" };
        let mut words = words(&format!(
            "agent --node-id {node} --cluster {} --scheduler-addr {} --grpc-addr 127.0.0.1 --grpc-port {} \
             --agent-grpc-endpoint {orders} --state-path {} --identity {} --runtime {runtime} \
             --labels runtime={runtime} --admit-percent 0 --admit-disk-percent 0 --metrics-port 0 \
             --compose-enabled=false --vm-enabled=false --storage-local-root {} \
             --storage-local-limit none --vault-enabled false --log-format text",
            self.name,
            through.join(","),
            grpc.port(),
            state.display(),
            certificate.display(),
            state.join("volumes").display()
        ));
        if let Some(docker) = docker.and_then(|nth| self.dockers.get(nth)) {
            words.extend(["--docker-host".to_owned(), docker.host.clone()]);
        }
        let mut process = Process::new(node, program, words, &self.logs);
        process.start()?;
        let direct = self.names.to_agent(node, grpc, LOOK)?;
        self.agents.push(Agent { process, direct, state, docker });
        Ok(())
    }

    /// Address at which users reach the nth scheduler, through its link.
    #[must_use]
    pub fn doors(&self) -> Vec<SocketAddr> {
        let name = |one: &Scheduler| format!("user-{}", one.process.name);
        let link = |one: &Scheduler| self.links.get(&name(one)).map(|(link, _)| link.at);
        self.schedulers.iter().filter_map(link).collect()
    }

    /// Links whose names begin and end so, and that are as they should be.
    #[must_use]
    pub fn open_links(&self, begin: &str, end: &str) -> Vec<String> {
        let fits = |name: &str| name.starts_with(begin) && name.ends_with(end);
        let links = self.links.iter().filter(|(name, (_, way))| fits(name) && *way == Way::Open);
        links.map(|(name, _)| name.clone()).collect()
    }

    /// Makes links behave this way.
    pub fn set_links(&mut self, names: &[String], to: Way) {
        for name in names {
            if let Some((link, way)) = self.links.get_mut(name) {
                link.set(to);
                *way = to;
            }
        }
    }

    /// Every process of the product, whether it runs or not.
    pub fn processes(&mut self) -> impl Iterator<Item = &mut Process> {
        let schedulers = self.schedulers.iter_mut().map(|one| &mut one.process);
        schedulers.chain(self.agents.iter_mut().map(|one| &mut one.process))
    }

    /// The process of this name.
    pub fn process(&mut self, name: &str) -> Option<&mut Process> {
        self.processes().find(|process| process.name == name)
    }

    /// The watchdogs of an agent, or of all of them.
    #[must_use]
    pub fn watchdogs(&self, node: Option<&str>) -> Vec<u32> {
        let folder = self.state.path().join(node.unwrap_or_default());
        process::with_words(&["agent-watchdog", &folder.display().to_string()])
    }

    /// Process ids by name, for what they use.
    pub fn ids(&mut self) -> Vec<(String, u32)> {
        let mut ids: Vec<_> =
            self.processes().filter_map(|one| Some((one.name.clone(), one.id()?))).collect();
        for (nth, docker) in self.dockers.iter().enumerate() {
            ids.push((format!("dockerd-{}", nth + 1), docker.daemon.id()));
        }
        if let Some(etcd) = &self.etcd {
            let members = (0..etcd.host.count()).filter_map(|nth| Some((nth, etcd.host.pid(nth)?)));
            ids.extend(members.map(|(nth, id)| (format!("etcd-{nth}"), id)));
        }
        for agent in &self.agents {
            let node = &agent.process.name;
            let of_it = self.watchdogs(Some(node)).into_iter();
            ids.extend(of_it.map(|id| (format!("watchdog-{node}"), id)));
        }
        ids
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in self.processes() {
            process.kill().ok();
        }
        self.watchdogs(None).into_iter().for_each(process::kill_id);
        for docker in &mut self.dockers {
            if docker.paused {
                docker.daemon.signal(Signal::CONT);
            } else if !docker.runs {
                docker.daemon.start_again();
            }
        }
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(ToOwned::to_owned).collect()
}
