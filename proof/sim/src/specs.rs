//! What users of the simulation run.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_model::id::VolumeName;
use persys_model::labels::{Constraint, Rule};
use persys_model::resources::{Compute, Disk, Resources};
use persys_model::spec::container::{Limits, Port, RestartPolicy};
use persys_model::spec::health::HealthChecks;
use persys_model::spec::vm::CloudInit;
use persys_model::spec::volume::{AccessMode, ManagedVolume, VolumeDriver};
use persys_model::spec::{
    Class, ContainerSpec, Kind, OnNodeLoss, Placement, Protocol, Spec, Strategy, VmSpec,
};

use crate::health::checks;
use crate::rng::Rng;
use crate::runtime::image;

/// What stays the same about a workload through all its versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A container without data.
    Stateless,
    /// A container with a volume on its node.
    LocalVolume,
    /// A container with a volume that one node at a time may have.
    SharedVolume,
    /// A virtual machine.
    Machine,
    /// A container that takes this port on its node.
    HostPort(u16),
    /// A container that runs to its end.
    Job,
    /// A container that wants nodes of one zone.
    Zoned,
}

/// One version of a workload.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) shape: Shape,
    pub(crate) exclusive: bool,
    pub(crate) image: &'static str,
    pub(crate) compute: Compute,
    pub(crate) disk_gib: u64,
    /// The number of its volume; two neighbours may share one.
    pub(crate) volume: usize,
    pub(crate) on_node_loss: OnNodeLoss,
    pub(crate) strategy: Strategy,
}

impl Recipe {
    /// The simplest of its shape.
    #[cfg(test)]
    pub(crate) fn plain(shape: Shape, image: &'static str) -> Self {
        Self {
            shape,
            exclusive: false,
            image,
            compute: Compute::new(100, 64),
            disk_gib: 1,
            volume: 0,
            on_node_loss: OnNodeLoss::Auto,
            strategy: Strategy::Spread,
        }
    }

    /// A workload as a user might bring it.
    pub(crate) fn draw(rng: &mut Rng, exclusive: bool) -> Self {
        let shape = match rng.below(20) {
            0..=9 => Shape::Stateless,
            10..=11 => Shape::LocalVolume,
            12 => Shape::SharedVolume,
            13 => Shape::Machine,
            14..=15 => Shape::HostPort(8000 + u16::try_from(rng.below(4)).unwrap_or(0)),
            16..=17 => Shape::Job,
            _ => Shape::Zoned,
        };
        let mut recipe = Self {
            shape: if exclusive && shape == Shape::Job { Shape::Stateless } else { shape },
            exclusive,
            image: image::GOOD,
            compute: Compute::ZERO,
            disk_gib: 0,
            volume: 0,
            on_node_loss: OnNodeLoss::Auto,
            strategy: if rng.chance(300) { Strategy::BinPack } else { Strategy::Spread },
        };
        if shape == Shape::LocalVolume && rng.chance(250) {
            recipe.on_node_loss = OnNodeLoss::Move;
        } else if rng.chance(60) {
            recipe.on_node_loss = OnNodeLoss::Stay;
        }
        recipe.renew(rng);
        recipe
    }

    /// Makes it another version of the same workload.
    pub(crate) fn renew(&mut self, rng: &mut Rng) {
        self.image = match (self.shape, rng.below(40)) {
            (_, 0) => image::MISSING,
            (_, 1) => image::BROKEN,
            (Shape::Job, 2..=13) => image::FAILS,
            (Shape::Job, _) => image::JOB,
            _ => image::GOOD,
        };
        self.compute = Compute::new(100 * rng.between(1, 10), 64 * rng.between(1, 10));
        self.disk_gib = match self.shape {
            Shape::LocalVolume | Shape::Machine => rng.between(1, 8),
            Shape::Stateless
            | Shape::SharedVolume
            | Shape::HostPort(_)
            | Shape::Job
            | Shape::Zoned => 0,
        };
    }

    /// The spec of this version.
    pub(crate) fn spec(&self) -> Spec {
        let mut disk = Disk::none();
        disk.add(None, self.disk_gib);
        let mut constraints = Vec::new();
        if self.shape == Shape::Zoned {
            let wanted = [Arc::from("a")].into_iter().collect();
            constraints.push(Constraint { key: Arc::from("zone"), rule: Rule::In(wanted) });
        }
        Spec {
            kind: self.kind(),
            resources: Resources { compute: self.compute, disk },
            placement: Placement {
                constraints,
                tolerations: Vec::new(),
                strategy: self.strategy,
                class: if self.exclusive { Class::Exclusive } else { Class::Default },
                on_node_loss: self.on_node_loss,
            },
            metadata: BTreeMap::new(),
            secrets: Vec::new(),
            stop_grace_ms: None,
            health: match self.shape {
                Shape::Job => HealthChecks::default(),
                _ => checks(self.compute.cpu_millicores),
            },
        }
    }

    fn kind(&self) -> Kind {
        if self.shape == Shape::Machine {
            return Kind::Vm(VmSpec {
                name: None,
                vcpus: 1,
                memory_mib: self.compute.memory_mib,
                disks: Vec::new(),
                networks: Vec::new(),
                cloud_init: CloudInit::default(),
                os_image: Some(Arc::from(self.image)),
                managed_volumes: Vec::new(),
                metadata: BTreeMap::new(),
            });
        }
        let port =
            |host| Port { address: None, host: Some(host), container: 80, protocol: Protocol::Tcp };
        Kind::Container(ContainerSpec {
            entrypoint: Vec::new(),
            image: Arc::from(self.image),
            command: Vec::new(),
            args: Vec::new(),
            env: BTreeMap::new(),
            binds: Vec::new(),
            ports: match self.shape {
                Shape::HostPort(host) => vec![port(host)],
                _ => Vec::new(),
            },
            restart: match self.shape {
                Shape::Job if self.image == image::FAILS && self.compute.memory_mib > 320 => {
                    RestartPolicy::OnFailure { max_retries: 2 }
                }
                Shape::Job => RestartPolicy::No,
                _ => RestartPolicy::Always,
            },
            privileged: false,
            labels: BTreeMap::new(),
            limits: Limits::default(),
            managed_volumes: self.volume().into_iter().collect(),
        })
    }

    /// The volume it has, if it has one.
    pub(crate) fn volume(&self) -> Option<ManagedVolume> {
        let driver = match self.shape {
            Shape::LocalVolume => VolumeDriver::Local,
            Shape::SharedVolume => VolumeDriver::CephRbd,
            Shape::Stateless | Shape::Machine | Shape::HostPort(_) | Shape::Job | Shape::Zoned => {
                return None;
            }
        };
        let name = format!("d{}", self.volume / 2);
        Some(ManagedVolume {
            name: VolumeName::new(&name).unwrap_or_else(|_| VolumeName::fixed("d")),
            driver,
            size_gib: self.disk_gib.max(1),
            access: AccessMode::ReadWriteOnce,
            fs_type: Arc::from(""),
            mount_path: Arc::from("/data"),
            read_only: false,
            retain: (self.volume / 2) % 2 == 1,
        })
    }
}
