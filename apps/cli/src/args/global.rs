//! Options that every command takes.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use persys_model::event::Author;

use crate::sizes;

/// How answers are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Output {
    /// Columns for people.
    #[default]
    Table,
    /// More columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl Output {
    /// Whether a program reads it.
    pub(crate) fn is_data(self) -> bool {
        match self {
            Self::Json | Self::Yaml => true,
            Self::Table | Self::Wide => false,
        }
    }
}

/// How the cluster is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// gRPC.
    Grpc,
    /// Through the gateway.
    Http,
}

/// Whom old commands speak to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// The scheduler.
    Scheduler,
    /// An agent.
    Agent,
}

/// Options that every command takes.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Global {
    /// How to show the answer.
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,
    /// Longest wait: 20, 20s, 5m.
    #[arg(long, global = true, value_parser = sizes::duration, value_name = "TIME")]
    pub(crate) timeout: Option<Duration>,
    /// Why a change is made; it is written down beside who made it, see `audit`.
    #[arg(long, global = true, value_name = "TEXT", value_parser = because)]
    pub(crate) because: Option<String>,
    /// No colours.
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// Say more about what is done.
    #[arg(long, global = true)]
    pub(crate) verbose: bool,

    /// Settings file, instead of `$PERSYS_HOME/config.yaml`.
    #[arg(long, global = true, value_name = "FILE", help_heading = CONNECTION)]
    pub(crate) config: Option<PathBuf>,
    /// Which cluster, by the name of its context.
    #[arg(long, global = true, value_name = "NAME", help_heading = CONNECTION)]
    pub(crate) context: Option<String>,
    /// Where the scheduler is, host:port.
    #[arg(long, alias = "grpc-endpoint", global = true, value_name = "ADDRESS", help_heading = CONNECTION)]
    pub(crate) endpoint: Option<String>,
    /// One file with key, certificate and roots.
    #[arg(long, global = true, value_name = "FILE", conflicts_with_all = ["ca", "cert", "key"], help_heading = CONNECTION)]
    pub(crate) identity: Option<PathBuf>,
    /// Trusted roots.
    #[arg(long, global = true, value_name = "FILE", help_heading = CONNECTION)]
    pub(crate) ca: Option<PathBuf>,
    /// Certificate to show.
    #[arg(long, global = true, value_name = "FILE", help_heading = CONNECTION)]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of the certificate.
    #[arg(long, global = true, value_name = "FILE", help_heading = CONNECTION)]
    pub(crate) key: Option<PathBuf>,
    /// File that maps names of certificates made elsewhere to roles.
    #[arg(long = "cert-names", global = true, value_name = "FILE", help_heading = CONNECTION)]
    pub(crate) tls_names: Option<PathBuf>,
    /// Token to prove who you are, whatever the certificate says.
    #[arg(long, global = true, value_name = "TOKEN", help_heading = CONNECTION)]
    pub(crate) token: Option<String>,
    /// Connect without certificates.
    #[arg(long, alias = "grpc-insecure", global = true, help_heading = CONNECTION)]
    pub(crate) insecure: bool,
    /// Longest wait for one answer, in seconds.
    #[arg(long, global = true, hide = true, value_parser = sizes::duration)]
    pub(crate) rpc_timeout_seconds: Option<Duration>,
    /// grpc; http needs the gateway.
    #[arg(long, global = true, hide = true, value_enum)]
    pub(crate) transport: Option<Transport>,
    /// Whom to speak to.
    #[arg(long, global = true, hide = true, value_enum)]
    pub(crate) grpc_target: Option<Target>,
}

const CONNECTION: &str = "Connection";

/// A reason that can be kept whole: one line, not too long.
fn because(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.len() > Author::LONGEST_WHY {
        return Err(format!("it is longer than {} bytes", Author::LONGEST_WHY));
    }
    if text.chars().any(char::is_control) {
        return Err("it has a line end or another control character".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_that_is_kept_whole() {
        assert_eq!(because(" new disk "), Ok("new disk".to_owned()));
        assert!(because("a\nb").is_err());
        assert!(because(&"x".repeat(Author::LONGEST_WHY)).is_ok());
        assert!(because(&"x".repeat(Author::LONGEST_WHY + 1)).is_err());
    }
}
