//! A Compose file as it will be run: nothing in it that was not read and judged.
//!
//! What the specification allows to be written in several ways stands here in one. Printing a
//! document shows no values: environments and commands carry passwords.

use std::collections::{BTreeMap, BTreeSet};

use crate::content::Content;
use crate::service::{Condition, HostPort, MountSource, Restart, Service};

/// Everything that runs as one stack.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Document {
    pub(crate) services: BTreeMap<String, Service>,
    pub(crate) networks: BTreeMap<String, Network>,
    pub(crate) volumes: BTreeMap<String, Volume>,
    /// Files that were sent along, by the name the file has for them.
    pub(crate) contents: BTreeMap<String, Content>,
}

/// A network of the stack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Network {
    /// The node's own name for it, if it is none of the stack's.
    pub external: Option<String>,
    /// Whether it has no way out.
    pub internal: bool,
    /// Whether it has IPv6 addresses.
    pub ipv6: bool,
    /// Options of the bridge.
    pub options: BTreeMap<String, String>,
    /// Its addresses.
    pub subnets: Vec<Subnet>,
    /// Labels besides ours.
    pub labels: BTreeMap<String, String>,
}

/// Addresses of a network.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subnet {
    /// `address/bits`.
    pub range: Option<String>,
    /// The part of it that is given out, `address/bits`.
    pub given_out: Option<String>,
    /// The way out.
    pub gateway: Option<std::net::IpAddr>,
}

/// A named volume of the stack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Volume {
    /// The node's own name for it, if it is none of the stack's.
    pub external: Option<String>,
    /// Labels besides ours.
    pub labels: BTreeMap<String, String>,
}

/// Something of the node that a stack uses and did not make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum External<'a> {
    /// A network.
    Network(&'a str),
    /// A volume.
    Volume(&'a str),
}

/// What all services of a stack ask for together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Need {
    /// Thousandths of a core, of those that say.
    pub cpu_millicores: u64,
    /// Bytes of memory, of those that say.
    pub memory_bytes: u64,
    /// Containers that say nothing about CPU.
    pub without_cpu: u64,
    /// Containers that say nothing about memory.
    pub without_memory: u64,
}

impl Document {
    /// Its services, by name.
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        self.services.values()
    }

    /// One of its services.
    #[must_use]
    pub fn service(&self, name: &str) -> Option<&Service> {
        self.services.get(name)
    }

    /// Names of its networks.
    pub fn networks(&self) -> impl Iterator<Item = &str> {
        self.networks.keys().map(String::as_str)
    }

    /// Names of the volumes whose data must survive updates.
    pub fn named_volumes(&self) -> impl Iterator<Item = &str> {
        let own = self.volumes.iter().filter(|(_, volume)| volume.external.is_none());
        own.map(|(name, _)| name.as_str())
    }

    /// Networks and volumes of the node that it uses, by the node's names for them.
    pub fn externals(&self) -> impl Iterator<Item = External<'_>> {
        let networks = self.networks.values().filter_map(|one| one.external.as_deref());
        let volumes = self.volumes.values().filter_map(|one| one.external.as_deref());
        networks.map(External::Network).chain(volumes.map(External::Volume))
    }

    /// Files that were sent along, by the name of the file or folder they are written to.
    pub fn contents(&self) -> impl Iterator<Item = (String, &Content)> {
        self.contents.values().map(|content| (content.file_name(), content))
    }

    /// Files that were sent along: which service sees them, and where.
    pub fn seen_contents(&self) -> impl Iterator<Item = (&str, &str, &Content)> {
        let all = self.services.values();
        let mounts =
            all.flat_map(|service| service.mounts.iter().map(move |mount| (service, mount)));
        mounts.filter_map(|(service, mount)| match &mount.source {
            MountSource::Content { key } => {
                let content = self.contents.get(key)?;
                Some((service.name.as_str(), mount.target.as_str(), content))
            }
            MountSource::Volume { .. }
            | MountSource::Anonymous
            | MountSource::Bind { .. }
            | MountSource::Secret(_)
            | MountSource::Tmpfs { .. } => None,
        })
    }

    /// The fixed ports it takes on its node, each once.
    #[must_use]
    pub fn host_ports(&self) -> Vec<HostPort> {
        let ports = self.services.values().flat_map(|service| &service.ports);
        let fixed = ports.filter_map(|port| {
            port.host.map(|number| HostPort { port: number, protocol: port.protocol })
        });
        fixed.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The addresses of the node that a fixed port is published on; empty if that is every address.
    #[must_use]
    pub fn addresses_of(&self, taken: HostPort) -> Vec<std::net::IpAddr> {
        let ports = self.services.values().flat_map(|service| &service.ports);
        let bound =
            ports.filter(|port| port.host == Some(taken.port) && port.protocol == taken.protocol);
        bound.map(|port| port.address).collect::<Option<Vec<_>>>().unwrap_or_default()
    }

    /// The images it needs, each once.
    #[must_use]
    pub fn images(&self) -> BTreeSet<&str> {
        self.services.values().map(|service| service.image.as_str()).collect()
    }

    /// What its services ask for together: what is set aside, else what they may use at most.
    #[must_use]
    pub fn resources(&self) -> Need {
        let mut need = Need::default();
        for service in self.services.values() {
            let copies = u64::from(service.replicas);
            let limits = &service.limits;
            match limits.reserved_cpu_millicores.or(limits.cpu_millicores) {
                Some(each) => add(&mut need.cpu_millicores, each, copies),
                None => add(&mut need.without_cpu, 1, copies),
            }
            match limits.reserved_memory_bytes.or(limits.memory_bytes) {
                Some(each) => add(&mut need.memory_bytes, each, copies),
                None => add(&mut need.without_memory, 1, copies),
            }
        }
        need
    }

    /// Says of each service whether it may end: because it is not started again when it ended well,
    /// or because another waits for its end.
    pub(crate) fn settle_one_shots(&mut self) {
        let awaited: BTreeSet<String> = self
            .services
            .values()
            .flat_map(|service| &service.depends_on)
            .filter(|(_, condition)| **condition == Condition::Completed)
            .map(|(name, _)| name.clone())
            .collect();
        for service in self.services.values_mut() {
            let ends = matches!(service.restart, Restart::No | Restart::OnFailure { .. });
            service.one_shot = ends || awaited.contains(&service.name);
        }
    }
}

fn add(sum: &mut u64, each: u64, copies: u64) {
    *sum = sum.saturating_add(each.saturating_mul(copies));
}

impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.services.values()).finish()
    }
}
