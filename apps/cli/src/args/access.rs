//! Verbs about who may do what.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::sizes;

/// What to do with namespaces.
#[derive(Debug, Subcommand)]
pub(crate) enum NamespaceCommand {
    /// List namespaces and what is allowed in each.
    #[command(visible_alias = "ls")]
    List,
    /// Make a namespace; it allows nothing out of the ordinary unless you say so.
    Create(NamespaceAllows),
    /// Say anew what is allowed in a namespace; what is not said is not allowed.
    Set(NamespaceAllows),
    /// Put a namespace in shadow, or take it out: in shadow its workloads run without ports and names.
    Shadow {
        /// Which.
        name: String,
        /// on or off.
        #[arg(value_enum)]
        to: Switch,
    },
    /// Delete a namespace that nothing is in.
    #[command(visible_alias = "rm")]
    Delete {
        /// Which.
        name: String,
    },
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// What workloads of a namespace may have of their nodes.
#[derive(Debug, Args)]
pub(crate) struct NamespaceAllows {
    /// Which.
    pub(crate) name: String,
    /// All powers of the node.
    #[arg(long)]
    pub(crate) allow_privileged: bool,
    /// The network of the node.
    #[arg(long)]
    pub(crate) allow_host_network: bool,
    /// Devices of the node.
    #[arg(long)]
    pub(crate) allow_devices: bool,
    /// A path of the node and everything below it.
    #[arg(long = "allow-host-path", value_name = "PATH")]
    pub(crate) allow_host_paths: Vec<String>,
    /// A path of Vault, and everything below it, that its secrets may be read from, as Vault's policies
    /// write it: kv/team-a, or secret/data/team-a for version 2.
    #[arg(long = "allow-vault-path", value_name = "PATH")]
    pub(crate) allow_vault_paths: Vec<String>,
    /// In shadow, or not; stays as it is when not said.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) shadow: Option<bool>,
}

/// What to do with roles and tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum AccessCommand {
    /// Give somebody a role.
    Bind(Bind),
    /// Take a role away.
    Unbind {
        /// The name of the binding, as `access list` shows it.
        name: String,
    },
    /// List who has which role where.
    #[command(visible_alias = "ls")]
    List,
    /// Tokens that people and tools prove themselves with.
    #[command(subcommand)]
    Token(UserTokenCommand),
}

/// Where a role counts.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Where {
    /// In this namespace; may be said again.
    #[arg(short, long = "namespace", value_name = "NAME")]
    pub(crate) namespaces: Vec<String>,
    /// In the whole cluster.
    #[arg(long)]
    pub(crate) cluster: bool,
}

/// A role for somebody.
#[derive(Debug, Args)]
pub(crate) struct Bind {
    /// For this user, as their certificate or login names them.
    #[arg(long, conflicts_with = "group", required_unless_present = "group")]
    pub(crate) user: Option<String>,
    /// For everybody in this group of their login.
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// viewer, operator, admin or auditor.
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: String,
    #[command(flatten)]
    pub(crate) at: Where,
    /// A name for it; made up when not given.
    #[arg(long, default_value = "")]
    pub(crate) name: String,
}

/// What to do with tokens of users.
#[derive(Debug, Subcommand)]
pub(crate) enum UserTokenCommand {
    /// Make a token; it is shown this once.
    Create {
        /// Who uses it.
        user: String,
        /// viewer, operator, admin or auditor.
        #[arg(long, value_name = "ROLE")]
        role: String,
        #[command(flatten)]
        at: Where,
        /// How long it is good: 12h, 30d.
        #[arg(long, value_parser = sizes::duration, default_value = "30d", value_name = "TIME")]
        ttl: Duration,
    },
    /// List tokens.
    #[command(visible_alias = "ls")]
    List,
    /// Make a token worthless, now.
    Revoke {
        /// Its id, as `access token list` shows it.
        id: String,
    },
}
