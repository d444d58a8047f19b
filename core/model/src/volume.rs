//! Managed volumes as the control plane records them: what each is, where its data is, who has it.
//!
//! A [`Volume`] is there as long as anything of it may be: a workload names it, a node has not yet
//! proved that it gave it up, or its data is kept. An [`Attachment`] is there as long as a copy of a
//! workload may hold the volume on a node.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::id::{NameError, NamespaceName, NodeId, VolumeName, WorkloadId};
use crate::spec::volume::{AccessMode, ManagedVolume, VolumeDriver};
use crate::time::WallMillis;

/// A volume of the cluster: `<driver>:<name>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeKey {
    /// Who stores it.
    pub driver: VolumeDriver,
    /// Its name.
    pub name: VolumeName,
}

/// What an order about a volume itself is called where those about workloads have an id.
const ORDER: &str = "disk:";

impl VolumeKey {
    /// The volume a workload asks for.
    #[must_use]
    pub fn of(volume: &ManagedVolume) -> Self {
        Self { driver: volume.driver, name: volume.name.clone() }
    }

    /// A volume that the file of a stack names. Both names together may be no name of a volume: then
    /// what is left of them is told apart by a number that follows from both.
    #[must_use]
    pub fn of_stack(workload: &WorkloadId, volume: &str) -> Self {
        let text = format!("{workload}.{volume}");
        let name = VolumeName::new(&text).unwrap_or_else(|_| {
            let plain = |c: char| {
                let c = c.to_ascii_lowercase();
                if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' }
            };
            let start: String = text.chars().map(plain).take(40).collect();
            let start = start.trim_matches('-');
            let number = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |state, byte| {
                (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            VolumeName::new(&format!("{start}-{number:016x}"))
                .unwrap_or_else(|_| VolumeName::fixed("unnamed"))
        });
        Self { driver: VolumeDriver::Compose, name }
    }

    /// `<driver>:<name>`, or what is wrong with the name. `None` where there is no known driver.
    #[must_use]
    pub fn parse(text: &str) -> Option<Result<Self, NameError>> {
        let (driver, name) = text.split_once(':')?;
        let mut known = VolumeDriver::ALL.into_iter().chain([VolumeDriver::Compose]);
        let driver = known.find(|known| known.word() == driver)?;
        Some(VolumeName::new(name).map(|name| Self { driver, name }))
    }

    /// The name under which a node is ordered to delete the volume itself. No workload can have it,
    /// and an agent that knows nothing of such orders refuses it as no name at all.
    #[must_use]
    pub fn order_id(&self) -> WorkloadId {
        WorkloadId::of_volume(&format!("{ORDER}{self}"))
    }

    /// The volume that an order of this name is about, if it is not about a workload.
    #[must_use]
    pub fn ordered_by(id: &WorkloadId) -> Option<Self> {
        Self::parse(id.as_str().strip_prefix(ORDER)?)?.ok()
    }
}

impl std::fmt::Display for VolumeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.driver.word(), self.name)
    }
}

/// What an order may be about: a workload, or a volume itself.
pub fn order_id(text: &str) -> Result<WorkloadId, NameError> {
    match text.strip_prefix(ORDER).and_then(VolumeKey::parse) {
        Some(key) => key.map(|key| key.order_id()),
        None => WorkloadId::new(text),
    }
}

/// The stored record of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Which.
    pub key: VolumeKey,
    /// Its size in GiB; 0 where the server's own quota holds.
    pub size_gib: u64,
    /// How it may be mounted.
    pub access: AccessMode,
    /// Its file system; empty means the driver's own choice.
    pub fs_type: Arc<str>,
    /// Where it is seen, by who asked first.
    pub mount_path: Arc<str>,
    /// Whether its data outlives its workloads.
    pub retain: bool,
    /// Whether it was made by itself and not for a workload.
    pub standalone: bool,
    /// The namespace whose workloads may have it: that of the first that did. None has it yet that
    /// was made by itself.
    pub namespace: Option<NamespaceName>,
    /// How it is.
    pub phase: VolumePhase,
    /// What last went wrong with it.
    pub last_error: Arc<str>,
    /// The node that has the data, where one node alone does.
    pub home: Option<NodeId>,
    /// Nodes on which a workload that moved away left data of this name.
    pub left_on: BTreeSet<NodeId>,
    /// Whether a node was ever told to have it: there may be data.
    pub used: bool,
    /// The workloads that name it or still have it.
    pub users: BTreeSet<WorkloadId>,
    /// Since when it is known.
    pub created_at: WallMillis,
    /// When something last changed with it.
    pub updated_at: WallMillis,
}

impl Volume {
    /// One that nobody uses yet.
    #[must_use]
    pub fn new(asked: &ManagedVolume, now: WallMillis) -> Self {
        Self {
            key: VolumeKey::of(asked),
            size_gib: asked.size_gib,
            access: asked.access,
            fs_type: Arc::clone(&asked.fs_type),
            mount_path: Arc::clone(&asked.mount_path),
            retain: asked.retain,
            standalone: false,
            namespace: None,
            phase: VolumePhase::Pending,
            last_error: Arc::from(""),
            home: None,
            left_on: BTreeSet::new(),
            used: false,
            users: BTreeSet::new(),
            created_at: now,
            updated_at: now,
        }
    }

