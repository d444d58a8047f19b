//! `persys dev`: everything in one process, over mTLS from the first minute.

mod background;
mod certificates;
mod down;
mod folder;
mod options;
mod own_context;
mod serve;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory as _;
use persys_agent::app as agent;
use persys_gateway::app as gateway;
use persys_identity::authority::AuthorityError;
use persys_identity::names::IdentityError;
use persys_identity::{ClusterName, FileError, Name};
use persys_scheduler::app as scheduler;

use self::options::{Action, Options};
use crate::tell;

/// The node of a development process.
const NODE: &str = "dev";

/// Why it does not run, or does not end.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The folder belongs to somebody else.
    #[error("{} holds something else; name an empty folder with --state", path.display())]
    Foreign {
        /// Which.
        path: PathBuf,
    },
    /// Another process runs on the folder.
    #[error("it runs already, as process {pid}; `persys dev down --state {}` ends it", path.display())]
    Running {
        /// Which process.
        pid: u32,
        /// Which folder.
        path: PathBuf,
    },
    /// There is nothing to end.
    #[error("nothing is kept in {}; was another --state meant?", path.display())]
    Nothing {
        /// Where.
        path: PathBuf,
    },
    /// It does not end.
    #[error("the process that holds {} does not end; end it and try again", path.display())]
    Stuck {
        /// What it holds.
        path: PathBuf,
    },
    /// What runs on Docker cannot be removed.
    #[error("the containers cannot be removed, so {} stays; try again with Docker", path.display())]
    Containers {
        /// What stays.
        path: PathBuf,
        /// Why.
        source: persys_runtime::Error,
    },
    /// In the background it ended at once.
    #[error("it ended at once; its log {} ends with:\n{tail}", log.display())]
    Ended {
        /// Its log.
        log: PathBuf,
        /// The end of it.
        tail: String,
    },
    /// The system does not let us.
    #[error("{what}")]
    System {
        /// What we wanted.
        what: String,
        /// What it said.
        source: std::io::Error,
    },
    #[error("certificates cannot be made")]
    Name(#[from] IdentityError),
    #[error("certificates cannot be made")]
    Authority(#[from] AuthorityError),
    #[error("certificates cannot be kept")]
    File(#[from] FileError),
    #[error("commands cannot be told where it is")]
    Context(#[from] persys_cli::context::ContextError),
    #[error("certificates cannot be listed")]
    Office(#[from] persys_ca::office::OfficeError),
    #[error(transparent)]
    Enrol(#[from] crate::enrol::Error),
    #[error("the scheduler does not start")]
    Scheduler(#[from] scheduler::Error),
    #[error("the dashboard's user cannot be named")]
    User(#[from] persys_model::id::NameError),
    #[error("the gateway does not start")]
    Gateway(#[from] gateway::Error),
    #[error("nobody can be let in by a link")]
    Link(#[from] gateway::NoSession),
    #[error("the agent does not start")]
    Agent(#[from] agent::Error),
}

fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
    let what = what.into();
    move |source| Error::System { what, source }
}

/// What can be typed after `persys dev`.
pub(crate) fn command() -> clap::Command {
    Options::command().name("dev")
}

/// Does what was typed after `persys dev`.
pub(crate) async fn run(words: Vec<OsString>) -> ExitCode {
    let options: Options = match tell::typed("persys dev", words) {
        Ok(options) => options,
        Err(code) => return code,
    };
    let done = match options.action {
        Some(Action::Down) => down::run(&options).await,
        None if options.background => background::run(&options).await,
        None => serve::run(&options).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("persys dev: {}", tell::chain(&error));
            if let Some(hint) = hint(&error) {
                eprintln!("{hint}");
            }
            ExitCode::FAILURE
        }
    }
}

/// What to try next, where the error itself does not say.
fn hint(error: &Error) -> Option<&'static str> {
    match error {
        Error::Scheduler(scheduler::Error::Listen { .. }) => {
            Some("other ports: `persys dev --port 9085 --http 9084`")
        }
        Error::Agent(agent::Error::System { .. }) => {
            Some("another port: `persys dev --agent-port 50052`")
        }
        Error::System { .. } => Some("another folder: `persys dev --state FOLDER`"),
        Error::Foreign { .. }
        | Error::Running { .. }
        | Error::Nothing { .. }
        | Error::Stuck { .. }
        | Error::Containers { .. }
        | Error::Ended { .. }
        | Error::Name(_)
        | Error::Authority(_)
        | Error::File(_)
        | Error::Context(_)
        | Error::Office(_)
        | Error::Enrol(_)
        | Error::Gateway(_)
        | Error::User(_)
        | Error::Link(_)
        | Error::Scheduler(_)
        | Error::Agent(_) => None,
    }
}

/// The name a new development cluster gets: unique, so that two of them on one Docker never take
/// each other's containers for their own.
fn new_cluster() -> Result<ClusterName, Error> {
    let id = persys_agent::host::random_id().map_err(system("/dev/urandom"))?;
    Ok(ClusterName::new(&format!("dev-{}", id.get(..8).unwrap_or("0")))?)
}

/// The Docker the `docker` command would talk to.
fn docker_host() -> Option<String> {
    std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty())
}

/// Where the person who types keeps things.
fn home() -> PathBuf {
    let variable = |name: &str| std::env::var(name).ok();
    persys_cli::context::home(variable("PERSYS_HOME").as_deref(), variable("HOME").as_deref())
}

fn name(text: &str) -> Result<Name, Error> {
    Ok(Name::new(text)?)
}
