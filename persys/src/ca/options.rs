//! What can be typed after `persys ca`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand};

use crate::settings::{self, Values};

/// The authority of a cluster: who is who.
#[derive(Debug, Clone, Parser)]
#[command(name = "persys ca")]
pub(super) struct Options {
    #[command(subcommand)]
    pub(super) action: Action,
    /// Where the authority is kept
    #[arg(
        long,
        global = true,
        value_name = "FOLDER",
        env = "PERSYS_CA_DIR",
        default_value = "/var/lib/persys/scheduler/ca"
    )]
    pub(super) folder: PathBuf,
}

/// What to do.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum Action {
    /// Make an authority; its key stays in the folder
    Init {
        /// The cluster it is for
        #[arg(long, env = "PERSYS_CLUSTER_ID", default_value = "persys")]
        cluster: String,
        /// The domain its names are in
        #[arg(long, default_value = crate::enrol::DOMAIN)]
        domain: String,
    },
    /// Make a key and a certificate for somebody who cannot join: an operator, a scheduler elsewhere
    Issue(Box<Issue>),
    /// List what was issued: serial number, identity, end
    List {
        /// Also what has ended
        #[arg(long)]
        all: bool,
    },
    /// Replace the root, one step at a time: the next one is trusted, then issues, then the former goes
    Rotate {
        /// Take the step although not everybody is known to be ready
        #[arg(long)]
        force: bool,
    },
    /// Let machines join and renew, without a scheduler beside
    Serve(Serve),
    /// Invite a machine to an authority that serves alone
    Token {
        /// Where it is reached, host:port
        #[arg(long)]
        at: String,
        /// As what it joins
        #[arg(long, default_value = "agent")]
        role: String,
        /// For how long it is good
        #[arg(long, default_value = "1h", value_parser = humantime::parse_duration)]
        ttl: Duration,
        /// How many may join with it
        #[arg(long, default_value_t = 1)]
        uses: u32,
        /// The only name it is good for
        #[arg(long)]
        name: Option<String>,
    },
    /// Believe somebody no longer, at an authority that serves alone
    Deny {
        /// ROLE/NAME or serial/HEX
        subject: String,
        /// Why
        #[arg(long, default_value = "")]
        reason: String,
    },
}

/// What an authority that serves alone is told: its table of settings, as for every component.
#[derive(Debug, Clone)]
pub(super) struct Serve {
    /// Each setting, and who said it.
    pub(super) values: Values,
    /// Only the settings are wanted.
    pub(super) only_shows: bool,
}

impl FromArgMatches for Serve {
    fn from_arg_matches(typed: &ArgMatches) -> Result<Self, clap::Error> {
        let set: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        let variable = |name: &str| settings::said(&set, name);
        let file = Path::new("/etc/persys/ca.yaml");
        let values = settings::resolve(settings::ca::TABLE, typed, variable, Some(file));
        let values = values.map_err(|faults| {
            clap::Error::raw(ErrorKind::ValueValidation, faults.join("\n") + "\n")
        })?;
        Ok(Self { values, only_shows: typed.get_one::<String>("action").is_some() })
    }

    fn update_from_arg_matches(&mut self, typed: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(typed)?;
        Ok(())
    }
}

impl Args for Serve {
    fn augment_args(command: Command) -> Command {
        let table = settings::command("serve", settings::ca::ABOUT, settings::ca::TABLE);
        command.args(table.get_arguments().cloned())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// A certificate to make.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Issue {
    /// scheduler, agent, gateway, operator, user or metrics
    pub(super) role: String,
    /// Who
    pub(super) name: String,
    /// The file to write: key, certificate and roots
    #[arg(long, short)]
    pub(super) out: PathBuf,
    /// How long it lasts [default: a day for those who renew by themselves, else 30 days]
    #[arg(long, value_parser = humantime::parse_duration)]
    pub(super) ttl: Option<Duration>,
    /// A host a scheduler or gateway is also reached at, a name or an address; may be repeated
    #[arg(long)]
    pub(super) host: Vec<String>,
}

impl Issue {
    /// The hosts, as names and addresses.
    pub(super) fn hosts(&self) -> persys_identity::Hosts {
        let mut hosts = persys_identity::Hosts::default();
        for host in &self.host {
            match host.parse::<IpAddr>() {
                Ok(address) => hosts.addresses.push(address),
                Err(_) => hosts.names.push(host.clone()),
            }
        }
        hosts
    }
}
