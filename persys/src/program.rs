//! What this program is to be: its name and its first word tell.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use crate::{ca, component, dev, join, probe, telemetry};

/// What to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    Scheduler,
    Agent,
    Gateway,
    Dev,
    /// Looks at this host.
    Doctor,
    Ca,
    Join,
    /// Asks a component whether it is well.
    Probe,
    /// Stops exclusive work when the agent cannot; started by the agent.
    Watchdog,
    /// What people type, under this name.
    Commands(&'static str),
}

impl Program {
    /// Is that, until it ends.
    pub(crate) async fn run(self, words: Vec<OsString>) -> ExitCode {
        match self {
            Self::Scheduler => component::scheduler(words).await,
            Self::Agent => component::agent(words).await,
            Self::Doctor => component::doctor(words).await,
            Self::Gateway => component::gateway(words).await,
            Self::Dev => dev::run(words).await,
            Self::Ca => ca::run(words).await,
            Self::Join => join::run(words).await,
            Self::Probe => probe::run(words).await,
            Self::Watchdog => component::watchdog(words).await,
            Self::Commands(name) => {
                let typed = words.clone();
                let work = persys_cli::run_with(name, words, component::commands());
                telemetry::typed(&typed, work).await
            }
        }
    }
}

/// What the program is, and the words that are left for it.
pub(crate) fn choose(called: &OsStr, mut words: Vec<OsString>) -> (Program, Vec<OsString>) {
    let name = Path::new(called).file_name().and_then(OsStr::to_str).unwrap_or_default();
    match name {
        "persys-scheduler" => return (Program::Scheduler, words),
        // A copy of the file under this name starts its watchdog under this name too.
        "persys-agent" if word(&words, 0) == "agent-watchdog" => {
            words.remove(0);
            return (Program::Watchdog, words);
        }
        "persys-agent" => return (Program::Agent, words),
        "persys-gateway" => return (Program::Gateway, words),
        "persysctl" => return (Program::Commands("persysctl"), words),
        _ => {}
    }
    let program = match (word(&words, 0), word(&words, 1)) {
        ("dev", _) => Program::Dev,
        ("doctor", _) => Program::Doctor,
        ("join", _) => Program::Join,
        ("probe", _) => Program::Probe,
        // Whom a running cluster believes is a matter of its records.
        ("ca", next) if !matches!(next, "revoke" | "reinstate" | "revoked") => Program::Ca,
        ("agent-watchdog", _) => Program::Watchdog,
        // `scheduler summary` and `agent health` are commands of people; a component gets flags.
        ("scheduler", next) if is_for_component(next) => Program::Scheduler,
        ("agent", next) if is_for_component(next) => Program::Agent,
        ("gateway", next) if is_for_component(next) => Program::Gateway,
        _ => return (Program::Commands("persys"), words),
    };
    words.remove(0);
    (program, words)
}

fn word(words: &[OsString], nth: usize) -> &str {
    words.get(nth).and_then(|word| word.to_str()).unwrap_or_default()
}

fn is_for_component(next: &str) -> bool {
    next.is_empty() || next.starts_with('-') || next == "config"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_first_word_tell() {
        let chosen = |line: &str| {
            let mut words = line.split_whitespace().map(OsString::from);
            let called = words.next().unwrap_or_default();
            let (program, left) = choose(&called, words.collect());
            (program, left.len())
        };
        for (line, program, left) in [
            ("persys-scheduler -insecure", Program::Scheduler, 1),
            ("/usr/bin/persys-agent", Program::Agent, 0),
            ("/usr/local/bin/persys-agent agent-watchdog --node n1", Program::Watchdog, 2),
            ("persysctl agent health", Program::Commands("persysctl"), 2),
            ("persys scheduler", Program::Scheduler, 0),
            ("persys scheduler config", Program::Scheduler, 1),
            ("persys scheduler -insecure", Program::Scheduler, 1),
            ("persys scheduler summary", Program::Commands("persys"), 2),
            ("persys agent --node-id n1", Program::Agent, 2),
            ("persys-gateway -insecure", Program::Gateway, 1),
            ("persys gateway config", Program::Gateway, 1),
            ("persys dev down", Program::Dev, 1),
            ("persys doctor --json", Program::Doctor, 1),
            ("persys ca init", Program::Ca, 1),
            ("persys ca revoke agent/n1", Program::Commands("persys"), 3),
            ("persys join a:1 --token x", Program::Join, 3),
            ("persys probe http://127.0.0.1:1/health", Program::Probe, 1),
            ("persys run web", Program::Commands("persys"), 2),
            ("persys", Program::Commands("persys"), 0),
        ] {
            assert_eq!(chosen(line), (program, left), "{line}");
        }
    }
}
