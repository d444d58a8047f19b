//! What may become of a disk, decided without touching one.

use std::collections::BTreeSet;
use std::path::Path;

use persys_model::id::VolumeName;
use persys_model::spec::vm::VmDisk;

use crate::error::Error;

use super::super::domain::{Bus, Disk, Layer};
use super::super::identity;
use super::super::image::Qcow2;
use super::super::manifest::Kept;
use super::super::storage::storage;
use super::Wanted;

/// A disk with data in it stays where it is and what it is.
pub(super) fn same_disk(kept: &Kept, wanted: &Wanted) -> Result<(), Error> {
    if !kept.made || !kept.ready {
        return Ok(());
    }
    let device = &wanted.device;
    let on = |layer: &Option<Layer>| match layer {
        Some(layer) => format!("on the image {}", layer.path.display()),
        None => "on no image".to_owned(),
    };
    let detail = if kept.path != wanted.file.path || kept.format != wanted.file.format {
        format!(
            "disk {device} has its data in {}; an update cannot move it: give the new disk another \
             device",
            kept.path.display()
        )
    } else if kept.backing != wanted.backing {
        format!(
            "disk {device} is {} and an update cannot put it {}: make a new workload, or add a disk",
            on(&kept.backing),
            on(&wanted.backing)
        )
    } else {
        return Ok(());
    };
    Err(Error::Invalid { detail })
}

/// A file that one disk writes to and the other needs, as its own or beneath it.
pub(super) fn clash<'a>(one: &'a Kept, other: &'a Kept) -> Option<&'a Path> {
    let beneath = |kept: &'a Kept| kept.backing.as_ref().map(|layer| layer.path.as_path());
    let writes = |kept: &'a Kept| (!kept.read_only).then_some(kept.path.as_path());
    let meet = |written: Option<&'a Path>, kept: &'a Kept| {
        written.filter(|path| kept.path == *path || beneath(kept) == Some(*path))
    };
    meet(writes(one), other).or_else(|| meet(writes(other), one))
}

/// Refuses an image that would make a tool open another file.
pub(super) fn names_nothing(path: &Path, header: &Qcow2) -> Result<(), Error> {
    let why = if header.has_backing {
        "names a backing file, and so could show the guest files of the node; flatten it with \
         `qemu-img convert`"
    } else if header.has_data_file {
        "keeps its data in another file, and so could show the guest files of the node"
    } else if header.encrypted {
        "is encrypted, which is not supported"
    } else {
        return Ok(());
    };
    Err(storage(path, why))
}

pub(super) fn no_driver(disk: &VmDisk, driver: &str) -> Error {
    Error::Storage {
        detail: format!(
            "disk {} is of {driver}, which this node does not offer to machines; take a disk of a \
             pool, or a managed volume",
            disk.device
        ),
    }
}

/// Discs and disks named as on real machines go on the SATA bus, everything else on virtio.
pub(super) fn bus_of(disk: &VmDisk) -> Bus {
    let virtio = disk.device.starts_with("vd") || disk.device.starts_with("xvd");
    if virtio && !disk.cdrom { Bus::Virtio } else { Bus::Sata }
}

/// What a guest knows a volume by: its name, or as much of it as a disk can carry.
pub(super) fn serial_of(volume: &VolumeName) -> String {
    let name = volume.as_str();
    if name.len() <= Disk::SERIAL_BYTES {
        return name.to_owned();
    }
    let uuid = identity::uuid_of("volume", name);
    let hash = uuid.get(..8).unwrap_or_default();
    format!("{}-{hash}", name.get(..Disk::SERIAL_BYTES - 9).unwrap_or_default())
}

/// The first virtio name no disk has.
#[must_use]
pub fn free_device(disks: &[Disk]) -> String {
    let taken: BTreeSet<_> = disks.iter().map(|disk| disk.device.as_str()).collect();
    let single = ('a'..='z').map(|last| format!("vd{last}"));
    let double =
        ('a'..='z').flat_map(|first| ('a'..='z').map(move |last| format!("vd{first}{last}")));
    // There are more names than a machine can have disks, so one is always free.
    single.chain(double).find(|name| !taken.contains(name.as_str())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::super::domain::LayerFormat;
    use super::*;

    #[test]
    fn disks_clash_where_one_writes_what_another_needs() {
        let kept = |path: &str, base: Option<&str>, read_only| Kept {
            device: "vda".to_owned(),
            path: path.into(),
            format: LayerFormat::Qcow2,
            backing: base.map(|path| Layer { path: path.into(), format: LayerFormat::Raw }),
            made: false,
            ready: false,
            read_only,
        };
        for (one, other, meets) in [
            (kept("/a", None, false), kept("/b", None, false), None),
            (kept("/a", None, false), kept("/a", None, false), Some("/a")),
            (kept("/a", None, true), kept("/a", None, true), None),
            (kept("/a", None, true), kept("/a", None, false), Some("/a")),
            (kept("/a", Some("/i"), false), kept("/b", Some("/i"), false), None),
            (kept("/a", Some("/i"), false), kept("/i", None, false), Some("/i")),
            (kept("/a", Some("/i"), false), kept("/i", None, true), None),
        ] {
            let meets = meets.map(Path::new);
            assert_eq!(
                (clash(&one, &other), clash(&other, &one)),
                (meets, meets),
                "{one:?} {other:?}"
            );
        }
    }

    #[test]
    fn a_serial_fits_and_differs() {
        let serial = |name: &str| serial_of(&VolumeName::new(name).unwrap());
        assert_eq!(serial("data"), "data");
        let (one, other) =
            (serial("a-very-long-volume-name-1"), serial("a-very-long-volume-name-2"));
        assert_eq!((one.len(), other.len()), (20, 20));
        assert_ne!(one, other);
    }
}
