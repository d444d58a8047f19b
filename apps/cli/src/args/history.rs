//! Verbs about the revisions of a workload.

use std::path::PathBuf;

use clap::Args;

use super::workload::Apply;

/// A workload whose revisions are listed.
#[derive(Debug, Args)]
pub(crate) struct History {
    /// The workload.
    pub(crate) id: String,
}

/// Two revisions to compare.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The workload.
    pub(crate) id: String,
    /// Number of the earlier revision; without it, the one that runs or ran before.
    pub(crate) from: Option<u32>,
    /// Number of the later revision; without it, the present one.
    pub(crate) to: Option<u32>,
    /// Show values of the environment, Compose files and user data.
    #[arg(long)]
    pub(crate) secrets: bool,
}

/// A revision to go back to.
#[derive(Debug, Args)]
pub(crate) struct Rollback {
    /// The workload.
    pub(crate) id: String,
    /// Number of the revision; without it, the newest earlier one that came to run.
    #[arg(value_name = "REVISION")]
    pub(crate) number: Option<u32>,
    /// Do not wait.
    #[arg(short, long)]
    pub(crate) detach: bool,
}

/// Files whose effect is to be shown.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) apply: Apply,
    /// Write the plan to a file, for `apply --plan`. It holds all that the files say, secrets too.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}
