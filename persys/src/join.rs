//! `persys join`: one line, and this machine is a node.
//!
//! Everything is checked first, then the certificate is fetched, then it is written in one file, then
//! the settings, then the agent starts. A step that fails leaves what was there before.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use persys_ca::{JoinError, Joined, client};
use persys_identity::certificate::shown;
use persys_identity::token::BadToken;
use persys_identity::{FileError, Source, Token};

use crate::settings::agent::TABLE;
use crate::tell;

/// The port of schedulers, where the authority names none.
const SCHEDULER_PORT: u16 = 8085;

/// Makes this machine a node of a cluster, with the line that `persys token create` printed.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "persys join",
    after_help = "As a service: join with --no-start, then run `persys agent --config FILE` under your supervisor."
)]
struct Options {
    /// Where members join, host:port
    address: String,
    /// The token
    #[arg(long, env = "PERSYS_JOIN_TOKEN", hide_env_values = true)]
    token: String,
    /// The name of the node [default: that of the host]
    #[arg(long)]
    node: Option<String>,
    /// Where certificate, settings and state are kept
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/persys/agent")]
    state: PathBuf,
    /// Replace what was joined before
    #[arg(long)]
    force: bool,
    /// Write certificate and settings, and do not start the agent
    #[arg(long)]
    no_start: bool,
    /// Further settings of the agent, as its flags: -- --runtime sim
    #[arg(last = true)]
    settings: Vec<String>,
}

/// Why it did not join.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Token(#[from] BadToken),
    #[error("{} is there already: this machine has joined; --force joins anew", .0.display())]
    Member(PathBuf),
    #[error("{0}")]
    Setting(String),
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{what}")]
    System { what: String, source: std::io::Error },
}

/// What can be typed after `persys join`.
pub(crate) fn command() -> clap::Command {
    Options::command().name("join")
}

/// Joins, and runs the agent.
pub(crate) async fn run(words: Vec<OsString>) -> ExitCode {
    let options: Options = match tell::typed("persys join", words) {
        Ok(options) => options,
        Err(code) => return code,
    };
    match join(&options).await {
        Ok(file) if options.no_start => {
            println!("start it with: persys agent --config {}", file.display());
            ExitCode::SUCCESS
        }
        Ok(file) => crate::component::agent(vec!["--config".into(), file.into()]).await,
        Err(error) => {
            eprintln!("persys join: {}", tell::chain(&error));
            eprintln!(
                "next: persys token create      (where the cluster is; it prints the whole line)"
            );
            ExitCode::FAILURE
        }
    }
}

/// Gets the certificate and writes everything down; says where the settings are.
async fn join(options: &Options) -> Result<PathBuf, Error> {
    let token = Token::parse(&options.token)?;
    let identity = options.state.join("identity.pem");
    let file = options.state.join("agent.yaml");
    if identity.exists() && !options.force {
        return Err(Error::Member(identity));
    }
    let further = further(&options.settings)?;
    let node = persys_agent::host::node_id(options.node.as_deref());
    make_private(&options.state)?;
    let Joined { issued, schedulers } =
        client::join(&options.address, &token, node.as_str()).await?;
    let member = &issued.certificate.identity;
    let mut text = String::from("# Written by `persys join`.\n");
    let own = [
        ("node_id", member.name.to_string()),
        ("cluster", member.cluster.to_string()),
        ("identity", identity.display().to_string()),
        ("enrol_addr", options.address.clone()),
        ("scheduler_addr", schedulers_or(&schedulers, &options.address)),
        ("state_path", options.state.join("state").display().to_string()),
    ];
    let own = own.into_iter().map(|(key, value)| (key.to_owned(), value));
    for (key, value) in own.chain(further) {
        let value = serde_json::Value::String(value);
        // Writing to a text does not fail.
        writeln!(text, "{key}: {value}").ok();
    }
    Source::Bundle(identity).save(&issued)?;
    let draft = options.state.join("agent.yaml.new");
    let written = fs::write(&draft, text).and_then(|()| fs::rename(&draft, &file));
    written.map_err(|source| Error::System { what: file.display().to_string(), source })?;
    let until = shown(issued.certificate.not_after);
    println!("this machine is {member}; its certificate is good until {until} and renews itself");
    Ok(file)
}

fn make_private(folder: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|source| Error::System {
        what: format!("{} cannot be made", folder.display()),
        source,
    })
}

/// Where the schedulers are: as the authority says, or beside it.
fn schedulers_or(schedulers: &[String], address: &str) -> String {
    if !schedulers.is_empty() {
        return schedulers.join(",");
    }
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    format!("{host}:{SCHEDULER_PORT}")
}

/// Flags of the agent as lines of its file.
fn further(words: &[String]) -> Result<Vec<(String, String)>, Error> {
    let mut lines = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let bad = |why: &str| Error::Setting(format!("{word}: {why}"));
        let flag = word.strip_prefix("--").ok_or_else(|| bad("is no flag"))?;
        let (key, value) = match flag.split_once('=') {
            Some((key, value)) => (key, value.to_owned()),
            None => (flag, words.next().ok_or_else(|| bad("needs a value"))?.clone()),
        };
        if !TABLE.iter().any(|setting| setting.key == key) {
            return Err(bad("there is no such setting; see `persys agent --help`"));
        }
        lines.push((key.replace('-', "_"), value));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn further_settings_are_those_of_the_agent() {
        let lines = further(&words("--runtime sim --grpc-port=0")).unwrap();
        let wanted = [("runtime", "sim"), ("grpc_port", "0")];
        assert_eq!(lines, wanted.map(|(key, value)| (key.to_owned(), value.to_owned())));
        for bad in ["--runtime", "runtime sim", "--what 1"] {
            assert!(further(&words(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn schedulers_are_as_told_or_beside_the_authority() {
        assert_eq!(schedulers_or(&["a:1".into(), "b:2".into()], "x:9"), "a:1,b:2");
        assert_eq!(schedulers_or(&[], "10.0.0.1:8086"), "10.0.0.1:8085");
        assert_eq!(schedulers_or(&[], "[::1]:8086"), "[::1]:8085");
    }
}
