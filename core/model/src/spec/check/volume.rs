//! Managed volumes of containers and VMs.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::at::At;
use super::limits::{DISK_GIB, VOLUMES};
use super::text::{count, number, path, shown, word};
use crate::id::VolumeName;
use crate::spec::draft::{BindDraft, VolumeDraft};
use crate::spec::volume::{AccessMode, ManagedVolume, VolumeDriver};

/// What a volume is for. A container sees a folder, a VM a disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum VolumeFor {
    Container,
    Vm,
}

/// The words for drivers, here and on disks. Nothing said is the node itself.
pub(super) const DRIVERS: &[(&str, VolumeDriver)] = &[
    ("", VolumeDriver::Local),
    ("local", VolumeDriver::Local),
    ("nfs", VolumeDriver::Nfs),
    ("ceph-rbd", VolumeDriver::CephRbd),
];

const ACCESS: &[(&str, AccessMode)] = &[
    ("", AccessMode::ReadWriteOnce),
    ("ReadWriteOnce", AccessMode::ReadWriteOnce),
    ("RWO", AccessMode::ReadWriteOnce),
    ("ReadOnlyMany", AccessMode::ReadOnlyMany),
    ("ROX", AccessMode::ReadOnlyMany),
    ("ReadWriteMany", AccessMode::ReadWriteMany),
    ("RWX", AccessMode::ReadWriteMany),
];

/// Nothing said is what clients are used to: the data goes with the workload.
const RETAIN: &[(&str, bool)] = &[("", false), ("Delete", false), ("Retain", true)];

/// File systems a block device can be given.
const BLOCK_FS: &[(&str, &str)] = &[("", ""), ("ext4", "ext4"), ("xfs", "xfs"), ("btrfs", "btrfs")];
const NFS_FS: &[(&str, &str)] = &[("", ""), ("nfs", "nfs"), ("nfs4", "nfs4")];

/// All managed volumes of one workload; no name twice.
pub(super) fn volumes(
    at: &At<'_>,
    drafts: &[VolumeDraft],
    purpose: VolumeFor,
) -> Option<Vec<ManagedVolume>> {
    count(at, drafts.len(), VOLUMES)?;
    let mut names = BTreeSet::new();
    let mut volumes = Vec::with_capacity(drafts.len());
    for (nth, draft) in drafts.iter().enumerate() {
        let here = at.index(nth);
        if !draft.name.is_empty() && !names.insert(draft.name.as_str()) {
            here.field("name").fault("is used by an earlier volume");
        }
        volumes.push(volume(&here, draft, purpose));
    }
    volumes.into_iter().collect()
}

/// A volume that is of no workload yet. Whoever uses it says how it is seen.
pub(super) fn alone(at: &At<'_>, draft: &VolumeDraft) -> Option<ManagedVolume> {
    volume(at, draft, VolumeFor::Vm)
}

fn volume(at: &At<'_>, draft: &VolumeDraft, purpose: VolumeFor) -> Option<ManagedVolume> {
    let name = match VolumeName::new(&draft.name) {
        Ok(name) => Some(name),
        Err(error) => at.field("name").refuse(error.to_string()),
    };
    let driver = word(&at.field("driver"), &draft.driver, DRIVERS);
    let access = word(&at.field("access_mode"), &draft.access_mode, ACCESS);
    let retain = word(&at.field("retain_policy"), &draft.retain_policy, RETAIN);
    let mount_path = mount_path(&at.field("mount_path"), &draft.mount_path, purpose);
    let size_gib = number(&at.field("size_gb"), draft.size_gb, 0, DISK_GIB);
    let driver = driver?;
    if draft.size_gb == 0 && driver != VolumeDriver::Nfs {
        at.field("size_gb").fault(format!("must be given for a {} volume", driver.word()));
    }
    let fs_type = fs_type(&at.field("fs_type"), &draft.fs_type, driver, purpose);
    let access = access?;
    if let Some(why) = unsupported(driver, access) {
        at.field("access_mode").fault(why);
    }
    Some(ManagedVolume {
        name: name?,
        driver,
        size_gib: size_gib?,
        access,
        fs_type: fs_type?,
        mount_path: mount_path?,
        // A volume that may only be read is mounted so, whatever the flag says.
        read_only: draft.read_only || access == AccessMode::ReadOnlyMany,
        retain: retain?,
    })
}

fn mount_path(at: &At<'_>, text: &str, purpose: VolumeFor) -> Option<Arc<str>> {
    match purpose {
        VolumeFor::Vm if text.is_empty() => Some(Arc::from("")),
        VolumeFor::Container | VolumeFor::Vm => inner_path(at, text),
    }
}

/// A path inside a container or guest: anything but its root.
pub(super) fn inner_path(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    let path = path(at, text)?;
    if &*path == "/" {
        return at.refuse("must not be the root, which would hide the whole image");
    }
    Some(path)
}

/// Two mounts at one path would hide one another.
pub(super) fn mounts_differ(at: &At<'_>, binds: &[BindDraft], volumes: &[VolumeDraft]) {
    let mut seen = BTreeSet::new();
    let mut check = |at: &At<'_>, path: &str| {
        let bare = path.strip_suffix('/').unwrap_or(path);
        if !bare.is_empty() && !seen.insert(bare.to_owned()) {
            at.fault(format!("\"{}\" is taken by an earlier mount", shown(path)));
        }
    };
    for (nth, bind) in binds.iter().take(VOLUMES).enumerate() {
        check(&at.field("volumes").index(nth).field("container_path"), &bind.container_path);
    }
    for (nth, volume) in volumes.iter().take(VOLUMES).enumerate() {
        check(&at.field("managed_volumes").index(nth).field("mount_path"), &volume.mount_path);
    }
}

fn fs_type(at: &At<'_>, text: &str, driver: VolumeDriver, purpose: VolumeFor) -> Option<Arc<str>> {
    let table = match (driver, purpose) {
        (VolumeDriver::Nfs, _) => NFS_FS,
        (VolumeDriver::CephRbd | VolumeDriver::Compose, _)
        | (VolumeDriver::Local, VolumeFor::Vm) => BLOCK_FS,
        (VolumeDriver::Local, VolumeFor::Container) if text.is_empty() => BLOCK_FS,
        (VolumeDriver::Local, VolumeFor::Container) => {
            return at.refuse(
                "a local volume is a folder with the file system of its pool; leave it empty",
            );
        }
    };
    word(at, text, table).map(Arc::from)
}

fn unsupported(driver: VolumeDriver, access: AccessMode) -> Option<&'static str> {
    match (driver, access) {
        (VolumeDriver::Local, AccessMode::ReadOnlyMany | AccessMode::ReadWriteMany) => {
            Some("a local volume is on one node; several nodes need nfs")
        }
        (VolumeDriver::CephRbd, AccessMode::ReadWriteMany) => {
            Some("a block device takes one writer; several need nfs")
        }
        (VolumeDriver::Local | VolumeDriver::CephRbd, AccessMode::ReadWriteOnce)
        | (VolumeDriver::CephRbd, AccessMode::ReadOnlyMany)
        | (VolumeDriver::Nfs | VolumeDriver::Compose, _) => None,
    }
}
