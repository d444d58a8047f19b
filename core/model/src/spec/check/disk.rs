//! Disks of VMs: where their bytes are, and which device each becomes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::at::At;
use super::limits::{DEFAULT_DISK_GIB, DISK_GIB, DISKS};
use super::text::{count, host_and_port, is_plain_name, number, path, shown, word};
use super::volume::DRIVERS;
use crate::id::PoolName;
use crate::spec::draft::DiskDraft;
use crate::spec::vm::{DiskFormat, DiskSource, VmDisk};
use crate::spec::volume::VolumeDriver;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Unsaid,
    Disk,
    Cdrom,
}

const TYPES: &[(&str, Type)] = &[("", Type::Unsaid), ("disk", Type::Disk), ("cdrom", Type::Cdrom)];

const FORMATS: &[(&str, Option<DiskFormat>)] = &[
    ("", None),
    ("qcow2", Some(DiskFormat::Qcow2)),
    ("raw", Some(DiskFormat::Raw)),
    ("iso", Some(DiskFormat::Iso)),
];

/// All disks, each with a device of its own and no file twice.
pub(super) fn disks(at: &At<'_>, drafts: &[DiskDraft]) -> Option<Vec<VmDisk>> {
    count(at, drafts.len(), DISKS)?;
    let mut devices = BTreeSet::new();
    let mut sources = BTreeSet::new();
    let mut sound = true;
    let mut named = Vec::with_capacity(drafts.len());
    for (nth, draft) in drafts.iter().enumerate() {
        let here = at.index(nth);
        if !draft.path.is_empty() && !sources.insert(draft.path.as_str()) {
            here.field("path").fault("is used by an earlier disk; two writers would destroy it");
        }
        let name = device(&here, draft);
        if let Some(Some(name)) = &name
            && !devices.insert(name.clone())
        {
            here.field(device_field(draft)).fault(format!("{name} is used by an earlier disk"));
        }
        sound &= name.is_some();
        named.push(name.flatten());
    }
    let mut disks = Vec::with_capacity(drafts.len());
    for (nth, (draft, name)) in drafts.iter().zip(named).enumerate() {
        let disk = disk(&at.index(nth), draft);
        disks.push(disk.map(|disk| VmDisk {
            device: name.unwrap_or_else(|| free_device(&mut devices, disk.cdrom)),
            ..disk
        }));
    }
    if !sound {
        return None;
    }
    disks.into_iter().collect()
}

fn device_field(draft: &DiskDraft) -> &'static str {
    if draft.device.is_empty() { "mount_point" } else { "device" }
}

/// The device a disk asks for. The control package calls it `mount_point`, where `/` means the
/// disk the system is on. Other folders are the guest's business, so they are refused.
#[expect(clippy::option_option, reason = "outer: well formed; inner: given")]
fn device(at: &At<'_>, draft: &DiskDraft) -> Option<Option<Arc<str>>> {
    let here = at.field(device_field(draft));
    let text = match (draft.device.as_str(), draft.mount_point.as_str()) {
        ("", "") => return Some(None),
        ("", "/") => "vda",
        ("", text) | (text, "") => text,
        (one, other) if one == other => one,
        _ => return here.refuse("differs from mount_point; give one"),
    };
    let name = text.strip_prefix("/dev/").unwrap_or(text);
    let tail = ["xvd", "vd", "sd", "hd"].iter().find_map(|bus| name.strip_prefix(bus));
    let letters =
        |tail: &str| (1..=2).contains(&tail.len()) && tail.bytes().all(|b| b.is_ascii_lowercase());
    if !tail.is_some_and(letters) {
        return here.refuse(format!(
            "\"{}\" is not a device such as vda or sdb; mounting is up to the guest",
            shown(text)
        ));
    }
    Some(Some(Arc::from(name)))
}

/// The first device nobody has. Discs go on the SATA bus, as guests expect them there.
pub(super) fn free_device(taken: &mut BTreeSet<Arc<str>>, cdrom: bool) -> Arc<str> {
    let bus = if cdrom { "sd" } else { "vd" };
    let single = ('a'..='z').map(|last| format!("{bus}{last}"));
    let double = ('a'..='z').map(|last| format!("{bus}a{last}"));
    // There are more names than disks are allowed, so one is always free.
    let free = single.chain(double).find(|name| !taken.contains(name.as_str()));
    let name: Arc<str> = Arc::from(free.unwrap_or_default());
    taken.insert(Arc::clone(&name));
    name
}

/// Everything but the device, which depends on the other disks.
fn disk(at: &At<'_>, draft: &DiskDraft) -> Option<VmDisk> {
    let source = source(at, draft);
    let said = word(&at.field("type"), &draft.disk_type, TYPES);
    let format = word(&at.field("format"), &draft.format, FORMATS);
    let backing_file = match draft.backing_file.as_str() {
        "" => Some(None),
        text => path(&at.field("backing_file"), text).map(Some),
    };
    let (source, said, format) = (source?, said?, format?);
    let (cdrom, format) = layout(at, &source, said, format)?;
    let backing_file = backing_file?;
    let made = match &source {
        DiskSource::Pool { .. } | DiskSource::External { create_gib: Some(_), .. } => true,
        DiskSource::External { create_gib: None, .. }
        | DiskSource::Driver { .. }
        | DiskSource::Rbd { .. }
        | DiskSource::Nfs { .. } => false,
    };
    if backing_file.is_some() && (format != DiskFormat::Qcow2 || !made) {
        at.field("backing_file").fault("works only for a qcow2 file that we make: give size_gb");
    }
    Some(VmDisk { device: Arc::from(""), source, format, cdrom, boot: draft.boot, backing_file })
}

