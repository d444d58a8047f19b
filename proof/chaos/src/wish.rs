//! What the load asks for: workloads by kind, and what each needs.

use persys_proto::control::v1 as api;
use serde::{Deserialize, Serialize};

use crate::witness;

/// A kind of workload. Its first letter begins the names of such workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// Nothing really runs.
    Simulated,
    /// A witness in a container.
    Container,
    /// The same with a volume.
    Volume,
    /// A witness of which there is one at most.
    Exclusive,
    /// The same with a volume.
    ExclusiveVolume,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 5] =
        [Self::Simulated, Self::Container, Self::Volume, Self::Exclusive, Self::ExclusiveVolume];

    /// The letter that names begin with.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Simulated => 's',
            Self::Container => 'c',
            Self::Volume => 'v',
            Self::Exclusive => 'x',
            Self::ExclusiveVolume => 'y',
        }
    }

    /// The kind of a workload of this name.
    #[must_use]
    pub fn of(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| id.starts_with(kind.letter()))
    }

    /// Thousandths of a core that each reserves.
    #[must_use]
    pub fn millicores(self) -> i64 {
        match self {
            Self::Simulated => 200,
            Self::Container | Self::Volume | Self::Exclusive | Self::ExclusiveVolume => 150,
        }
    }

    /// True if there is one at most at any time.
    #[must_use]
    pub fn is_exclusive(self) -> bool {
        matches!(self, Self::Exclusive | Self::ExclusiveVolume)
    }

    fn has_volume(self) -> bool {
        matches!(self, Self::Volume | Self::ExclusiveVolume)
    }

    /// Label of the nodes it runs on.
    #[must_use]
    pub fn runtime(self) -> &'static str {
        if self == Self::Simulated { "sim" } else { "docker" }
    }
}

/// The name of the volume of a workload.
#[must_use]
pub fn volume(id: &str) -> String {
    format!("vol-{id}")
}

/// The request for a revision of a workload, running. `shared` is the folder of the witnesses.
#[must_use]
pub fn request(id: &str, kind: Kind, revision: &str, shared: &str) -> api::ApplyWorkloadRequest {
    let constraint = api::Constraint {
        key: "runtime".to_owned(),
        operator: "in".to_owned(),
        values: vec![kind.runtime().to_owned()],
    };
    let class = if kind.is_exclusive() { "exclusive" } else { "" };
    let placement = api::PlacementRules {
        constraints: vec![constraint],
        class: class.to_owned(),
        ..api::PlacementRules::default()
    };
    api::ApplyWorkloadRequest {
        workload_id: id.to_owned(),
        revision_id: revision.to_owned(),
        desired_state: "Running".to_owned(),
        plan: String::new(),
        spec: Some(api::WorkloadSpec {
            r#type: "container".to_owned(),
            resources: Some(api::ResourceRequirements {
                cpu_millicores: kind.millicores(),
                memory_mb: 16,
                disk_gb: 0,
            }),
            workload: Some(api::workload_spec::Workload::Container(container(
                id, kind, revision, shared,
            ))),
            placement: Some(placement),
            ..api::WorkloadSpec::default()
        }),
    }
}

fn container(id: &str, kind: Kind, revision: &str, shared: &str) -> api::ContainerSpec {
    let mut env: std::collections::BTreeMap<_, _> = [("WL", id), ("REV", revision)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let mut volumes = Vec::new();
    if kind.has_volume() {
        env.insert("VOL".to_owned(), volume(id));
        volumes.push(api::ManagedVolumeSpec {
            name: volume(id),
            driver: "local".to_owned(),
            size_gb: 1,
            mount_path: witness::VOLUME.to_owned(),
            retain_policy: "Delete".to_owned(),
            ..api::ManagedVolumeSpec::default()
        });
    }
    let mount = api::VolumeMount {
        host_path: shared.to_owned(),
        container_path: witness::INSIDE.to_owned(),
        read_only: false,
    };
    api::ContainerSpec {
        image: witness::IMAGE.to_owned(),
        command: ["/bin/sh", "-c", witness::SCRIPT].map(ToOwned::to_owned).to_vec(),
        env,
        volumes: if kind == Kind::Simulated { Vec::new() } else { vec![mount] },
        managed_volumes: volumes,
        restart_policy: "always".to_owned(),
        ..api::ContainerSpec::default()
    }
}
