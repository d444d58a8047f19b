//! Verbs about looking on, and about the program itself.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::store::EtcdOptions;
use crate::stores::Place;

/// The cluster on one screen.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Print one picture as text and end; so it is too where no terminal shows it.
    #[arg(long)]
    pub(crate) once: bool,
}

/// What to look at before an upgrade.
#[derive(Debug, Args)]
pub(crate) struct UpgradeCheck {
    /// A copy of the store, as `snapshot save` makes it: whether this release understands it.
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,
    /// How old that copy may be.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = humantime::parse_duration)]
    pub(crate) fresh: Duration,
    /// The folder of the authority, where it is on this machine: whether its root is being replaced.
    #[arg(long, value_name = "DIR")]
    pub(crate) ca_dir: Option<PathBuf>,
    /// Where etcd is, as host:port,…: whether it has raised an alarm.
    #[arg(long, value_name = "ENDPOINTS", value_parser = Place::etcd)]
    pub(crate) etcd: Option<Place>,
    #[command(flatten)]
    pub(crate) options: EtcdOptions,
}

/// Manual pages.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Where to write them; the folder is made if it is missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}
