//! Volumes we make and keep for a workload.

use std::sync::Arc;

use crate::id::{DriverName, VolumeName};

/// A volume we make, attach and, by its policy, delete.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ManagedVolume {
    /// Its name, one per driver and cluster.
    pub name: VolumeName,
    /// Who stores it.
    pub driver: VolumeDriver,
    /// Its size; 0 only on NFS, where the server's own quota holds.
    pub size_gib: u64,
    /// How it may be mounted.
    pub access: AccessMode,
    /// File system; empty means the driver's own choice.
    pub fs_type: Arc<str>,
    /// Where it is seen, absolute; empty only in a VM, which then sees a bare disk.
    pub mount_path: Arc<str>,
    /// Whether it may only be read.
    pub read_only: bool,
    /// Whether its data goes with the workload.
    pub retain: bool,
}

/// Who stores a managed volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VolumeDriver {
    /// A folder of the node.
    Local,
    /// An NFS server.
    Nfs,
    /// A Ceph block device.
    CephRbd,
    /// A volume that the file of a stack names, kept by Docker on its node. No spec can ask for one.
    Compose,
}

impl VolumeDriver {
    /// All that a spec can ask for.
    pub const ALL: [Self; 3] = [Self::Local, Self::Nfs, Self::CephRbd];

    /// The word of the contract.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Nfs => "nfs",
            Self::CephRbd => "ceph-rbd",
            Self::Compose => "compose",
        }
    }

    /// The word as a checked name.
    #[must_use]
    pub fn name(self) -> DriverName {
        DriverName::fixed(self.word())
    }

    /// Whether its data is on one node only.
    #[must_use]
    pub fn is_local(self) -> bool {
        match self {
            Self::Local | Self::Compose => true,
            Self::Nfs | Self::CephRbd => false,
        }
    }
}

/// How many may mount a volume.
#[expect(clippy::enum_variant_names, reason = "the words every storage system uses")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum AccessMode {
    /// One node, reading and writing.
    #[default]
    ReadWriteOnce,
    /// Many nodes, reading only.
    ReadOnlyMany,
    /// Many nodes, reading and writing.
    ReadWriteMany,
}

impl AccessMode {
    /// The word of the contract.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::ReadWriteOnce => "ReadWriteOnce",
            Self::ReadOnlyMany => "ReadOnlyMany",
            Self::ReadWriteMany => "ReadWriteMany",
        }
    }
}
