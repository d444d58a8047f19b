//! Verbs about secrets and about the audit log.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with secrets.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Set a secret, or set it anew. The value is typed, piped in, or read from a file; never an
    /// argument, which others on the machine could see.
    Set(SetSecret),
    /// List secrets; values are never shown.
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        place: InNamespace,
        /// Those of all namespaces.
        #[arg(long, short = 'A')]
        all_namespaces: bool,
    },
    /// Show one secret without its value, and who uses it.
    #[command(visible_alias = "get")]
    Show {
        /// Its name.
        name: String,
        #[command(flatten)]
        place: InNamespace,
    },
    /// Delete a secret.
    #[command(visible_alias = "rm")]
    Delete {
        /// Its name.
        name: String,
        #[command(flatten)]
        place: InNamespace,
    },
    /// Seal all secrets with a new key. Copy the key file to every scheduler afterwards.
    RotateKey,
}

/// Where secrets are.
#[derive(Debug, Args)]
pub(crate) struct InNamespace {
    /// The namespace; workloads use secrets of their own.
    #[arg(long, default_value = "default")]
    pub(crate) namespace: String,
}

/// A secret to set.
#[derive(Debug, Args)]
pub(crate) struct SetSecret {
    /// Its name.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) place: InNamespace,
    /// Take the value from this file, byte for byte.
    #[arg(long, value_name = "FILE")]
    pub(crate) from_file: Option<PathBuf>,
    /// Keep the line's end of what is piped in; usually one is taken off.
    #[arg(long)]
    pub(crate) keep_newline: bool,
    /// Read the value from Vault instead, and follow it: secret/team-a/db#password. The namespace must
    /// allow the path.
    #[arg(long, value_name = "MOUNT/PATH#FIELD", conflicts_with_all = ["from_file", "keep_newline"])]
    pub(crate) vault: Option<String>,
    /// The mount of the key/value engine, if it is more than the first word.
    #[arg(long, value_name = "MOUNT", requires = "vault")]
    pub(crate) vault_mount: Option<String>,
    /// Version of the key/value engine, 1 or 2.
    #[arg(long, value_name = "VERSION", requires = "vault", default_value_t = 2)]
    pub(crate) kv_version: u32,
    /// What a new value in Vault means for those that run: leave, or restart.
    #[arg(long, value_name = "WHAT", requires = "vault", default_value = "leave")]
    pub(crate) on_change: String,
}

/// What to do with the audit log; without a word it is listed.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Audit {
    #[command(subcommand)]
    pub(crate) command: Option<AuditCommand>,
    #[command(flatten)]
    pub(crate) list: ListAudit,
}

/// What to do with the audit log.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Show who did what, and who was refused.
    #[command(visible_alias = "ls")]
    List(ListAudit),
    /// Check that no record was changed, cut off or put in.
    Verify {
        /// Check this file instead, as `audit export` wrote it.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Write the whole log as lines of JSON.
    Export {
        /// Where to; printed if not given.
        file: Option<PathBuf>,
    },
}

/// Which records.
#[derive(Debug, Args, Default)]
pub(crate) struct ListAudit {
    /// Only what this one did, or a part of the name.
    #[arg(long)]
    pub(crate) who: Option<String>,
    /// Only about this, such as workload/web, or a part of it.
    #[arg(long)]
    pub(crate) object: Option<String>,
    /// Only since then: 10m, 2h, or a date.
    #[arg(long)]
    pub(crate) since: Option<String>,
    /// Only refusals.
    #[arg(long)]
    pub(crate) denied: bool,
    /// At most so many, the newest.
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: u32,
}
