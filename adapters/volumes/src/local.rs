//! Volumes on the node itself.
//!
//! ```text
//!   root/                    0711: others pass and list nothing, as QEMU must
//!   root/images/<name>.img   a file of the volume's size with a file system in it
//!   root/mounts/<name>/      where that is mounted; the workload sees data/ in it
//!   root/folders/<name>/     instead of both, where sizes are not held; likewise data/
//! ```
//!
//! Folders that workloads see are open to all users, so `mounts` and `folders` above them are closed. A
//! file is its owner's alone; libvirt makes QEMU the owner while a machine runs.
//!
//! What is there already stays what it is, whatever the settings say. A file gets its name only when
//! it is formatted, so a name that is there is never formatted again.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use persys_model::id::{VolumeName, WorkloadId};
use persys_model::spec::volume::VolumeDriver;

use crate::driver::{Attached, Driver, Seen, Wanted};
use crate::error::{Error, disk};
use crate::mounts::{
    self, Mount, closed_above, data, folder, mount, open_way_to, passable, unmount,
};
use crate::settings::{Limit, LocalSettings, Tools};
use crate::tools::{ask, call, failed};

/// Nobody but us reads a volume by the way.
const PRIVATE: u32 = 0o600;
/// What `e2fsck` ends with when it found something and mended it.
const MENDED: i32 = 1;

/// Volumes on the node itself.
#[derive(Debug, Clone)]
pub struct Local {
    settings: LocalSettings,
    tools: Tools,
}

impl Local {
    /// By these settings.
    #[must_use]
    pub fn new(settings: LocalSettings, tools: Tools) -> Self {
        Self { settings, tools }
    }

    fn image(&self, name: &VolumeName) -> PathBuf {
        self.settings.root.join("images").join(format!("{name}.img"))
    }

    fn target(&self, name: &VolumeName) -> PathBuf {
        self.settings.root.join("mounts").join(name.as_str())
    }

    fn plain(&self, name: &VolumeName) -> PathBuf {
        self.settings.root.join("folders").join(name.as_str())
    }

    /// Why sizes cannot be held here.
    fn unlimited(&self) -> Option<String> {
        if !rustix::process::geteuid().is_root() {
            return Some("the agent is not root, which mounting needs".to_owned());
        }
        let mkfs = self.tools.sbin.join("mkfs.ext4");
        let needed = [&self.tools.mount, &self.tools.umount, &mkfs, &self.tools.loop_control];
        let missing = needed.into_iter().find(|path| !path.exists())?;
        Some(format!("{} is missing", missing.display()))
    }

    /// Lets QEMU, which is another user on most nodes, pass to the files of disks.
    fn open_way(&self) -> Result<(), Error> {
        open_way_to(&self.settings.root)?;
        passable(&self.settings.root.join("images"))
    }

    /// The folder that keeps QEMU from the disks of machines, and the way to open it.
    fn unreachable(&self) -> Option<String> {
        let closed = closed_above(&self.settings.root)?;
        let closed = closed.display();
        Some(format!(
            "virtual machines cannot reach their volumes: other users cannot pass {closed}; open it \
             with `chmod o+x {closed}`, or choose another folder by PERSYS_STORAGE_LOCAL_ROOT"
        ))
    }

    /// Whether a new volume gets a file system of its own.
    fn holds(&self) -> bool {
        match self.settings.limit {
            Limit::None => false,
            Limit::Image => true,
            Limit::Auto => self.unlimited().is_none(),
        }
    }

    /// The file of `wanted`, made and formatted where it is missing, grown where it is smaller.
    async fn ready(&self, wanted: &Wanted, fs_type: Option<&str>) -> Result<PathBuf, Error> {
        let path = self.image(&wanted.name);
        let Ok(about) = std::fs::symlink_metadata(&path) else {
            self.make(wanted, fs_type).await?;
            return Ok(path);
        };
        if !about.is_file() {
            return Err(disk(&path)(io::Error::other("is not a file; move it aside")));
        }
        if wanted.bytes < about.len() {
            let why = format!(
                "has {} bytes and cannot shrink to {}; ask for at least as much, or take a new name",
                about.len(),
                wanted.bytes
            );
            return Err(Error::Refused { name: wanted.name.clone(), why });
        }
        let marker = path.with_extension("grow");
        if wanted.bytes > about.len() || marker.exists() {
            self.grow(wanted, &path, fs_type).await?;
        }
        Ok(path)
    }

    /// Makes file and file system larger. A mark lies beside the file until both are.
    async fn grow(&self, wanted: &Wanted, path: &Path, fs_type: Option<&str>) -> Result<(), Error> {
        let name = &wanted.name;
        if mounts::source_at(&self.tools, &self.target(name))?.is_some() {
            let why = "cannot grow while it is in use; stop everything that uses it first";
            return Err(Error::Refused { name: name.clone(), why: why.to_owned() });
        }
        let marker = path.with_extension("grow");
        File::create(&marker).map_err(disk(&marker))?;
        let file = File::options().write(true).open(path).map_err(disk(path))?;
        file.set_len(wanted.bytes).map_err(disk(path))?;
        if fs_type == Some("ext4") {
            let at = path.to_string_lossy();
            let check = self.tools.sbin.join("e2fsck");
            let ended = ask(name, "checking it", &check, &["-f", "-p", "--", &at]).await?;
            if !matches!(ended.code, Some(0 | MENDED)) {
                return Err(failed(name, "checking it", &ended));
            }
            let resize = self.tools.sbin.join("resize2fs");
            call(name, "growing it", &resize, &["--", &at]).await?;
        }
        file.sync_all().map_err(disk(path))?;
        std::fs::remove_file(&marker).map_err(disk(&marker))
    }

