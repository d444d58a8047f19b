//! From the disks of a spec to files that are there and hold what they should.
//!
//! Rules that hold through every update, crash and failed start:
//! - A disk with data is never made again, shrunk, or put on another image. Where a spec asks for
//!   that, it is refused with words, and the disk stays as it is.
//! - What was there before us is checked before a machine may have it, and never removed.
//! - What we made is on record before it exists, and removed by that record alone.

mod files;
mod rules;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use persys_model::id::VolumeName;
use persys_model::spec::VmSpec;
use persys_model::spec::vm::{DiskFormat, DiskSource, VmDisk};
use persys_model::spec::volume::ManagedVolume;

use crate::error::Error;

use super::domain::{Bus, Disk, Layer, LayerFormat};
use super::manifest::{Kept, Manifest};
use super::seed::Mount;
use super::storage::{Storage, base_layer, head_of, storage};
use super::{image, seed};

use files::{
    blocking, draft_of, load, others, place, ready_folder, remove_file, remove_logs, store,
};
use rules::{bus_of, clash, names_nothing, no_driver, same_disk, serial_of};

pub use rules::free_device;

const GIB: u64 = 1 << 30;

/// Makes, checks and removes the disks of machines.
#[derive(Debug, Clone)]
pub struct Disks {
    settings: Arc<Storage>,
}

/// Whether the machine runs. A disk that is in use is grown by whoever uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// It does.
    On,
    /// It does not.
    Off,
}

/// Disks that are ready.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prepared {
    /// For the description, in order: the spec's disks, then its volumes.
    pub disks: Vec<Disk>,
    /// Volumes the guest should mount.
    pub mounts: Vec<Mount>,
    /// Disks of a running machine that are to be grown, and to how many bytes.
    pub to_grow: Vec<(String, u64)>,
}

/// A disk of the spec with everything looked up.
struct Wanted {
    device: String,
    file: Layer,
    backing: Option<Layer>,
    /// Size to make it with; `None`: it has to be there.
    bytes: Option<u64>,
    /// Whether the size is also what it is to be grown to.
    grows: bool,
    read_only: bool,
}

impl Wanted {
    fn kept(&self, made: bool, ready: bool) -> Kept {
        Kept {
            device: self.device.clone(),
            path: self.file.path.clone(),
            format: self.file.format,
            backing: self.backing.clone(),
            made,
            ready,
            read_only: self.read_only,
        }
    }
}

impl Disks {
    /// For a node with these settings.
    #[must_use]
    pub fn new(settings: Storage) -> Self {
        Self { settings: Arc::new(settings) }
    }

    /// The settings.
    #[must_use]
    pub fn storage(&self) -> &Storage {
        &self.settings
    }

    /// Has every disk of `vm` there and checked. Can be called any number of times.
    pub async fn prepare(
        &self,
        machine: &str,
        vm: &VmSpec,
        volumes: &BTreeMap<VolumeName, PathBuf>,
        power: Power,
    ) -> Result<Prepared, Error> {
        let mut prepared = Prepared::default();
        let mut boot = 0;
        for (nth, disk) in vm.disks.iter().enumerate() {
            let image = vm.os_image.clone().filter(|_| nth == 0);
            let wanted = self.wanted(machine, disk, image).await?;
            if let Some(bytes) = self.have(machine, &wanted, power).await? {
                prepared.to_grow.push((wanted.device.clone(), bytes));
            }
            boot += u32::from(disk.boot);
            prepared.disks.push(Disk {
                device: wanted.device.clone(),
                bus: bus_of(disk),
                cdrom: disk.cdrom,
                read_only: wanted.read_only,
                boot: disk.boot.then_some(boot),
                serial: (!disk.cdrom).then(|| wanted.device.clone()),
                layers: std::iter::once(wanted.file).chain(wanted.backing).collect(),
            });
        }
        self.prepare_volumes(vm, volumes, power, &mut prepared).await?;
        Ok(prepared)
    }

