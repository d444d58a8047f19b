//! Volumes on Ceph: a block device each, by the `rbd` tool.
//!
//! An image `persys.<name>` of the pool is mapped for us alone, formatted if it holds nothing at all,
//! and mounted. That it holds nothing is what `blkid` must say; no answer is not that answer.

use std::path::PathBuf;

use async_trait::async_trait;
use persys_model::id::{VolumeName, WorkloadId};
use persys_model::spec::volume::VolumeDriver;
use serde::Deserialize;

use crate::driver::{Attached, Driver, Seen, Wanted};
use crate::error::Error;
use crate::local::format;
use crate::mounts::{Mount, data, mount, unmount};
use crate::settings::{CephSettings, Tools};
use crate::tools::{ask, call, failed};

/// What `rbd` ends with when there is no such image, and `blkid` when it finds nothing.
const ABSENT: i32 = 2;
const MIB: u64 = 1024 * 1024;

/// Volumes on Ceph.
#[derive(Debug, Clone)]
pub struct Rbd {
    settings: CephSettings,
    tools: Tools,
}

#[derive(Deserialize)]
struct Info {
    size: u64,
}

#[derive(Deserialize)]
struct Mapped {
    pool: String,
    name: String,
    device: String,
}

impl Rbd {
    /// By these settings.
    #[must_use]
    pub fn new(settings: CephSettings, tools: Tools) -> Self {
        Self { settings, tools }
    }

    fn target(&self, name: &VolumeName) -> PathBuf {
        self.settings.stage.join("mounts").join(name.as_str())
    }

    /// The words every call begins with, then `rest`.
    fn args<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        let CephSettings { cluster, pool, user, keyring, .. } = &self.settings;
        let given =
            [("--cluster", cluster), ("--id", user), ("--keyring", keyring), ("--pool", pool)];
        let given = given.into_iter().filter(|(_, value)| !value.is_empty());
        given.flat_map(|(flag, value)| [flag, value.as_str()]).chain(rest.iter().copied()).collect()
    }

    async fn rbd(
        &self,
        name: &VolumeName,
        doing: &'static str,
        rest: &[&str],
    ) -> Result<String, Error> {
        call(name, doing, &self.tools.rbd, &self.args(rest)).await
    }

    async fn size(&self, name: &VolumeName) -> Result<Option<u64>, Error> {
        let (doing, image) = ("asking for it", image(name));
        let words = self.args(&["info", "--format", "json", "--", &image]);
        let ended = ask(name, doing, &self.tools.rbd, &words).await?;
        match ended.code {
            Some(0) => read::<Info>(name, doing, &ended.stdout.text()).map(|info| Some(info.size)),
            Some(ABSENT) => Ok(None),
            _ => Err(failed(name, doing, &ended)),
        }
    }

    /// Makes the image, or grows it; whether it grew.
    async fn ready(&self, wanted: &Wanted) -> Result<bool, Error> {
        let (name, image) = (&wanted.name, image(&wanted.name));
        let size = format!("{}M", wanted.bytes.div_ceil(MIB));
        match self.size(name).await? {
            None => {
                let features = "layering,exclusive-lock";
                let words = ["create", "--size", &size, "--image-feature", features, "--", &image];
                self.rbd(name, "making it", &words).await.map(|_| false)
            }
            Some(has) if has > wanted.bytes => {
                let why = format!(
                    "has {has} bytes and cannot shrink to {}; ask for at least as much",
                    wanted.bytes
                );
                Err(Error::Refused { name: name.clone(), why })
            }
            Some(has) if has == wanted.bytes => Ok(false),
            Some(_) => {
                let words = ["resize", "--size", &size, "--", &image];
                self.rbd(name, "growing it", &words).await.map(|_| true)
            }
        }
    }

    /// The device it is mapped to on this node.
    async fn device(&self, name: &VolumeName) -> Result<Option<String>, Error> {
        let doing = "looking for its device";
        let text = self.rbd(name, doing, &["device", "list", "--format", "json"]).await?;
        let all: Vec<Mapped> = read(name, doing, &text)?;
        let image = image(name);
        let ours = |one: &Mapped| one.pool == self.settings.pool && one.name == image;
        Ok(all.into_iter().find(ours).map(|one| one.device))
    }

    async fn map(&self, name: &VolumeName) -> Result<String, Error> {
        if let Some(device) = self.device(name).await? {
            return Ok(device);
        }
        let (doing, image) = ("mapping it", image(name));
        let said = self.rbd(name, doing, &["device", "map", "--exclusive", "--", &image]).await?;
        let device = said.trim().to_owned();
        if device.starts_with("/dev/") && !device.contains("..") {
            return Ok(device);
        }
        Err(Error::Tool { name: name.clone(), doing, said: "rbd named no device".to_owned() })
    }

    /// Formats `device` if it holds nothing.
    async fn formatted(&self, wanted: &Wanted, device: &str, fs_type: &str) -> Result<(), Error> {
        let (name, doing) = (&wanted.name, "looking what is on it");
        let words = ["-p", "-o", "value", "-s", "TYPE", "--", device];
        let ended = ask(name, doing, &self.tools.sbin.join("blkid"), &words).await?;
        match ended.code {
            Some(0) => Ok(()),
            Some(ABSENT) => format(&self.tools, name, fs_type, device).await,
            _ => Err(failed(name, doing, &ended)),
        }
    }
}