fn layout(
    at: &At<'_>,
    source: &DiskSource,
    said: Type,
    format: Option<DiskFormat>,
) -> Option<(bool, DiskFormat)> {
    let cdrom = said == Type::Cdrom || (said == Type::Unsaid && format == Some(DiskFormat::Iso));
    let format = format.unwrap_or(match source {
        _ if cdrom => DiskFormat::Iso,
        DiskSource::Driver { driver: VolumeDriver::CephRbd, .. } | DiskSource::Rbd { .. } => {
            DiskFormat::Raw
        }
        DiskSource::Pool { .. }
        | DiskSource::External { .. }
        | DiskSource::Driver { .. }
        | DiskSource::Nfs { .. } => DiskFormat::Qcow2,
    });
    if cdrom != (format == DiskFormat::Iso) {
        return at.field("format").refuse("iso is for a cdrom and a cdrom is iso");
    }
    let there = match source {
        DiskSource::External { create_gib: None, .. } | DiskSource::Nfs { .. } => true,
        DiskSource::External { create_gib: Some(_), .. }
        | DiskSource::Pool { .. }
        | DiskSource::Driver { .. }
        | DiskSource::Rbd { .. } => false,
    };
    if cdrom && !there {
        return at.field("path").refuse("a cdrom needs the path of its image, and no size_gb");
    }
    if source.driver() == Some(VolumeDriver::CephRbd) && format != DiskFormat::Raw {
        return at.field("format").refuse("a ceph-rbd disk is raw");
    }
    Some((cdrom, format))
}

fn source(at: &At<'_>, draft: &DiskDraft) -> Option<DiskSource> {
    let driver = word(&at.field("storage"), &draft.storage, DRIVERS);
    let size = number(&at.field("size_gb"), draft.size_gb, 0, DISK_GIB);
    let pool = match draft.pool_name.as_str() {
        "" => Some(None),
        text => match PoolName::new(text) {
            Ok(pool) => Some(Some(pool)),
            Err(error) => at.field("pool_name").refuse(error.to_string()),
        },
    };
    let (driver, size, pool) = (driver?, size?, pool?);
    if !draft.path.is_empty() {
        if pool.is_some() {
            at.field("pool_name").fault("and path contradict: a disk is in one place");
        }
        return located(at, draft, driver, size);
    }
    match driver {
        VolumeDriver::Local | VolumeDriver::Compose => {
            let size_gib = if size == 0 { DEFAULT_DISK_GIB } else { size };
            Some(DiskSource::Pool { pool, size_gib })
        }
        VolumeDriver::Nfs | VolumeDriver::CephRbd if pool.is_some() => {
            at.field("pool_name").refuse("is a pool of the node and contradicts storage")
        }
        VolumeDriver::Nfs | VolumeDriver::CephRbd if size == 0 => {
            at.field("size_gb").refuse(format!("must be given for a {} disk", driver.word()))
        }
        VolumeDriver::Nfs | VolumeDriver::CephRbd => {
            Some(DiskSource::Driver { driver, size_gib: size })
        }
    }
}

/// A disk of the user's, by the four ways to write where it is.
fn located(at: &At<'_>, draft: &DiskDraft, storage: VolumeDriver, size: u64) -> Option<DiskSource> {
    let here = at.field("path");
    let text = draft.path.as_str();
    let source = if text.starts_with('/') {
        DiskSource::External { path: path(&here, text)?, create_gib: (size > 0).then_some(size) }
    } else if let Some(name) = text.strip_prefix("rbd:") {
        rbd(&here, name)?
    } else if let Some(rest) = text.strip_prefix("nfs://") {
        let (server, file) = rest.find('/').and_then(|cut| rest.split_at_checked(cut)).unzip();
        nfs(&here, server.unwrap_or_default(), file.unwrap_or_default())?
    } else if let Some((server, file)) = text.split_once(":/") {
        let file = format!("/{file}");
        nfs(&here, server, &file)?
    } else {
        return here.refuse(format!(
            "\"{}\" is not /path, rbd:pool/image, nfs://host/path or host:/path",
            shown(text)
        ));
    };
    if source.driver().is_some() && size > 0 {
        at.field("size_gb").fault("is only for disks we make; this one has its own");
    }
    let told = source.driver().unwrap_or(VolumeDriver::Local);
    if !draft.storage.is_empty() && storage != told {
        let (said, told) = (storage.word(), told.word());
        return at.field("storage").refuse(format!("says {said}, but path is of {told}"));
    }
    Some(source)
}

fn rbd(at: &At<'_>, text: &str) -> Option<DiskSource> {
    match text.split_once('/') {
        Some((pool, image)) if is_plain_name(pool) && is_plain_name(image) => {
            super::text::length(at, text.len(), super::limits::PATH_BYTES)?;
            Some(DiskSource::Rbd { pool: Arc::from(pool), image: Arc::from(image) })
        }
        _ => at.refuse(format!("\"{}\" is not pool/image", shown(text))),
    }
}

fn nfs(at: &At<'_>, server: &str, file: &str) -> Option<DiskSource> {
    let Some((host, port)) = host_and_port(server) else {
        return at.refuse(format!("\"{}\" is not a server", shown(server)));
    };
    let path = path(at, file)?;
    Some(DiskSource::Nfs { host: Arc::from(host), port, path })
}
