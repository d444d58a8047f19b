//! The seam: what is asked of whoever stores volumes.

use std::path::PathBuf;

use async_trait::async_trait;
use persys_model::id::{VolumeName, WorkloadId};
use persys_model::spec::volume::VolumeDriver;

use crate::error::Error;

/// A volume as it is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its name.
    pub name: VolumeName,
    /// Its size; 0 leaves it to who stores it.
    pub bytes: u64,
    /// Its file system; empty is the driver's own choice.
    pub fs_type: String,
    /// How it is seen.
    pub seen: Seen,
}

/// How a volume is seen by its workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// As a folder.
    Folder,
    /// As a disk, which is the guest's to format.
    Disk,
}

/// Where a volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// The folder, or the file or device of the disk.
    pub path: PathBuf,
    /// Whether it can grow no larger than it was asked for.
    pub limited: bool,
}

/// Stores volumes. Every verb is idempotent: "already so" is success.
#[async_trait]
pub trait Driver: Send + Sync + std::fmt::Debug {
    /// Which it is.
    fn kind(&self) -> VolumeDriver;

    /// Whether this node can do it; if not, what is missing and what to do.
    fn offered(&self) -> Result<(), String>;

    /// What works less well than it could; for people.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Makes the volume where there is none, and has it here. Data that is there is never
    /// overwritten.
    async fn attach(&self, wanted: &Wanted, by: &WorkloadId) -> Result<Attached, Error>;

    /// Has it no longer here. The data stays.
    async fn detach(&self, name: &VolumeName) -> Result<(), Error>;

    /// `by` has no more claim to it, and the data stays. Only a driver that several nodes share
    /// keeps claims of its own.
    async fn disclaim(&self, _name: &VolumeName, _by: &WorkloadId) -> Result<(), Error> {
        Ok(())
    }

    /// Leaves nothing of it, unless somebody elsewhere has a claim to it.
    async fn delete(&self, name: &VolumeName, by: &WorkloadId) -> Result<(), Error>;

    /// Leaves nothing of it, whoever once had a claim to it: who asks for this knows all workloads.
    async fn destroy(&self, name: &VolumeName, by: &WorkloadId) -> Result<(), Error> {
        self.delete(name, by).await
    }
}