    async fn make(&self, wanted: &Wanted, fs_type: Option<&str>) -> Result<(), Error> {
        let path = self.image(&wanted.name);
        let parent = self.settings.root.join("images");
        passable(&parent)?;
        let aside = parent.join(format!("{}.new", wanted.name));
        match std::fs::remove_file(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(disk(&aside)(error));
            }
            _ => {}
        }
        let options = File::options().write(true).create_new(true).mode(PRIVATE).open(&aside);
        let file = options.map_err(disk(&aside))?;
        file.set_len(wanted.bytes).map_err(disk(&aside))?;
        if let Some(fs_type) = fs_type {
            format(&self.tools, &wanted.name, fs_type, &aside.to_string_lossy()).await?;
        }
        file.sync_all().map_err(disk(&aside))?;
        std::fs::rename(&aside, &path).map_err(disk(&path))?;
        synced(&parent)
    }

    async fn attach_image(&self, wanted: &Wanted) -> Result<Attached, Error> {
        let image = self.ready(wanted, Some("ext4")).await?;
        let target = self.target(&wanted.name);
        let source = image.to_string_lossy();
        let options = "loop,nodev,nosuid";
        let what = Mount { source: &source, fs_type: "ext4", options, target: &target };
        mount(&self.tools, &wanted.name, what).await?;
        Ok(Attached { path: data(&target)?, limited: true })
    }
}

/// Makes a file system; whoever calls made sure that there is none.
pub(crate) async fn format(
    tools: &Tools,
    name: &VolumeName,
    fs_type: &str,
    at: &str,
) -> Result<(), Error> {
    let program = tools.sbin.join(format!("mkfs.{fs_type}"));
    if !program.exists() {
        let why = format!("{} is missing; install it to have {fs_type}", program.display());
        return Err(Error::Refused { name: name.clone(), why });
    }
    let quiet: &[&str] = match fs_type {
        "ext4" => &["-q", "-F", "-m", "0", "--", at],
        _ => &["-q", "--", at],
    };
    call(name, "formatting it", &program, quiet).await.map(drop)
}

fn synced(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(disk(folder))
}

#[async_trait]
impl Driver for Local {
    fn kind(&self) -> VolumeDriver {
        VolumeDriver::Local
    }

    fn offered(&self) -> Result<(), String> {
        match (self.settings.limit, self.unlimited()) {
            (Limit::Image, Some(why)) => Err(format!(
                "sizes are to be held and cannot be: {why}; or set PERSYS_STORAGE_LOCAL_LIMIT=auto"
            )),
            _ => passable(&self.settings.root).map_err(|error| error.to_string()),
        }
    }

    fn warning(&self) -> Option<String> {
        let why = match self.settings.limit {
            Limit::None => Some("by PERSYS_STORAGE_LOCAL_LIMIT".to_owned()),
            Limit::Auto => self.unlimited(),
            Limit::Image => None,
        };
        let limit = why.map(|why| format!("the size of new local volumes is not limited: {why}"));
        let words: Vec<_> = limit.into_iter().chain(self.unreachable()).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }

    async fn attach(&self, wanted: &Wanted, _by: &WorkloadId) -> Result<Attached, Error> {
        passable(&self.settings.root)?;
        if wanted.seen == Seen::Disk {
            self.open_way()?;
            let fs_type = Some(wanted.fs_type.as_str()).filter(|text| !text.is_empty());
            let path = self.ready(wanted, fs_type).await?;
            return Ok(Attached { path, limited: true });
        }
        let plain = self.plain(&wanted.name);
        let is_plain = std::fs::symlink_metadata(&plain).is_ok();
        let is_image = std::fs::symlink_metadata(self.image(&wanted.name)).is_ok();
        if is_image || (!is_plain && self.holds()) {
            return self.attach_image(wanted).await;
        }
        folder(&plain)?;
        Ok(Attached { path: data(&plain)?, limited: false })
    }

    async fn detach(&self, name: &VolumeName) -> Result<(), Error> {
        unmount(&self.tools, name, &self.target(name)).await
    }

    async fn delete(&self, name: &VolumeName, _by: &WorkloadId) -> Result<(), Error> {
        self.detach(name).await?;
        let image = self.image(name);
        for path in [&image, &image.with_extension("new"), &image.with_extension("grow")] {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(disk(path)(error));
                }
                _ => {}
            }
        }
        remove(self.plain(name)).await
    }
}

/// Removes a folder with all that is in it; links in it are removed, not followed.
pub(crate) async fn remove(path: PathBuf) -> Result<(), Error> {
    let at = path.clone();
    let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(&at)).await;
    match removed.unwrap_or_else(|error| Err(io::Error::other(error))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(disk(&path)),
    }
}
