//! Verbs about the logs of scheduler and agents.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

/// What to do with a log.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Show how much a log tells, or have it tell more or less for a while.
    Level(LogLevel),
}

/// How much a log tells.
#[derive(Debug, Args)]
pub(crate) struct LogLevel {
    /// A level (error, warn, info, debug, trace, off) or MODULE=LEVEL, several with commas.
    #[arg(value_name = "TARGET=LEVEL")]
    pub(crate) directives: Option<String>,
    /// Whose log.
    #[arg(long, value_enum, default_value_t = Component::Scheduler)]
    pub(crate) component: Component,
    /// The node whose agent it is.
    #[arg(long, value_name = "NODE", required_if_eq("component", "agent"))]
    pub(crate) node: Option<String>,
    /// For how long, up to 24h.
    #[arg(long = "for", default_value = "10m", value_parser = humantime::parse_duration)]
    pub(crate) lasts: Duration,
    /// Go back to what the settings say.
    #[arg(long)]
    pub(crate) reset: bool,
}

/// Who has a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Component {
    /// The scheduler that is asked.
    Scheduler,
    /// The agent of a node.
    Agent,
}