    /// Whether one node at a time may have it, although several could: two would spoil it.
    #[must_use]
    pub fn single_attach(&self) -> bool {
        single_attach(self.key.driver, self.access)
    }
}

/// Whether one node at a time may have such a volume, although several could.
#[must_use]
pub fn single_attach(driver: VolumeDriver, access: AccessMode) -> bool {
    !driver.is_local() && access == AccessMode::ReadWriteOnce
}

/// How a volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VolumePhase {
    /// It was made by itself, and nobody used it yet.
    Available,
    /// Nobody has made it yet: its workload waits for a node.
    Pending,
    /// A node was told to have it.
    Provisioning,
    /// It is in use.
    Attached,
    /// Its workload is at rest or has no node; the data is where it was.
    Released,
    /// Its workloads are gone, and the data is kept.
    Retained,
    /// It could not be had.
    Error,
    /// A node was told to delete its data, and has not proved it yet.
    Deleting,
}

impl VolumePhase {
    /// The word of the contract.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Available => "Available",
            Self::Pending => "Pending",
            Self::Provisioning => "Provisioning",
            Self::Attached => "Attached",
            Self::Released => "Released",
            Self::Retained => "Retained",
            Self::Error => "Error",
            Self::Deleting => "Deleting",
        }
    }
}

/// The stored record of a volume on a node for a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Where.
    pub node: NodeId,
    /// For whom.
    pub workload: WorkloadId,
    /// Which.
    pub volume: VolumeKey,
    /// Where it is seen.
    pub mount_path: Arc<str>,
    /// Whether it may only be read.
    pub read_only: bool,
    /// How far it is.
    pub phase: AttachmentPhase,
    /// What last went wrong with it.
    pub last_error: Arc<str>,
    /// Since when it is in its phase.
    pub since: WallMillis,
    /// Since when it is known.
    pub created_at: WallMillis,
}

/// How far a volume is with being on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttachmentPhase {
    /// The node was told to give it up, and has not proved it yet.
    Detaching,
    /// The workload is at rest; the node may have it mounted.
    Resting,
    /// The node was told to have it.
    Attaching,
    /// The workload runs with it.
    Attached,
    /// The node could not have it.
    Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_about_a_volume_has_a_name_no_workload_can_have() {
        let longest = "a".repeat(VolumeName::LIMIT);
        for (driver, name) in [("local", "data"), ("ceph-rbd", &*longest), ("nfs", "a.b-c_d")] {
            let key = VolumeKey::parse(&format!("{driver}:{name}")).unwrap().unwrap();
            let id = key.order_id();
            assert_eq!(id.as_str(), format!("disk:{driver}:{name}"));
            assert_eq!(VolumeKey::ordered_by(&id), Some(key));
            assert_eq!(order_id(id.as_str()), Ok(id.clone()));
            assert!(WorkloadId::new(id.as_str()).is_err());
        }
        assert_eq!(VolumeKey::ordered_by(&WorkloadId::fixed("web")), None);
        for bad in ["disk:", "disk:local", "disk:tape:x", "disk:local:../x", "disk:nfs:"] {
            assert!(order_id(bad).is_err(), "{bad}");
        }
        assert_eq!(order_id("web"), Ok(WorkloadId::fixed("web")));
    }

    #[test]
    fn every_volume_of_every_stack_has_a_name_of_its_own() {
        let key = |id: &str, volume: &str| {
            VolumeKey::of_stack(&WorkloadId::new(id).unwrap(), volume).to_string()
        };
        assert_eq!(key("shop", "data"), "compose:shop.data");
        let long = "a".repeat(60);
        let names = [
            key("Shop", "data"),
            key("shop", "Data"),
            key("shop", "-"),
            key(&long, "data"),
            key(&long, "more"),
        ];
        for (at, one) in names.iter().enumerate() {
            assert!(VolumeKey::parse(one).is_some_and(|key| key.is_ok()), "{one}");
            assert!(!names.iter().skip(at + 1).any(|other| other == one), "{one} twice");
        }
    }

    #[test]
    fn one_writer_on_shared_storage_is_one_node() {
        use AccessMode::{ReadOnlyMany, ReadWriteMany, ReadWriteOnce};
        assert!(single_attach(VolumeDriver::CephRbd, ReadWriteOnce));
        assert!(single_attach(VolumeDriver::Nfs, ReadWriteOnce));
        assert!(!single_attach(VolumeDriver::Local, ReadWriteOnce), "each node has its own");
        assert!(!single_attach(VolumeDriver::Nfs, ReadWriteMany));
        assert!(!single_attach(VolumeDriver::CephRbd, ReadOnlyMany));
    }
}
