//! Verbs about what is stored: copies of it, other places for it, and ways out of its loss.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::node::OrphanAt;
use crate::stores::Place;

/// What to do with copies of the store.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Save all that is stored to a file: from the running scheduler, or from a store at rest.
    Save {
        /// The file; it must not be there yet.
        file: PathBuf,
        #[command(flatten)]
        at: At,
    },
    /// Check a file and tell what is in it.
    Inspect {
        /// The file.
        file: PathBuf,
    },
    /// Put a file into an empty store at rest. The scheduler then starts in recovery.
    Restore {
        /// The file.
        file: PathBuf,
        #[command(flatten)]
        at: At,
    },
}

/// A store at rest.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct At {
    /// The state directory of a scheduler that does not run.
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Where etcd is, as host:port,…
    #[arg(long, value_name = "ENDPOINTS", value_parser = Place::etcd)]
    pub(crate) etcd: Option<Place>,
}

impl At {
    /// The place, if one was named.
    pub(crate) fn place(&self) -> Option<Place> {
        self.etcd.clone().or_else(|| self.state_dir.clone().map(Place::Folder))
    }
}

/// What to do with the store itself.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Move all that is stored to another place while no scheduler runs. The old place stays as it
    /// is.
    Migrate {
        /// Where it is: a state directory, or etcd:host:port,…
        #[arg(long, value_name = "PLACE", value_parser = Place::parse)]
        from: Place,
        /// Where it is to be; nothing may be there yet.
        #[arg(long, value_name = "PLACE", value_parser = Place::parse)]
        to: Place,
    },
}

/// How to leave recovery. Without --yes it only tells what would be done, unless somebody at a
/// terminal confirms it.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "one for each option")]
#[command(group = clap::ArgGroup::new("from").required(true))]
pub(crate) struct Recover {
    /// Rebuild everything from what the agents hold.
    #[arg(long, group = "from")]
    pub(crate) from_agents: bool,
    /// Take this snapshot for the truth; what runs beyond it becomes unknown and is left alone.
    #[arg(long, group = "from", value_name = "FILE")]
    pub(crate) from_snapshot: Option<PathBuf>,
    /// Begin with nothing; what runs becomes unknown and is left alone.
    #[arg(long, group = "from")]
    pub(crate) accept_empty: bool,
    /// Only tell what would be done.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do it without asking.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
}

/// What to do about differences between what is recorded and what nodes have.
#[derive(Debug, Subcommand)]
pub(crate) enum DriftCommand {
    /// List them.
    #[command(visible_alias = "ls")]
    List {
        /// Only of this node.
        node: Option<String>,
    },
    /// Have nodes tell all they hold now, and compare.
    Check {
        /// Only this node.
        node: Option<String>,
    },
    /// Take over a workload nobody knows, as it runs.
    Adopt(OrphanAt),
    /// Have its node remove a workload nobody knows.
    Delete(OrphanAt),
    /// Leave a workload nobody knows alone.
    Ignore(OrphanAt),
}