fn image(name: &VolumeName) -> String {
    format!("persys.{name}")
}

fn read<T: for<'de> Deserialize<'de>>(
    name: &VolumeName,
    doing: &'static str,
    text: &str,
) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| Error::Unknown {
        name: name.clone(),
        doing,
        said: format!("rbd's answer cannot be read: {error}"),
    })
}

#[async_trait]
impl Driver for Rbd {
    fn kind(&self) -> VolumeDriver {
        VolumeDriver::CephRbd
    }

    fn offered(&self) -> Result<(), String> {
        if !self.tools.rbd.exists() {
            return Err(format!(
                "{} is missing; install it with `apt-get install ceph-common`",
                self.tools.rbd.display()
            ));
        }
        if rustix::process::geteuid().is_root() {
            return Ok(());
        }
        Err("the agent is not root, which mapping and mounting need".to_owned())
    }

    async fn attach(&self, wanted: &Wanted, _by: &WorkloadId) -> Result<Attached, Error> {
        let grown = self.ready(wanted).await?;
        let device = self.map(&wanted.name).await?;
        if wanted.seen == Seen::Disk {
            return Ok(Attached { path: PathBuf::from(device), limited: true });
        }
        let fs_type = if wanted.fs_type.is_empty() { "ext4" } else { &wanted.fs_type };
        self.formatted(wanted, &device, fs_type).await?;
        let target = self.target(&wanted.name);
        let what = Mount { source: &device, fs_type, options: "nodev,nosuid", target: &target };
        mount(&self.tools, &wanted.name, what).await?;
        if grown && fs_type == "ext4" {
            let resize = self.tools.sbin.join("resize2fs");
            call(&wanted.name, "growing it", &resize, &["--", &device]).await?;
        }
        Ok(Attached { path: data(&target)?, limited: true })
    }

    async fn detach(&self, name: &VolumeName) -> Result<(), Error> {
        unmount(&self.tools, name, &self.target(name)).await?;
        match self.device(name).await? {
            Some(device) => {
                self.rbd(name, "unmapping it", &["device", "unmap", "--", &device]).await.map(drop)
            }
            None => Ok(()),
        }
    }

    async fn delete(&self, name: &VolumeName, _by: &WorkloadId) -> Result<(), Error> {
        self.detach(name).await?;
        let (doing, image) = ("deleting it", image(name));
        // One that somebody else has mapped is not removed: Ceph refuses, and we ask again later.
        let words = self.args(&["rm", "--no-progress", "--", &image]);
        let ended = ask(name, doing, &self.tools.rbd, &words).await?;
        match ended.code {
            Some(0 | ABSENT) => Ok(()),
            _ => Err(failed(name, doing, &ended)),
        }
    }
}
