//! A virtual machine as it will be run.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::volume::ManagedVolume;
use crate::id::PoolName;

/// One virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VmSpec {
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
    /// Base image: catalogue name or absolute path; `None` boots from its disks.
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
    /// Whether the guest may boot from it.
    pub boot: bool,
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
    /// A file of the user's that is never removed.
    External {
        /// Absolute, without `..`.
        path: Arc<str>,
    },
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
    pub user_data: Arc<str>,
    /// `meta-data`.
    pub meta_data: Arc<str>,
    /// `network-config`.
    pub network_config: Arc<str>,
    /// `vendor-data`.
    pub vendor_data: Arc<str>,
}