    /// Where a disk is to be, on what, and how large.
    async fn wanted(
        &self,
        machine: &str,
        disk: &VmDisk,
        image: Option<Arc<str>>,
    ) -> Result<Wanted, Error> {
        let (settings, disk, machine) =
            (Arc::clone(&self.settings), disk.clone(), machine.to_owned());
        blocking(move || {
            let format = match disk.format {
                DiskFormat::Qcow2 => LayerFormat::Qcow2,
                DiskFormat::Raw | DiskFormat::Iso => LayerFormat::Raw,
            };
            let backing = match (&image, &disk.backing_file) {
                (Some(word), _) => Some(settings.os_image(word)?),
                (None, Some(path)) => Some(base_layer(&settings.user_file(path)?)?),
                (None, None) => None,
            };
            let (path, bytes, grows) = match &disk.source {
                DiskSource::Pool { pool, size_gib } => {
                    let file = settings.pool_file(pool.as_ref(), &machine, &disk.device, format)?;
                    (file, Some(*size_gib), true)
                }
                DiskSource::External { path, create_gib } => {
                    (settings.user_file(path)?, *create_gib, false)
                }
                DiskSource::Driver { driver, .. } => return Err(no_driver(&disk, driver.word())),
                DiskSource::Rbd { .. } => return Err(no_driver(&disk, "ceph-rbd")),
                DiskSource::Nfs { .. } => return Err(no_driver(&disk, "nfs")),
            };
            Ok(Wanted {
                device: disk.device.to_string(),
                file: Layer { path, format },
                backing,
                bytes: bytes.map(|gib| gib.saturating_mul(GIB)),
                grows,
                read_only: disk.cdrom,
            })
        })
        .await
    }

    /// Makes or checks one disk. The answer is the size it is still to be grown to.
    async fn have(
        &self,
        machine: &str,
        wanted: &Wanted,
        power: Power,
    ) -> Result<Option<u64>, Error> {
        if wanted.bytes.is_some_and(|bytes| bytes > self.most_bytes()) {
            return Err(self.too_large(&wanted.file.path));
        }
        let least = match &wanted.backing {
            Some(backing) => self.check_stranger(backing).await?,
            None => 0,
        };
        let record = self.settings.manifest(machine);
        let mut manifest = load(&record).await?;
        let recorded = manifest.of_device(&wanted.device).cloned();
        if let Some(kept) = &recorded {
            same_disk(kept, wanted)?;
        }
        self.nobody_elses(machine, wanted).await?;
        let path = wanted.file.path.clone();
        let there = blocking(move || Ok(path.symlink_metadata().is_ok())).await?;
        let ours = recorded.as_ref().is_some_and(|kept| kept.made);
        match (there, recorded) {
            (true, _) if ours => self.check_ours(wanted, power).await,
            (true, _) if wanted.grows => {
                Err(storage(&wanted.file.path, "exists, but was not made for this machine"))
            }
            (true, _) => {
                self.check_stranger(&wanted.file).await?;
                manifest.put(wanted.kept(false, true));
                store(&record, manifest).await?;
                Ok(None)
            }
            (false, Some(kept)) if kept.ready && kept.path == wanted.file.path => {
                let why = "is gone, and the data in it; delete the workload to begin anew";
                Err(storage(&wanted.file.path, why))
            }
            (false, _) => {
                self.make(wanted, least, &record, manifest).await?;
                Ok(None)
            }
        }
    }

    async fn make(
        &self,
        wanted: &Wanted,
        least: u64,
        record: &Path,
        mut manifest: Manifest,
    ) -> Result<(), Error> {
        let path = &wanted.file.path;
        let Some(bytes) = wanted.bytes else {
            return Err(storage(path, "does not exist; give size_gb to have it made"));
        };
        if bytes < least {
            let gib = least.div_ceil(GIB);
            let detail = format!("disk {}: its image needs {gib} GiB or more", wanted.device);
            return Err(Error::Invalid { detail });
        }
        manifest.put(wanted.kept(true, false));
        store(record, manifest.clone()).await?;
        self.make_file(&wanted.file, wanted.backing.as_ref(), bytes).await?;
        manifest.put(wanted.kept(true, true));
        store(record, manifest).await
    }

