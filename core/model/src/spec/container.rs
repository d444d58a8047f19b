//! A container as it will be run.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::secret::Secret;
use super::volume::ManagedVolume;
use super::{HostPort, Protocol};

/// One container.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct ContainerSpec {
    /// Image reference, as the user wrote it.
    pub image: Arc<str>,
    /// Program in place of the image's `ENTRYPOINT`; empty keeps the image's.
    pub entrypoint: Vec<Arc<str>>,
    /// First part of the words in place of the image's `CMD`; empty beside an entrypoint.
    pub command: Vec<Arc<str>>,
    /// Second part. Both empty keep the image's `CMD`.
    pub args: Vec<Arc<str>>,
    /// Environment.
    pub env: BTreeMap<Arc<str>, Secret>,
    /// Paths of the node seen inside.
    pub binds: Vec<Bind>,
    /// Ports published on the node.
    pub ports: Vec<Port>,
    /// When to start it again after it ends.
    pub restart: RestartPolicy,
    /// Whether it has all the powers of the host; policy decides whether it may.
    pub privileged: bool,
    /// Labels put on the container besides ours.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// What it may use at most, beside what it reserves.
    pub limits: Limits,
    /// Volumes we make and keep for it.
    pub managed_volumes: Vec<ManagedVolume>,
}

/// Hard limits of a container. What the user asked to reserve is a limit too, as clients of the
/// contract mean it; what is reserved because nobody said anything is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Limits {
    /// Weight when CPU is short, 2 to 262144.
    pub cpu_shares: Option<u32>,
    /// Most memory, never less than what is reserved.
    pub memory_bytes: Option<u64>,
    /// Swap beyond it.
    pub swap: Swap,
    /// Amounts of which the reservation is no limit.
    pub open: Open,
}

/// Amounts a container may use more of than it reserves, as far as the node has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Open {
    /// CPU time; what is reserved is a weight only.
    pub cpu: bool,
    /// Memory; what is reserved is given back last when memory is short.
    pub memory: bool,
}

/// How much a container may swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Swap {
    /// As the runtime does by itself.
    #[default]
    RuntimeDefault,
    /// As much as the node has.
    Unlimited,
    /// Memory and swap together, never less than the memory limit.
    TotalBytes(u64),
}

/// A path of the node seen inside a container.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bind {
    /// Absolute, without `..`.
    pub host_path: Arc<str>,
    /// Absolute, without `..`.
    pub container_path: Arc<str>,
    /// Whether it may only be read.
    pub read_only: bool,
}

/// A port of the container published on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Port {
    /// Address of the node it is published on; `None` is every address.
    pub address: Option<IpAddr>,
    /// On the node; `None` lets the runtime choose.
    pub host: Option<u16>,
    /// In the container, never 0.
    pub container: u16,
    /// Its transport.
    pub protocol: Protocol,
}

impl Port {
    /// The port it takes on its node, if it is fixed.
    #[must_use]
    pub fn on_node(&self) -> Option<HostPort> {
        Some(HostPort { port: self.host?, protocol: self.protocol })
    }

    /// True if both cannot be published on one node: the same port, on an address they share.
    #[must_use]
    pub fn clashes_with(&self, other: &Self) -> bool {
        let every =
            |address: Option<IpAddr>| address.is_none_or(|address| address.is_unspecified());
        self.on_node().is_some()
            && self.on_node() == other.on_node()
            && (every(self.address) || every(other.address) || self.address == other.address)
    }
}

/// When to start again what has ended. Kept by the agent, not handed to Docker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum RestartPolicy {
    /// Never: exit 0 is completion, anything else is failure.
    #[default]
    No,
    /// Whenever it ends.
    Always,
    /// Whenever it ends, at most so often in a row: `always` or `unless-stopped` with a count.
    AlwaysUpTo {
        /// Most restarts in a row, never 0.
        max_retries: u32,
    },
    /// Only when it ends badly, at most so often (0 = no limit).
    OnFailure {
        /// Most restarts in a row; 0 sets no limit.
        max_retries: u32,
    },
    /// Like `Always`; a stop by the user already outlives a restart of the node here.
    UnlessStopped,
}

impl ContainerSpec {
    /// The fixed ports it takes on its node, each once. A port that is published on one address only
    /// is counted as taken on all of them.
    #[must_use]
    pub fn host_ports(&self) -> Vec<HostPort> {
        let mut taken = Vec::new();
        for port in self.ports.iter().filter_map(Port::on_node) {
            if !taken.contains(&port) {
                taken.push(port);
            }
        }
        taken
    }

    /// The addresses of the node that a fixed port is published on; empty if that is every address.
    #[must_use]
    pub fn addresses_of(&self, port: HostPort) -> Vec<IpAddr> {
        let bound = self.ports.iter().filter(|one| one.on_node() == Some(port));
        bound.map(|one| one.address).collect::<Option<Vec<_>>>().unwrap_or_default()
    }
}
