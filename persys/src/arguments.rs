//! What was typed.

use std::path::PathBuf;

/// The exit code of a command that was not understood.
pub(crate) const USAGE: u8 = 64;

/// What the program can do so far.
pub(crate) const HELP: &str = "\
persys: containers, Compose stacks and virtual machines under one small scheduler

  persys dev [options]     scheduler and agent in one process, over mTLS, until Ctrl-C
      --state DIR          where everything is kept (default ./persys-dev)
      --runtime docker|sim what runs containers; sim runs nothing real (default docker)
      --port N             the scheduler's gRPC port (default 8085)
      --http N             the scheduler's port for /health and /metrics (default 8084)
      --agent-port N       the agent's gRPC port (default 50051)
  persys version
  persys help";

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arguments {
    Help,
    Version,
    Dev(DevOptions),
}

/// How `dev` is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DevOptions {
    pub(crate) state: PathBuf,
    pub(crate) sim: bool,
    pub(crate) port: u16,
    pub(crate) http: u16,
    pub(crate) agent_port: u16,
}

impl Default for DevOptions {
    fn default() -> Self {
        let state = PathBuf::from("persys-dev");
        Self { state, sim: false, port: 8085, http: 8084, agent_port: 50_051 }
    }
}

/// Understands the words after the program's name.
pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut words = words;
    match words.next().as_deref() {
        None | Some("help" | "--help" | "-h") => Ok(Arguments::Help),
        Some("version" | "--version" | "-V") => Ok(Arguments::Version),
        Some("dev") => parse_dev(words).map(Arguments::Dev),
        Some(other) => Err(format!("there is no command {other:?}")),
    }
}

fn parse_dev(mut words: impl Iterator<Item = String>) -> Result<DevOptions, String> {
    let mut options = DevOptions::default();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--state" => options.state = PathBuf::from(value?),
            "--port" => options.port = port(&word, &value?)?,
            "--http" => options.http = port(&word, &value?)?,
            "--agent-port" => options.agent_port = port(&word, &value?)?,
            "--runtime" => match value?.as_str() {
                "docker" => options.sim = false,
                "sim" => options.sim = true,
                other => return Err(format!("--runtime is docker or sim, not {other:?}")),
            },
            other => return Err(format!("dev has no option {other:?}")),
        }
    }
    Ok(options)
}

fn port(option: &str, value: &str) -> Result<u16, String> {
    let wrong = |why| format!("{option} takes a port from 0 to 65535, not {value:?}: {why}");
    value.parse().map_err(|why: std::num::ParseIntError| wrong(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> Result<Arguments, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn what_is_typed_is_understood_or_named() {
        assert_eq!(typed(""), Ok(Arguments::Help));
        assert_eq!(typed("version"), Ok(Arguments::Version));
        let dev = DevOptions { sim: true, port: 0, ..DevOptions::default() };
        assert_eq!(typed("dev --runtime sim --port 0"), Ok(Arguments::Dev(dev)));
        for (line, problem) in [
            ("devv", "devv"),
            ("dev --port", "--port needs a value"),
            ("dev --port 99999", "0 to 65535"),
            ("dev --runtime podman", "podman"),
            ("dev --what 1", "--what"),
        ] {
            assert!(typed(line).is_err_and(|text| text.contains(problem)), "{line}");
        }
    }
}
