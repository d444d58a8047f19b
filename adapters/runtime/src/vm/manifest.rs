//! The record of what was made for one machine, and of what it uses.
//!
//! It is written before a file is made and again when the file is there, so at every moment it names
//! at least what exists; what is removed with a machine is what it says, never what a pattern finds.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::domain::{Layer, LayerFormat};

const VERSION: u32 = 1;

/// The record of one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    version: u32,
    /// Every disk it has or had. One that an update took away stays here until the machine goes.
    pub disks: Vec<Kept>,
}

/// One disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The device it is or was.
    pub device: String,
    /// Its file.
    pub path: PathBuf,
    /// How that is laid out.
    pub format: LayerFormat,
    /// The image it records changes to.
    pub backing: Option<Layer>,
    /// Whether we made it. What was there before us is not ours to remove.
    pub made: bool,
    /// Whether it was finished. If not, there is no data in it yet.
    pub ready: bool,
    /// Whether nobody writes to it, so that others may use it too.
    #[serde(default)]
    pub read_only: bool,
}

impl Default for Manifest {
    fn default() -> Self {
        Self { version: VERSION, disks: Vec::new() }
    }
}

impl Manifest {
    /// Reads a record; none is an empty one. One that cannot be read is an error: what it names is
    /// somebody's data.
    pub fn load(path: &Path) -> std::io::Result<Self> {
        let text = match std::fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            other => other?,
        };
        let manifest: Self = serde_json::from_slice(&text)?;
        if manifest.version != VERSION {
            let words =
                format!("it is of version {}, this program knows {VERSION}", manifest.version);
            return Err(std::io::Error::new(ErrorKind::InvalidData, words));
        }
        Ok(manifest)
    }

    /// Writes it whole or not at all, readable by its owner only. Its folder is made.
    pub fn store(&self, path: &Path) -> std::io::Result<()> {
        if let Some(folder) = path.parent() {
            make_folder(folder)?;
        }
        let draft = path.with_extension("json.new");
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.sync_all()?;
        std::fs::rename(&draft, path)
    }

    /// The disk of that device.
    #[must_use]
    pub fn of_device(&self, device: &str) -> Option<&Kept> {
        self.disks.iter().find(|kept| kept.device == device)
    }

    /// Puts a disk into the record, in the place of what its device had.
    pub fn put(&mut self, kept: Kept) {
        match self.disks.iter_mut().find(|other| other.device == kept.device) {
            Some(place) => *place = kept,
            None => self.disks.push(kept),
        }
    }
}

/// Makes a folder that QEMU's own user can pass through but not list.
pub(super) fn make_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o711).create(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn kept(device: &str, path: &str) -> Kept {
        Kept {
            device: device.to_owned(),
            path: PathBuf::from(path),
            format: LayerFormat::Qcow2,
            backing: Some(Layer { path: PathBuf::from("/base"), format: LayerFormat::Raw }),
            made: true,
            ready: false,
            read_only: false,
        }
    }

    #[test]
    fn what_is_written_is_read_and_nobody_else_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vm/manifest.json");
        assert_eq!(Manifest::load(&path).unwrap(), Manifest::default());
        let mut manifest = Manifest::default();
        manifest.put(kept("vda", "/a"));
        manifest.put(kept("vdb", "/b"));
        manifest.put(Kept { ready: true, ..kept("vda", "/a") });
        manifest.store(&path).unwrap();
        assert_eq!(Manifest::load(&path).unwrap(), manifest);
        assert_eq!(manifest.disks.len(), 2);
        assert!(manifest.of_device("vda").unwrap().ready);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_cannot_be_read_is_not_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest.json");
        for text in ["", "{}", "{\"version\": 2, \"disks\": []}", "garbage"] {
            std::fs::write(&path, text).unwrap();
            assert!(Manifest::load(&path).is_err(), "{text}");
        }
    }
}
