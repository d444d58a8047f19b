//! What a user may ask for, checked.
//!
//! A [`Spec`] exists only if it can be run as it says: nothing in it is accepted and then dropped.
//! It is made from a [`draft::Draft`] by [`check::check`], which names every fault at once.

pub mod canonical;
pub mod check;
pub mod compose;
pub mod container;
pub mod draft;
pub mod fill;
pub mod health;
pub mod secret;
pub mod shadow;
pub mod vm;
pub mod volume;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::id::{DriverName, NamespaceName, NodeId, SecretName};
use crate::labels::{Constraint, Toleration};
use crate::resources::Resources;
use crate::secret::{SecretUse, Signal};

use health::HealthChecks;
use volume::{ManagedVolume, VolumeDriver};

pub use compose::ComposeSpec;
pub use container::ContainerSpec;
pub use vm::VmSpec;

/// One version of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Spec {
    /// What runs.
    pub kind: Kind,
    /// What it reserves.
    pub resources: Resources,
    /// Where it may run.
    pub placement: Placement,
    /// Free words of the user, handed through.
    pub metadata: BTreeMap<Arc<str>, Arc<str>>,
    /// The secrets it uses.
    pub secrets: Vec<SecretUse>,
    /// Time in milliseconds a copy has to end by itself when it is stopped or removed, if the user
    /// gave one. In a stack it counts for services that name none of their own.
    pub stop_grace_ms: Option<u64>,
    /// Its health checks.
    pub health: HealthChecks,
}

/// The key of the metadata that says in which namespace a workload is.
pub const NAMESPACE_KEY: &str = "persys.io/namespace";

/// The key of the metadata that names the node on which an earlier installation runs the workload.
/// It starts there and nowhere else until it has run once, and the agent takes over the container of
/// the earlier installation.
pub const ADOPT_ON_KEY: &str = "persys.io/adopt-on";

impl Spec {
    /// The node on which an earlier installation runs it, if it was imported.
    #[must_use]
    pub fn adopt_on(&self) -> Option<NodeId> {
        self.metadata.get(ADOPT_ON_KEY).and_then(|text| NodeId::new(text).ok())
    }

    /// The secrets whose new values are told to what runs, with the signal that tells it.
    #[must_use]
    pub fn signals(&self) -> BTreeMap<&SecretName, Signal> {
        let uses = self.secrets.iter();
        uses.filter_map(|used| Some((&used.secret, used.signal()?))).collect()
    }

    /// The namespace it is in: the one it names, or the default one.
    #[must_use]
    pub fn namespace(&self) -> NamespaceName {
        let named = self.metadata.get(NAMESPACE_KEY);
        // What is no name is refused when a spec is checked; an old record may still have it.
        named
            .and_then(|text| NamespaceName::new(text).ok())
            .unwrap_or_else(NamespaceName::default_one)
    }
}

/// The three kinds of workload.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One container.
    Container(ContainerSpec),
    /// A Compose stack, run as one unit on one node.
    Compose(ComposeSpec),
    /// A virtual machine.
    Vm(VmSpec),
}

impl Kind {
    /// Whether a new revision is brought over what runs, which stays if that fails. Anything else is
    /// removed first and made anew.
    #[must_use]
    pub fn updates_in_place(&self) -> bool {
        match self {
            Self::Container(_) => false,
            Self::Compose(_) | Self::Vm(_) => true,
        }
    }
}

impl From<ContainerSpec> for Kind {
    fn from(container: ContainerSpec) -> Self {
        Self::Container(container)
    }
}

impl From<ComposeSpec> for Kind {
    fn from(stack: ComposeSpec) -> Self {
        Self::Compose(stack)
    }
}

impl From<VmSpec> for Kind {
    fn from(machine: VmSpec) -> Self {
        Self::Vm(machine)
    }
}

/// The kind without its details: what a node says it can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadType {
    /// Docker.
    Container,
    /// Docker Compose.
    Compose,
    /// libvirt.
    Vm,
}

impl WorkloadType {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Container, Self::Compose, Self::Vm];

    /// The word of the contract.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Compose => "compose",
            Self::Vm => "vm",
        }
    }
}

/// Rules for choosing a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub struct Placement {
    /// All must hold.
    pub constraints: Vec<Constraint>,
    /// Taints it puts up with.
    pub tolerations: Vec<Toleration>,
    /// Which of the nodes that fit.
    pub strategy: Strategy,
    /// Whether two copies may exist for a moment.
    pub class: Class,
    /// What to do when its node is lost.
    pub on_node_loss: OnNodeLoss,
}

/// Which of several fitting nodes is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// The emptiest: a lost node takes little with it.
    #[default]
    Spread,
    /// The fullest that still fits: leaves whole nodes free.
    BinPack,
}

/// Whether a second copy may exist for a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub enum Class {
    /// At least once: survives outages by starting elsewhere, may overlap briefly.
    #[default]
    Default,
    /// At most once: started elsewhere only when the old copy is provably stopped.
    Exclusive,
}

/// What happens to a workload whose node is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub enum OnNodeLoss {
    /// Move it if it keeps no data on the node, else let it stay.
    #[default]
    Auto,
    /// Move it even though its local data stays behind.
    Move,
    /// Wait for the node.
    Stay,
}

