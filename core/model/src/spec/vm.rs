//! A virtual machine as it will be run.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::secret::Secret;
use super::volume::{ManagedVolume, VolumeDriver};
use crate::id::PoolName;

/// One virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VmSpec {
    /// Name the guest goes by; `None` takes the workload's id.
    pub name: Option<Arc<str>>,
    /// Virtual processors, 1 to 512.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Its disks, in boot order.
    pub disks: Vec<VmDisk>,
    /// Its network cards.
    pub networks: Vec<VmNetwork>,
    /// First-boot configuration.
    pub cloud_init: CloudInit,
    /// Base image: catalogue name or absolute path. The first disk then is its overlay, one we
    /// make. `None` boots from the disks as they are.
    pub os_image: Option<Arc<str>>,
    /// Volumes we make and keep for it.
    pub managed_volumes: Vec<ManagedVolume>,
    /// Free words of the user.
    pub metadata: BTreeMap<Arc<str>, Arc<str>>,
}

/// One disk.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VmDisk {
    /// The device name in the guest, such as `vda`.
    pub device: Arc<str>,
    /// Where its bytes are.
    pub source: DiskSource,
    /// How they are laid out.
    pub format: DiskFormat,
    /// Whether it is a disc drive.
    pub cdrom: bool,
    /// Whether the guest may boot from it. At least one disk has it.
    pub boot: bool,
    /// The image this one only records changes to; absolute, without `..`.
    pub backing_file: Option<Arc<str>>,
}

/// Where the bytes of a disk are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DiskSource {
    /// Made by us in a pool (`None`: the node's default) with this size.
    Pool {
        /// The pool.
        pool: Option<PoolName>,
        /// The size.
        size_gib: u64,
    },
    /// A file of the user's. One that was there before us is never removed.
    External {
        /// Absolute, without `..`.
        path: Arc<str>,
        /// Size to make it with when it is not there; `None` means it has to be there.
        create_gib: Option<u64>,
    },
    /// Made by us with a storage driver that is not a pool of the node.
    Driver {
        /// Who stores it, never `Local`.
        driver: VolumeDriver,
        /// The size.
        size_gib: u64,
    },
    /// A Ceph image of the user's.
    Rbd {
        /// Ceph pool.
        pool: Arc<str>,
        /// Image in it.
        image: Arc<str>,
    },
    /// A file of the user's on an NFS server.
    Nfs {
        /// The server.
        host: Arc<str>,
        /// Its port when not the usual one.
        port: Option<u16>,
        /// Absolute, without `..`.
        path: Arc<str>,
    },
}

impl DiskSource {
    /// The driver the node needs for it; `None` where a plain file will do.
    #[must_use]
    pub fn driver(&self) -> Option<VolumeDriver> {
        match self {
            Self::Pool { .. } | Self::External { .. } => None,
            Self::Driver { driver, .. } => Some(*driver),
            Self::Rbd { .. } => Some(VolumeDriver::CephRbd),
            Self::Nfs { .. } => Some(VolumeDriver::Nfs),
        }
    }
}

/// Layout of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum DiskFormat {
    /// QEMU's own, thin.
    #[default]
    Qcow2,
    /// Plain bytes.
    Raw,
    /// A disc image.
    Iso,
}

/// One network card.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VmNetwork {
    /// What it is plugged into.
    pub attach: Attach,
    /// Hardware address; `None` lets us derive one from the workload's id.
    pub mac: Option<[u8; 6]>,
    /// Its address.
    pub address: Address,
    /// Kind of card the guest sees.
    pub model: NicModel,
}

/// Kind of network card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum NicModel {
    /// Made for guests, fastest.
    #[default]
    Virtio,
    /// Intel, for guests without virtio.
    E1000,
    /// Intel on PCI express.
    E1000e,
    /// Realtek, for very old guests.
    Rtl8139,
}

/// What a network card is plugged into.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Attach {
    /// A libvirt network.
    Network(Arc<str>),
    /// A bridge of the node.
    Bridge(Arc<str>),
}

/// How a network card gets its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Address {
    /// From the network.
    Dhcp,
    /// Fixed, with the length of its network prefix when given.
    Static {
        /// The address.
        ip: IpAddr,
        /// Bits of the network.
        prefix: Option<u8>,
    },
}

/// First-boot configuration, opaque to us.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct CloudInit {
    /// `user-data`.
    pub user_data: Secret,
    /// `meta-data`.
    pub meta_data: Secret,
    /// `network-config`.
    pub network_config: Secret,
    /// `vendor-data`.
    pub vendor_data: Secret,
    /// Who may log in; only where there is no `user-data`, which would say it itself.
    pub login: Option<Login>,
}

/// Who may log in, made on first boot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Login {
    /// Name of the user; `None` is the image's own.
    pub username: Option<Arc<str>>,
    /// One line as in `authorized_keys`.
    pub ssh_public_key: Option<Arc<str>>,
    /// A crypt hash, never the password itself.
    pub password_hash: Option<Secret>,
}
