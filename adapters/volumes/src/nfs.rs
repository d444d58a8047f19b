//! Volumes on an NFS server: a folder each, below the export.
//!
//! ```text
//!   server:export/persys/<name>/data             what a workload sees, mounted on its own
//!   server:export/persys/<name>/claims/<workload>  who uses it, on whatever node
//!   stage/export/  stage/mounts/<name>/          where both are mounted here
//! ```
//!
//! Mounting the folder itself, rather than pointing into the export, leaves the server no way to put
//! a link into the path that a container is given.

use std::io;
use std::path::PathBuf;

use async_trait::async_trait;
use persys_model::id::{VolumeName, WorkloadId};
use persys_model::spec::volume::VolumeDriver;

use crate::driver::{Attached, Driver, Seen, Wanted};
use crate::error::{Error, disk};
use crate::local::remove;
use crate::mounts::{Mount, data, folder, mount, unmount};
use crate::settings::{NfsSettings, Tools};
use crate::tools::aside;

/// Volumes on an NFS server.
#[derive(Debug, Clone)]
pub struct Nfs {
    settings: NfsSettings,
    tools: Tools,
}

impl Nfs {
    /// By these settings.
    #[must_use]
    pub fn new(settings: NfsSettings, tools: Tools) -> Self {
        Self { settings, tools }
    }

    fn options(&self) -> String {
        let given = self.settings.options.trim_matches(',');
        if given.is_empty() { "nodev,nosuid".to_owned() } else { format!("{given},nodev,nosuid") }
    }

    fn target(&self, name: &VolumeName) -> PathBuf {
        self.settings.stage.join("mounts").join(name.as_str())
    }

    /// The folder of `name` on the server, as it is seen here.
    fn home(&self, name: &VolumeName) -> PathBuf {
        self.settings.stage.join("export").join("persys").join(name.as_str())
    }

    async fn mount_at(
        &self,
        name: &VolumeName,
        below: &str,
        target: PathBuf,
    ) -> Result<PathBuf, Error> {
        let export = self.settings.export.trim_end_matches('/');
        let source = format!("{}:{export}{below}", self.settings.server);
        let source = if source.ends_with(':') { format!("{source}/") } else { source };
        let options = self.options();
        let what = Mount { source: &source, fs_type: "nfs", options: &options, target: &target };
        mount(&self.tools, name, what).await?;
        Ok(target)
    }

    async fn export(&self, name: &VolumeName) -> Result<PathBuf, Error> {
        self.mount_at(name, "", self.settings.stage.join("export")).await
    }
}

#[async_trait]
impl Driver for Nfs {
    fn kind(&self) -> VolumeDriver {
        VolumeDriver::Nfs
    }

    fn offered(&self) -> Result<(), String> {
        if !rustix::process::geteuid().is_root() {
            return Err("the agent is not root, which mounting needs".to_owned());
        }
        if !self.tools.mount_nfs.exists() {
            return Err(format!(
                "{} is missing; install it with `apt-get install nfs-common`",
                self.tools.mount_nfs.display()
            ));
        }
        let known = std::fs::read_to_string(&self.tools.filesystems).unwrap_or_default();
        let loaded = known.split_whitespace().any(|word| matches!(word, "nfs" | "nfs4"));
        if loaded || module_exists() {
            return Ok(());
        }
        Err("the kernel of this host knows no NFS; use one that has the module nfs".to_owned())
    }

    async fn attach(&self, wanted: &Wanted, by: &WorkloadId) -> Result<Attached, Error> {
        let name = &wanted.name;
        if wanted.seen == Seen::Disk {
            let why = "an nfs volume is a folder and cannot be a disk; use local or ceph-rbd";
            return Err(Error::Refused { name: name.clone(), why: why.to_owned() });
        }
        self.export(name).await?;
        let (home, by) = (self.home(name), by.clone());
        let claim = move || {
            let claims = home.join("claims");
            folder(&claims)?;
            let claim = claims.join(by.as_str());
            std::fs::write(&claim, "").map_err(disk(&claim))?;
            data(&home)
        };
        aside(name, "claiming it", claim).await?;
        let below = format!("/persys/{name}/data");
        let path = self.mount_at(name, &below, self.target(name)).await?;
        Ok(Attached { path, limited: false })
    }

    async fn detach(&self, name: &VolumeName) -> Result<(), Error> {
        unmount(&self.tools, name, &self.target(name)).await
    }

    async fn disclaim(&self, name: &VolumeName, by: &WorkloadId) -> Result<(), Error> {
        self.export(name).await?;
        let claim = self.home(name).join("claims").join(by.as_str());
        let disclaim = move || match std::fs::remove_file(&claim) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(disk(&claim)(error)),
            _ => Ok(()),
        };
        aside(name, "giving up a claim", disclaim).await
    }

    async fn destroy(&self, name: &VolumeName, _by: &WorkloadId) -> Result<(), Error> {
        self.detach(name).await?;
        self.export(name).await?;
        remove(self.home(name)).await
    }

    async fn delete(&self, name: &VolumeName, by: &WorkloadId) -> Result<(), Error> {
        self.detach(name).await?;
        self.disclaim(name, by).await?;
        let home = self.home(name);
        let claims = home.join("claims");
        // Whoever is left keeps it, and takes it along in the end.
        let look = move || match std::fs::read_dir(&claims) {
            Ok(mut entries) => Ok(entries.next().is_some()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(disk(&claims)(error)),
        };
        let others = aside(name, "looking who else uses it", look).await?;
        if others { Ok(()) } else { remove(home).await }
    }
}

/// Whether the kernel can load NFS when it is asked to mount it.
fn module_exists() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    ["modules.dep", "modules.builtin"].iter().any(|list| {
        let path = format!("/lib/modules/{release}/{list}");
        std::fs::read_to_string(path).is_ok_and(|text| text.contains("/nfs.ko"))
    })
}
