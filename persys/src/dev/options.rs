//! What was typed after `persys dev`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// Scheduler, agent and certificates in one process, until Ctrl-C.
///
/// What runs on Docker goes on when it stops, and everything is known again at the next start.
#[derive(Debug, Clone, Parser)]
#[command(name = "persys dev", args_conflicts_with_subcommands = false)]
pub(super) struct Options {
    #[command(subcommand)]
    pub(super) action: Option<Action>,
    /// Where everything is kept [default: ~/.persys/dev]
    #[arg(long, global = true, value_name = "FOLDER")]
    pub(super) state: Option<PathBuf>,
    /// What runs containers
    #[arg(long, value_enum, default_value = "docker")]
    pub(super) runtime: RuntimeName,
    /// The address at which other machines can join and be nodes; the dashboard stays on this machine
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub(super) listen: IpAddr,
    /// The scheduler's gRPC port
    #[arg(long, default_value_t = 8085)]
    pub(super) port: u16,
    /// The scheduler's port for /health and /metrics
    #[arg(long, default_value_t = 8084)]
    pub(super) http: u16,
    /// The agent's gRPC port
    #[arg(long, default_value_t = 50_051)]
    pub(super) agent_port: u16,
    /// The port where names are answered; another one if it is taken
    #[arg(long, default_value_t = 5353)]
    pub(super) dns_port: u16,
    /// The port where machines join; another one if it is taken
    #[arg(long, default_value_t = 8086)]
    pub(super) enrol_port: u16,
    /// The port of the dashboard and of REST; another one if it is taken
    #[arg(long, default_value_t = 8585)]
    pub(super) gateway_port: u16,
    /// Go on in the background, once it serves
    #[arg(long)]
    pub(super) background: bool,
}

/// What else there is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub(super) enum Action {
    /// End it and leave nothing behind: its process, its containers, its folder
    Down,
}

/// What runs containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum RuntimeName {
    /// Docker, real containers.
    Docker,
    /// Nothing real: for trying everything else.
    Sim,
}

impl RuntimeName {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Sim => "sim",
        }
    }
}

impl Options {
    /// Where everything is kept.
    pub(super) fn folder(&self) -> PathBuf {
        self.state.clone().unwrap_or_else(|| super::home().join("dev"))
    }

    /// The command that ends this cluster and no other.
    pub(super) fn down_command(&self) -> String {
        match &self.state {
            None => "persys dev down".to_owned(),
            Some(folder) => {
                let folder = folder.display().to_string().replace('\'', "'\\''");
                let plain =
                    |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
                let quoted = if folder.chars().all(plain) { folder } else { format!("'{folder}'") };
                format!("persys dev down --state {quoted}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(std::iter::once("persys dev").chain(line.split_whitespace()))
    }

    #[test]
    fn what_is_typed_is_understood_or_named() {
        let options = typed("--runtime sim --port 0 --background").unwrap();
        assert_eq!((options.runtime, options.port), (RuntimeName::Sim, 0));
        assert!(options.background && options.action.is_none());
        assert!(options.listen.is_loopback(), "nobody else gets in unless it was said");
        let options = typed("--listen 0.0.0.0").unwrap();
        assert!(options.listen.is_unspecified());
        let options = typed("down --state here").unwrap();
        assert_eq!((options.action, options.folder()), (Some(Action::Down), "here".into()));
        assert_eq!(options.down_command(), "persys dev down --state here");
        let spaced = Options { state: Some("it's here".into()), ..typed("down").unwrap() };
        assert_eq!(spaced.down_command(), r"persys dev down --state 'it'\''s here'");
        assert_eq!(typed("--background").unwrap().down_command(), "persys dev down");
        for line in
            ["--port", "--port 99999", "--runtime podman", "--listen here", "--what 1", "up"]
        {
            assert!(typed(line).is_err(), "{line}");
        }
    }
}