/// Time in milliseconds that a container has to end by itself before it is ended, unless it names
/// another; each container of a stack likewise.
pub const STOP_GRACE_MS: u64 = 10_000;
/// The same for a machine: a guest takes longer to shut down.
pub const VM_STOP_GRACE_MS: u64 = 60_000;

impl Spec {
    /// Longest time in milliseconds that stopping a copy of it may take by itself, without anything
    /// being wrong. Services of a stack may end one after the other.
    #[must_use]
    pub fn stop_grace_ms(&self) -> u64 {
        match &self.kind {
            Kind::Container(_) => self.stop_grace_ms.unwrap_or(STOP_GRACE_MS),
            Kind::Compose(stack) => {
                stack.stop_grace_ms(self.stop_grace_ms.unwrap_or(STOP_GRACE_MS))
            }
            Kind::Vm(_) => self.stop_grace_ms.unwrap_or(VM_STOP_GRACE_MS),
        }
    }

    /// Its kind without details.
    #[must_use]
    pub fn workload_type(&self) -> WorkloadType {
        match &self.kind {
            Kind::Container(_) => WorkloadType::Container,
            Kind::Compose(_) => WorkloadType::Compose,
            Kind::Vm(_) => WorkloadType::Vm,
        }
    }

    /// The addresses of its node that a port is published on; empty if that is every address.
    #[must_use]
    pub fn addresses_of(&self, port: HostPort) -> Vec<std::net::IpAddr> {
        match &self.kind {
            Kind::Container(container) => container.addresses_of(port),
            Kind::Compose(compose) => compose.addresses_of(port),
            Kind::Vm(_) => Vec::new(),
        }
    }

    /// Ports it takes on its node.
    #[must_use]
    pub fn host_ports(&self) -> Vec<HostPort> {
        match &self.kind {
            Kind::Container(container) => container.host_ports(),
            Kind::Compose(compose) => compose.host_ports.clone(),
            Kind::Vm(_) => Vec::new(),
        }
    }

    /// Volumes that are made and kept for it.
    #[must_use]
    pub fn managed_volumes(&self) -> &[ManagedVolume] {
        match &self.kind {
            Kind::Container(container) => &container.managed_volumes,
            Kind::Compose(_) => &[],
            Kind::Vm(vm) => &vm.managed_volumes,
        }
    }

    /// Disk in GiB that containers of it may fill with layers of their own: what it reserves in the
    /// default pool beside its volumes. `None` where nothing is reserved for that, and for machines.
    #[must_use]
    pub fn layer_gib(&self) -> Option<u64> {
        match self.kind {
            Kind::Container(_) | Kind::Compose(_) => {}
            Kind::Vm(_) => return None,
        }
        let in_default = self.resources.disk.iter().find(|(pool, _)| pool.is_none());
        let local = self.managed_volumes().iter().filter(|volume| volume.driver.is_local());
        let volumes = local.fold(0, |sum: u64, volume| sum.saturating_add(volume.size_gib));
        let left = in_default.map_or(0, |(_, gib)| gib).saturating_sub(volumes);
        (left > 0).then_some(left)
    }

    /// Storage drivers its node must have.
    #[must_use]
    pub fn drivers(&self) -> Vec<DriverName> {
        let mut drivers: Vec<_> = match &self.kind {
            Kind::Container(container) => volume_drivers(&container.managed_volumes),
            Kind::Compose(_) => Vec::new(),
            Kind::Vm(vm) => {
                let disks = vm.disks.iter().filter_map(|disk| disk.source.driver());
                let mut drivers = volume_drivers(&vm.managed_volumes);
                drivers.extend(disks.map(VolumeDriver::name));
                drivers
            }
        };
        drivers.sort();
        drivers.dedup();
        drivers
    }

    /// Whether it leaves data behind on a node that it would miss elsewhere.
    #[must_use]
    pub fn keeps_local_data(&self) -> bool {
        match &self.kind {
            Kind::Container(container) => {
                container.managed_volumes.iter().any(|v| v.driver.is_local())
            }
            Kind::Compose(compose) => compose.has_named_volumes,
            Kind::Vm(vm) => {
                vm.disks.iter().any(|disk| disk.source.driver().is_none())
                    || vm.managed_volumes.iter().any(|v| v.driver.is_local())
            }
        }
    }

    /// Whether it stays with its node when that is lost or drained.
    #[must_use]
    pub fn stays_with_node(&self) -> bool {
        match self.placement.on_node_loss {
            OnNodeLoss::Auto => self.keeps_local_data(),
            OnNodeLoss::Move => false,
            OnNodeLoss::Stay => true,
        }
    }
}

fn volume_drivers(volumes: &[ManagedVolume]) -> Vec<DriverName> {
    volumes.iter().map(|volume| volume.driver.name()).collect()
}

/// Transport of a published port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// A port taken on the node itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// Its number, never 0.
    pub port: u16,
    /// Its transport.
    pub protocol: Protocol,
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        write!(f, "{}/{protocol}", self.port)
    }
}
