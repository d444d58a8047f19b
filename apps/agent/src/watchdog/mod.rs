//! The watchdog: a process of its own that stops exclusive work when the agent cannot.
//!
//! ```text
//!   agent ── lease ──────────────► watchdog ── stop ──► runtime
//!     ▲ ◄─── pulse ─── fence ────────┘
//!     └── starts it, and starts it again ([`supervise`])
//! ```
//!
//! It lives in a session of its own, so that what ends the agent does not end it. Past the deadline
//! it stops, again and again, all that runs with the label of exclusive work of this cluster and
//! node, and nothing else.
//!
//! | the lease file | what it does |
//! |---|---|
//! | grants until a moment of this boot | waits for that moment |
//! | is not there, or is from an earlier boot | nobody granted anything: stops exclusive work |
//! | cannot be read, is garbage | keeps to the last moment it knew; if it never knew one: stops |
//!
//! A watchdog whose agent is gone ends once the lease is over and nothing exclusive runs, or once
//! the next agent has one of its own. While a runtime does not answer, something exclusive may run,
//! unless nothing of the kind was ever ordered here (`ledger/exclusive.rs`). An agent that is told to stop, and was to run nothing exclusive,
//! lets it go: then it ends as soon as it has seen that nothing of the kind runs. Under systemd the
//! agent's unit needs `KillMode=process`, or the watchdog ends with it.
//!
//! - [`guard`]: the loop; [`pulse`]: how it proves that it is alive; [`supervise`]: the agent's side;
//!   [`release`]: how the agent lets it go.

mod guard;
mod pulse;
pub(crate) mod release;
pub(crate) mod supervise;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use persys_model::id::NodeId;
use persys_runtime::compose::Compose;
use persys_runtime::compose::settings::Settings as ComposeSettings;
use persys_runtime::docker::Docker;
use persys_runtime::docker::settings::Settings;
use persys_runtime::vm::Machines;
use persys_runtime::vm::settings::Settings as MachineSettings;
use persys_runtime::{Clock, Owner};
use rustix::process::{Pid, Signal, getppid, kill_process, setsid};

use crate::ledger::lease;

use guard::{Agent, Guard, Guarded, Several};

/// How long the runtime may take to answer a watchdog.
const ASK: Duration = Duration::from_secs(3);
/// The last process the kernel ends when memory runs out, short of never.
const OOM_SCORE: &str = "-900";

/// Everything a watchdog is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where the agent keeps its lease.
    pub state_dir: PathBuf,
    /// The cluster whose exclusive work it stops.
    pub cluster: String,
    /// The node.
    pub node: NodeId,
    /// Docker's address; the usual one when not given.
    pub docker: Option<String>,
    /// Where libvirt is and where the folders of machines are; none: there are no machines.
    pub machines: Option<(PathBuf, PathBuf)>,
    /// The agent that started it.
    pub agent: Option<u32>,
}

/// Why a watchdog does not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadOptions {
    /// An option that does not exist.
    #[error("{0:?} is no option of the watchdog")]
    Unknown(String),
    /// An option without its value, or with one that does not fit.
    #[error("{0} needs a value that fits")]
    Value(&'static str),
}

impl Options {
    /// The options as they stand on a command line; [`Options::parse`] reads them.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let mut all = vec![
            "--state".to_owned(),
            self.state_dir.display().to_string(),
            "--cluster".to_owned(),
            self.cluster.clone(),
            "--node".to_owned(),
            self.node.to_string(),
        ];
        if let Some(docker) = &self.docker {
            all.extend(["--docker".to_owned(), docker.clone()]);
        }
        if let Some((socket, home)) = &self.machines {
            let words = ["--libvirt", &socket.display().to_string(), "--machines"];
            all.extend(words.map(str::to_owned));
            all.push(home.display().to_string());
        }
        if let Some(agent) = self.agent {
            all.extend(["--agent".to_owned(), agent.to_string()]);
        }
        all
    }

    /// Reads what [`Options::arguments`] wrote.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, BadOptions> {
        let (mut state, mut cluster, mut node) = (None, None, None);
        let (mut docker, mut agent) = (None, None);
        let (mut libvirt, mut machines) = (None, None);
        let mut arguments = arguments.into_iter();
        while let Some(option) = arguments.next() {
            let value = arguments.next();
            match option.as_str() {
                "--state" => state = value,
                "--cluster" => cluster = value,
                "--node" => node = value.and_then(|value| NodeId::new(&value).ok()),
                "--docker" => docker = Some(value.ok_or(BadOptions::Value("--docker"))?),
                "--libvirt" => libvirt = value.map(PathBuf::from),
                "--machines" => machines = value.map(PathBuf::from),
                "--agent" => {
                    let id = value.and_then(|value| value.parse().ok());
                    agent = Some(id.ok_or(BadOptions::Value("--agent"))?);
                }
                _ => return Err(BadOptions::Unknown(option)),
            }
        }
        Ok(Self {
            state_dir: PathBuf::from(state.ok_or(BadOptions::Value("--state"))?),
            cluster: cluster.ok_or(BadOptions::Value("--cluster"))?,
            node: node.ok_or(BadOptions::Value("--node"))?,
            docker,
            machines: libvirt.zip(machines),
            agent,
        })
    }
}

