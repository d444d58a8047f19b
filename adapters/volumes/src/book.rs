//! Who uses which volume of this node, on disk.
//!
//! One small file a volume, replaced as a whole. It is written before anything is done that it tells
//! of, and removed when nothing of the volume is left to do.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use persys_model::id::{VolumeName, WorkloadId};
use persys_model::spec::volume::VolumeDriver;
use serde::{Deserialize, Serialize};

use crate::error::{Error, disk};
use crate::mounts::folder;

/// A volume, by who stores it and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) driver: VolumeDriver,
    pub(crate) name: VolumeName,
}

/// What is written down about a volume.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Whether its data outlives its workloads.
    pub(crate) retain: bool,
    /// Whether its deletion has begun.
    pub(crate) deleting: bool,
    /// Who used it and has not been deleted, and whether it is attached for them.
    pub(crate) claims: BTreeMap<String, bool>,
}

impl Manifest {
    pub(crate) fn is_claimed_by(&self, workload: &WorkloadId) -> bool {
        self.claims.contains_key(workload.as_str())
    }

    /// Whether it is attached for anybody but `workload`.
    pub(crate) fn in_use_beside(&self, workload: &WorkloadId) -> bool {
        self.claims.iter().any(|(id, attached)| *attached && id != workload.as_str())
    }

    /// Whether anybody but `workload` has a claim.
    pub(crate) fn claimed_beside(&self, workload: &WorkloadId) -> bool {
        self.claims.keys().any(|id| id != workload.as_str())
    }
}

/// All manifests, in one folder.
#[derive(Debug, Clone)]
pub(crate) struct Book {
    root: PathBuf,
}

impl Book {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.root.join(format!("{}.{}.json", key.driver.word(), key.name))
    }

    pub(crate) fn read(&self, key: &Key) -> Result<Option<Manifest>, Error> {
        let path = self.path(key);
        match std::fs::read(&path) {
            Ok(bytes) => parsed(&path, &bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(disk(&path)(error)),
        }
    }

    /// Durable when it returns.
    pub(crate) fn write(&self, key: &Key, manifest: &Manifest) -> Result<(), Error> {
        folder(&self.root)?;
        let path = self.path(key);
        let aside = path.with_extension("new");
        let bytes = serde_json::to_vec_pretty(manifest).map_err(io::Error::other);
        let written = bytes.and_then(|bytes| {
            let mut file = File::create(&aside)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            std::fs::rename(&aside, &path)?;
            File::open(&self.root)?.sync_all()
        });
        written.map_err(disk(&path))
    }

    pub(crate) fn forget(&self, key: &Key) -> Result<(), Error> {
        let path = self.path(key);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(disk(&path)),
        }
    }

    /// Every volume that `workload` has a claim to.
    pub(crate) fn claimed_by(&self, workload: &WorkloadId) -> Result<Vec<Key>, Error> {
        let entries = match std::fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(disk(&self.root)(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(disk(&self.root))?;
            let Some(key) = entry.file_name().to_str().and_then(key_of) else { continue };
            if self.read(&key)?.is_some_and(|manifest| manifest.is_claimed_by(workload)) {
                found.push(key);
            }
        }
        found.sort();
        Ok(found)
    }
}

fn parsed(path: &Path, bytes: &[u8]) -> Result<Manifest, Error> {
    serde_json::from_slice(bytes).map_err(|error| disk(path)(io::Error::other(error)))
}

fn key_of(file: &str) -> Option<Key> {
    let (driver, name) = file.strip_suffix(".json")?.split_once('.')?;
    let driver = VolumeDriver::ALL.into_iter().find(|known| known.word() == driver)?;
    Some(Key { driver, name: VolumeName::new(name).ok()? })
}
