//! Verbs about who becomes a member, and who is one no longer.

use std::time::Duration;

use clap::{Args, Subcommand};

/// What to do with invitations.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Invite a machine: prints the one line to type there.
    Create(CreateToken),
    /// List invitations that are still good.
    #[command(visible_alias = "ls")]
    List,
    /// Withdraw an invitation.
    #[command(visible_aliases = ["rm", "revoke"])]
    Delete {
        /// Its id, the third part of the token.
        id: String,
    },
}

/// An invitation.
#[derive(Debug, Args)]
pub(crate) struct CreateToken {
    /// As what it joins: agent or gateway.
    #[arg(long, default_value = "agent")]
    pub(crate) role: String,
    /// For how long it is good, up to 24h.
    #[arg(long, default_value = "1h", value_parser = humantime::parse_duration)]
    pub(crate) ttl: Duration,
    /// How many may join with it.
    #[arg(long, default_value_t = 1)]
    pub(crate) uses: u32,
    /// The only name it is good for, also when a member has it already.
    #[arg(long, value_name = "NODE")]
    pub(crate) name: Option<String>,
}

/// Whom to believe.
#[derive(Debug, Subcommand)]
pub(crate) enum CaCommand {
    /// Believe somebody no longer, such as agent/n1 or serial/<hex>; their connections are cut.
    Revoke {
        /// Who: <role>/<name> or serial/<hex>.
        subject: String,
        /// Why.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Believe somebody again.
    Reinstate {
        /// Who: <role>/<name> or serial/<hex>.
        subject: String,
    },
    /// List those who are no longer believed.
    Revoked,
}