    /// Makes a file under another name first, so that none is ever half there or overwritten.
    async fn make_file(
        &self,
        file: &Layer,
        backing: Option<&Layer>,
        bytes: u64,
    ) -> Result<(), Error> {
        let draft = Layer { path: draft_of(&file.path), format: file.format };
        let from = draft.path.clone();
        blocking(move || ready_folder(&from).and_then(|()| remove_file(&from))).await?;
        self.settings.tool.create(&draft, backing, bytes).await?;
        let to = file.path.clone();
        blocking(move || place(&draft.path, &to)).await
    }

    /// A disk we made: as we made it, and large enough.
    async fn check_ours(&self, wanted: &Wanted, power: Power) -> Result<Option<u64>, Error> {
        let path = &wanted.file.path;
        let info = self.settings.tool.info(&wanted.file).await?;
        let backing = wanted.backing.as_ref().map(|layer| layer.path.clone());
        if info.backing_filename != backing || info.data_file().is_some() || info.encrypted {
            return Err(storage(path, "is not as it was made; it names other files"));
        }
        if info.is_corrupt() {
            return Err(storage(path, "is damaged; `qemu-img check` tells more"));
        }
        let Some(bytes) = wanted.bytes.filter(|_| wanted.grows) else { return Ok(None) };
        if bytes < info.virtual_size {
            let has = info.virtual_size.div_ceil(GIB);
            let detail = format!(
                "disk {} has {has} GiB and would lose data with {}; disks only grow",
                wanted.device,
                bytes / GIB
            );
            return Err(Error::Invalid { detail });
        }
        match power {
            _ if bytes == info.virtual_size => Ok(None),
            Power::On => Ok(Some(bytes)),
            Power::Off => {
                self.settings.tool.grow(&wanted.file, bytes).await?;
                Ok(None)
            }
        }
    }

    /// A file that is not ours: what it says it is, naming no other, not too large. Its size.
    async fn check_stranger(&self, file: &Layer) -> Result<u64, Error> {
        let path = file.path.clone();
        let (head, length) = blocking(move || head_of(&path)).await?;
        let path = &file.path;
        let bytes = match file.format {
            LayerFormat::Raw => match image::begins_as(&head) {
                Some(other) => {
                    let why = format!("was said to be plain bytes, but begins as {other}");
                    return Err(storage(path, why));
                }
                None => length,
            },
            LayerFormat::Qcow2 => {
                let header = image::qcow2(&head).ok_or_else(|| {
                    let why = match image::begins_as(&head) {
                        Some("qcow2") => "has a header that no tool writes".to_owned(),
                        Some(other) => format!("was said to be qcow2, but is {other}"),
                        None => "was said to be qcow2, but is plain bytes".to_owned(),
                    };
                    storage(path, why)
                })?;
                names_nothing(path, &header)?;
                if header.virtual_bytes > self.most_bytes() {
                    return Err(self.too_large(path));
                }
                let info = self.settings.tool.info(file).await?;
                if info.backing_filename.is_some() || info.data_file().is_some() || info.encrypted {
                    return Err(storage(path, "names other files or is encrypted"));
                }
                if info.is_corrupt() {
                    return Err(storage(path, "is damaged; `qemu-img check` tells more"));
                }
                info.virtual_size
            }
        };
        if bytes > self.most_bytes() { Err(self.too_large(path)) } else { Ok(bytes) }
    }

