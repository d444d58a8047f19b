//! Verbs about disks: the volumes that are made and kept for workloads.

use clap::{Args, Subcommand};

/// What to do with a disk.
#[derive(Debug, Subcommand)]
pub(crate) enum DiskCommand {
    /// List disks, where their data is and who uses them.
    #[command(visible_alias = "ls")]
    List,
    /// Show one disk.
    #[command(visible_alias = "show")]
    Get {
        /// Its name, or driver:name.
        disk: String,
    },
    /// Make a disk without a workload; one that names it in its spec uses it.
    Create(CreateDisk),
    /// Delete a disk that nobody uses, with its data.
    #[command(visible_alias = "rm")]
    Delete {
        /// Its name, or driver:name.
        disk: String,
        /// Do not ask.
        #[arg(short, long)]
        yes: bool,
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
    /// The node that is to have it; only for local. Without one, the first workload decides.
    #[arg(long)]
    pub(crate) node: Option<String>,
    /// Who may mount it: RWO (one node), ROX (many, reading only) or RWX (many).
    #[arg(long)]
    pub(crate) access: Option<String>,
    /// Its file system; without one, the driver's own choice.
    #[arg(long)]
    pub(crate) fs: Option<String>,
    /// Retain keeps its data until the disk is deleted; Delete lets it go with its last workload.
    #[arg(long, default_value = "Retain")]
    pub(crate) policy: String,
}
