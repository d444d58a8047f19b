//! Verbs about disks: the volumes that are made and kept for workloads.

use clap::{Args, Subcommand};

/// What to do with a disk.
#[derive(Debug, Subcommand)]
pub(crate) enum DiskCommand {
    /// List disks, where their data is and who uses them.
    #[command(visible_alias = "ls")]
    List,
    /// Show one disk.
    Get {
        /// Its name, or driver:name.
        disk: String,
    },
    /// Make a disk. One is made together with its workload; this says how.
    Create(CreateDisk),
    /// Delete a disk that nobody uses.
    #[command(visible_alias = "rm")]
    Delete {
        /// Its name, or driver:name.
        disk: String,
    },
}

/// A disk to make.
#[derive(Debug, Args)]
pub(crate) struct CreateDisk {
    /// Its name.
    pub(crate) name: String,
    /// Who stores it: local, nfs or ceph-rbd.
    #[arg(long, default_value = "local")]
    pub(crate) driver: String,
    /// Its size in GiB.
    #[arg(long, default_value_t = 1)]
    pub(crate) size: i64,
}