    /// Two machines on one disk destroy it, and so does one that writes beneath another.
    async fn nobody_elses(&self, machine: &str, wanted: &Wanted) -> Result<(), Error> {
        let (home, own) = (self.settings.home.clone(), machine.to_owned());
        let mine = wanted.kept(false, false);
        blocking(move || {
            for (other, manifest) in others(&home, &own)? {
                if let Some(path) = manifest.disks.iter().find_map(|kept| clash(&mine, kept)) {
                    return Err(storage(path, format!("is a disk of the machine {other}")));
                }
            }
            Ok(())
        })
        .await
    }

    async fn prepare_volumes(
        &self,
        vm: &VmSpec,
        volumes: &BTreeMap<VolumeName, PathBuf>,
        power: Power,
        prepared: &mut Prepared,
    ) -> Result<(), Error> {
        for volume in &vm.managed_volumes {
            let Some(path) = volumes.get(&volume.name) else {
                let detail = format!("volume {} is not attached to this node", volume.name);
                return Err(Error::Storage { detail });
            };
            let file = self.volume_file(volume, path, power, prepared).await?;
            let serial = serial_of(&volume.name);
            if !volume.mount_path.is_empty() {
                prepared.mounts.push(Mount {
                    serial: serial.clone(),
                    path: volume.mount_path.to_string(),
                    fs_type: volume.fs_type.to_string(),
                    read_only: volume.read_only,
                });
            }
            prepared.disks.push(Disk {
                device: free_device(&prepared.disks),
                bus: Bus::Virtio,
                cdrom: false,
                read_only: volume.read_only,
                boot: None,
                serial: Some(serial),
                layers: vec![file],
            });
        }
        Ok(())
    }

    /// The bare disk of a volume: what its driver attached, or a file in the folder it attached. It
    /// goes with the volume, by the volume's own policy.
    async fn volume_file(
        &self,
        volume: &ManagedVolume,
        path: &Path,
        power: Power,
        prepared: &mut Prepared,
    ) -> Result<Layer, Error> {
        let given = path.to_owned();
        let is_folder = blocking(move || {
            given.metadata().map(|facts| facts.is_dir()).map_err(|error| storage(&given, error))
        })
        .await?;
        let format = LayerFormat::Raw;
        if !is_folder {
            return Ok(Layer { path: path.to_owned(), format });
        }
        let file = Layer { path: path.join("disk.img"), format };
        let at = file.path.clone();
        let length = blocking(move || Ok(at.metadata().ok().map(|facts| facts.len()))).await?;
        let bytes = volume.size_gib.saturating_mul(GIB);
        match length {
            None => self.make_file(&file, None, bytes).await?,
            Some(length) if length >= bytes => {}
            Some(_) if power == Power::Off => self.settings.tool.grow(&file, bytes).await?,
            Some(_) => prepared.to_grow.push((free_device(&prepared.disks), bytes)),
        }
        Ok(file)
    }

    /// Takes away what is left of a machine that libvirt no longer knows: its seed and its console,
    /// and with `purge` every disk we made. Can be called any number of times.
    pub async fn release(&self, machine: &str, purge: bool) -> Result<(), Error> {
        let (settings, machine) = (Arc::clone(&self.settings), machine.to_owned());
        blocking(move || {
            let seed = settings.seed(&machine);
            seed::remove(&seed).map_err(|error| storage(&seed, error))?;
            remove_logs(&settings.console_log(&machine))?;
            let record = settings.manifest(&machine);
            let manifest = Manifest::load(&record).map_err(|error| storage(&record, error))?;
            if !purge && !manifest.disks.is_empty() {
                return Ok(());
            }
            for kept in manifest.disks.iter().filter(|kept| kept.made) {
                remove_file(&draft_of(&kept.path))?;
                remove_file(&kept.path)?;
            }
            // The record goes last: while anything is left, it says so.
            files::remove_folder(&settings.folder(&machine))
        })
        .await
    }

    fn most_bytes(&self) -> u64 {
        self.settings.most_gib.saturating_mul(GIB)
    }

    fn too_large(&self, path: &Path) -> Error {
        storage(path, format!("is larger than {} GiB, the most here", self.settings.most_gib))
    }
}
