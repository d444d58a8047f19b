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
        #[command(flatten)]
        etcd: EtcdOptions,
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
        #[command(flatten)]
        etcd: EtcdOptions,
    },
}

/// Where an earlier installation has its records.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Etcd of the earlier installation, as host:port,…
    #[arg(long, value_name = "ENDPOINTS", value_parser = Place::etcd)]
    pub(crate) etcd: Place,
    /// Tell what would be imported, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) etcd_options: EtcdOptions,
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

/// How etcd is reached, in the words of a scheduler. A password comes from `ETCD_PASSWORD` or a file:
/// what is typed is seen by everybody on the machine.
#[derive(Debug, Clone, Default, Args)]
#[expect(clippy::struct_field_names, reason = "ca, cert and key are words of the cluster's own")]
pub(crate) struct EtcdOptions {
    /// Stands in front of every key in etcd, such as /persys.
    #[arg(long, value_name = "PREFIX", help_heading = ETCD)]
    pub(crate) etcd_root: Option<String>,
    /// Trusted roots for etcd; with it connections are TLS.
    #[arg(long, value_name = "FILE", help_heading = ETCD)]
    pub(crate) etcd_ca: Option<PathBuf>,
    /// Certificate to show to etcd.
    #[arg(long, value_name = "FILE", help_heading = ETCD)]
    pub(crate) etcd_cert: Option<PathBuf>,
    /// Its private key.
    #[arg(long, value_name = "FILE", help_heading = ETCD)]
    pub(crate) etcd_key: Option<PathBuf>,
    /// Name in etcd's certificate, if it is not the host that is dialled.
    #[arg(long, value_name = "NAME", help_heading = ETCD)]
    pub(crate) etcd_server_name: Option<String>,
    /// Name to etcd; its password is in `ETCD_PASSWORD` or the file below.
    #[arg(long, value_name = "NAME", help_heading = ETCD)]
    pub(crate) etcd_user: Option<String>,
    /// File with the password.
    #[arg(long, value_name = "FILE", help_heading = ETCD)]
    pub(crate) etcd_password_file: Option<PathBuf>,
}

const ETCD: &str = "Way to etcd";

impl EtcdOptions {
    /// What was said, as a scheduler is told the same.
    pub(crate) fn words(&self) -> Vec<(&'static str, String)> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let words = [
            ("--etcd-root", self.etcd_root.clone()),
            ("--etcd-ca", path(&self.etcd_ca)),
            ("--etcd-cert", path(&self.etcd_cert)),
            ("--etcd-key", path(&self.etcd_key)),
            ("--etcd-server-name", self.etcd_server_name.clone()),
            ("--etcd-user", self.etcd_user.clone()),
            ("--etcd-password-file", path(&self.etcd_password_file)),
        ];
        words.into_iter().filter_map(|(word, value)| Some((word, value?))).collect()
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
        #[command(flatten)]
        etcd: EtcdOptions,
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
