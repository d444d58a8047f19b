//! Verbs about nodes.

use clap::{Args, Subcommand};

/// Which nodes.
#[derive(Debug, Args)]
pub(crate) struct Nodes {
    /// Only those in this state: `Ready`, `NotReady`, `Draining`.
    #[arg(long)]
    pub(crate) status: Option<String>,
    /// Go on showing them as they change.
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// What to do with a node.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// List nodes.
    #[command(visible_alias = "ls")]
    List(Nodes),
    /// Show one node.
    Get {
        /// Which.
        #[arg(value_name = "NODE", required_unless_present = "old")]
        id: Option<String>,
        /// Which, as older versions spelt it.
        #[arg(long = "id", hide = true, conflicts_with = "id", value_name = "NODE")]
        old: Option<String>,
    },
    /// Move its work away and give it none.
    Drain {
        /// Which.
        node: String,
        /// Why, for others.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Let it take work again.
    Undrain {
        /// Which.
        node: String,
        /// Why, for others.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Keep work away that does not tolerate it.
    Taint {
        /// Which.
        node: String,
        /// key=value:effect; the effect is `NoSchedule` or `PreferNoSchedule`.
        taint: String,
    },
    /// Take a taint away.
    Untaint {
        /// Which.
        node: String,
        /// key, or key:effect.
        taint: String,
    },
    /// Set labels, or take them away with a - behind the key.
    Label {
        /// Which.
        node: String,
        /// key=value, or key-.
        #[arg(required = true)]
        labels: Vec<String>,
    },
    /// Forget a node that is gone.
    Remove {
        /// Which.
        node: String,
    },
    /// Vouch that a silent node is switched off: its exclusive work may move.
    ConfirmGone {
        /// Which.
        node: String,
    },
}

/// What to do with a workload nobody knows.
#[derive(Debug, Subcommand)]
pub(crate) enum Orphan {
    /// Take it over as it runs.
    Adopt(OrphanAt),
    /// Have its node remove it.
    Delete(OrphanAt),
    /// Leave it alone.
    Ignore(OrphanAt),
}

/// Which one.
#[derive(Debug, Args)]
pub(crate) struct OrphanAt {
    /// The node it runs on.
    pub(crate) node: String,
    /// Its id.
    pub(crate) workload: String,
}