/// Runs the watchdog in this process until it is no longer needed. The process should do nothing
/// else: it leaves the session it was started in.
pub async fn run(options: Options) {
    // Fails only for the leader of a group, which has left already.
    if let Err(error) = setsid() {
        tracing::debug!(%error, "no session of its own");
    }
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE) {
        tracing::debug!(%error, "the kernel may end it like any other");
    }
    let mut settings = Settings::default();
    settings.deadlines.ask = ASK;
    if let Some(host) = options.docker {
        settings.host = host;
    }
    let clock = Clock::since_boot();
    let owner = Owner { cluster: Arc::from(options.cluster), node: options.node };
    let docker = Docker::new(owner.clone(), settings, clock.clone());
    // Stacks are known by their containers; what the agent remembers of them is the agent's alone.
    let stacks = ComposeSettings::in_folder(PathBuf::from("/nonexistent"));
    let compose = Compose::new(docker.clone(), stacks);
    let mut guarded: Vec<Arc<dyn Guarded>> = vec![Arc::new(docker), Arc::new(compose)];
    if let Some((socket, home)) = options.machines {
        let mut settings = MachineSettings::default();
        settings.libvirt.sockets = vec![socket];
        settings.libvirt.ask = ASK;
        settings.storage.home = home;
        guarded.push(Arc::new(Machines::new(owner, settings, clock.clone())));
    }
    let (started_by, dir, boot) = (options.agent, options.state_dir.clone(), lease::boot_id());
    let of = boot.clone();
    let agent = move || match started_by {
        Some(agent) if release::is_released(&dir, &of, agent) => Agent::Released,
        Some(agent) if parent() == Some(agent) => Agent::Lives,
        // Whoever is left behind is given to another parent.
        Some(_) | None => Agent::Gone,
    };
    tracing::info!(state = %options.state_dir.display(), "the watchdog is awake");
    Guard::new(options.state_dir, boot, clock, Arc::new(Several(guarded)), agent).run().await;
    tracing::info!("nothing is left to guard");
}

/// Ends the watchdog of an agent that is gone for good: its node's exclusive work was removed.
pub fn end(state_dir: &Path) {
    let Some(pulse) = pulse::Pulse::read(state_dir) else { return };
    // The number may have gone to another process since.
    let line = std::fs::read(format!("/proc/{}/cmdline", pulse.pid)).unwrap_or_default();
    let dir = state_dir.display().to_string();
    let same = line.split(|byte| *byte == 0).any(|word| word == dir.as_bytes());
    let process = i32::try_from(pulse.pid).ok().and_then(Pid::from_raw);
    if let Some(process) = process.filter(|_| same && pulse.pid > 1) {
        // One that ended by itself meanwhile is what was wanted.
        kill_process(process, Signal::TERM).ok();
    }
}

fn parent() -> Option<u32> {
    u32::try_from(Pid::as_raw(getppid())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_on_a_command_line_is_read() {
        let options = Options {
            state_dir: PathBuf::from("/var/lib/x y"),
            cluster: "c1".to_owned(),
            node: NodeId::fixed("n1"),
            docker: Some("unix:///run/d.sock".to_owned()),
            machines: Some((PathBuf::from("/run/l.sock"), PathBuf::from("/var/machines"))),
            agent: Some(7),
        };
        assert_eq!(Options::parse(options.arguments()), Ok(options.clone()));
        let bare = Options { docker: None, machines: None, agent: None, ..options };
        assert_eq!(Options::parse(bare.arguments()), Ok(bare));
        let parse = |words: &[&str]| Options::parse(words.iter().map(ToString::to_string));
        assert_eq!(parse(&["--what"]), Err(BadOptions::Unknown("--what".to_owned())));
        assert_eq!(parse(&["--state", "/x"]), Err(BadOptions::Value("--cluster")));
        assert_eq!(parse(&["--agent", "x"]), Err(BadOptions::Value("--agent")));
    }
}
