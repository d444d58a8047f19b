//! Virtual machines.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::at::At;
use super::cloud_init::cloud_init;
use super::disk::{disks, free_device};
use super::limits::{
    DEFAULT_ROOT_GIB, DISK_GIB, DISKS, MEMORY_MIB, NAME_BYTES, VCPUS, VM_MEMORY_MIN_MIB,
};
use super::metadata;
use super::network::networks;
use super::text::{number, path, plain_name, word};
use super::volume::{VolumeFor, mounts_differ, volumes};
use crate::spec::draft::VmDraft;
use crate::spec::vm::{DiskFormat, DiskSource, VmDisk, VmSpec};

const RUNTIMES: &[(&str, ())] = &[("", ()), ("libvirt", ())];

pub(super) fn vm(at: &At<'_>, draft: &VmDraft) -> Option<VmSpec> {
    let name = match draft.name.as_str() {
        "" => Some(None),
        text => plain_name(&at.field("name"), text, NAME_BYTES).map(Some),
    };
    let vcpus = number(&at.field("vcpus"), i64::from(draft.vcpus), 1, VCPUS);
    let memory_mib = number(&at.field("memory_mb"), draft.memory_mb, VM_MEMORY_MIN_MIB, MEMORY_MIB);
    let os_image = match draft.os_image.as_str() {
        "" => Some(None),
        text => os_image(&at.field("os_image"), text).map(Some),
    };
    let disks = disks(&at.field("disks"), &draft.disks);
    let root_gib = number(&at.field("disk_gb"), draft.disk_gb, 0, DISK_GIB);
    let disks = match (disks, root_gib) {
        (Some(disks), Some(root_gib)) => with_root(at, draft, disks, root_gib),
        _ => None,
    };
    let networks = networks(&at.field("networks"), &draft.networks);
    let cloud_init = cloud_init(at, draft);
    let runtime = word(&at.field("runtime"), &draft.runtime, RUNTIMES);
    let managed_volumes =
        volumes(&at.field("managed_volumes"), &draft.managed_volumes, VolumeFor::Vm);
    mounts_differ(at, &[], &draft.managed_volumes);
    let metadata = metadata(&at.field("metadata"), &draft.metadata);
    runtime?;
    Some(VmSpec {
        name: name?,
        vcpus: u32::try_from(vcpus?).ok()?,
        memory_mib: memory_mib?,
        disks: disks?,
        networks: networks?,
        cloud_init: cloud_init?,
        os_image: os_image?,
        managed_volumes: managed_volumes?,
        metadata: metadata?,
    })
}

/// A name in the catalogue of images, or an absolute path.
fn os_image(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    if text.starts_with('/') { path(at, text) } else { plain_name(at, text, NAME_BYTES) }
}

/// Makes the first disk the one the system is on.
///
/// With `os_image` that is an overlay of the image. `disk_gb`, or having no disk at all, asks for
/// one of its own; otherwise the first of the list is taken, as clients of the control package
/// mean it, who have no `disk_gb`.
fn with_root(
    at: &At<'_>,
    draft: &VmDraft,
    mut disks: Vec<VmDisk>,
    root_gib: u64,
) -> Option<Vec<VmDisk>> {
    if draft.os_image.is_empty() {
        if root_gib > 0 {
            return at.field("disk_gb").refuse("is the size of the disk made from os_image");
        }
        if disks.is_empty() {
            return at.field("disks").refuse("a VM needs at least one disk, or os_image");
        }
    } else if root_gib > 0 || disks.is_empty() {
        if disks.len() >= DISKS {
            return at.field("disk_gb").refuse("asks for one disk more than are allowed");
        }
        disks.insert(0, root(&disks, root_gib));
    } else {
        overlay_of_image(at, disks.first()?)?;
    }
    if !disks.iter().any(|disk| disk.boot) || !draft.os_image.is_empty() {
        disks.first_mut()?.boot = true;
    }
    Some(disks)
}

fn root(others: &[VmDisk], root_gib: u64) -> VmDisk {
    let mut taken: BTreeSet<_> = others.iter().map(|disk| Arc::clone(&disk.device)).collect();
    let size_gib = if root_gib == 0 { DEFAULT_ROOT_GIB } else { root_gib };
    VmDisk {
        device: free_device(&mut taken, false),
        source: DiskSource::Pool { pool: None, size_gib },
        format: DiskFormat::Qcow2,
        cdrom: false,
        boot: true,
        backing_file: None,
    }
}

fn overlay_of_image(at: &At<'_>, first: &VmDisk) -> Option<()> {
    let made = matches!(first.source, DiskSource::Pool { .. });
    if made && first.format == DiskFormat::Qcow2 && first.backing_file.is_none() {
        return Some(());
    }
    at.field("disks").index(0).refuse(
        "becomes the overlay of os_image, so it must be a qcow2 disk in a pool; \
         or give disk_gb for a root disk of its own",
    )
}
