//! What can be set about Docker, with values that suit most nodes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use persys_model::spec::secret::Secret;

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The daemon: `unix://…` or `tcp://…`.
    pub host: String,
    /// What stands before the workload's id in a container's name. Two agents that share a daemon
    /// need two prefixes to hold a copy of the same workload each.
    pub name_prefix: String,
    /// Most processes and threads of one container: a fork bomb ends with its container.
    pub pids_limit: i64,
    /// Largest log file of a container, in MiB.
    pub log_file_mib: u32,
    /// Most log files of a container.
    pub log_files: u32,
    /// When an image is fetched.
    pub pull: PullPolicy,
    /// Who we are to private registries, by host (`registry.example:5000`; Docker Hub is
    /// `docker.io`).
    pub registries: BTreeMap<String, Credentials>,
    /// A file with more of them, as `docker login` writes it; it is read before every pull.
    pub logins: Option<PathBuf>,
    /// Folder that remembers containers taken over from an earlier installation; without one none
    /// is taken over.
    pub adopted: Option<PathBuf>,
    /// How long we wait.
    pub deadlines: Deadlines,
}

/// When an image is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PullPolicy {
    /// When the node has none by that name.
    #[default]
    IfMissing,
    /// Before every start.
    Always,
}

/// Who we are to a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// User name.
    pub username: String,
    /// Password or token.
    pub password: Secret,
}

/// How long each call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Questions: inspect, list, health.
    pub ask: Duration,
    /// Making, starting, removing; and what a stop may take beyond its grace.
    pub act: Duration,
    /// A pull that makes no progress for so long has failed.
    pub pull_idle: Duration,
    /// A pull as a whole.
    pub pull: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            ask: Duration::from_secs(10),
            act: Duration::from_mins(1),
            pull_idle: Duration::from_mins(2),
            pull: Duration::from_mins(30),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            host: "unix:///var/run/docker.sock".to_owned(),
            name_prefix: "persys-".to_owned(),
            pids_limit: 4096,
            log_file_mib: 10,
            log_files: 3,
            pull: PullPolicy::default(),
            registries: BTreeMap::new(),
            logins: None,
            adopted: None,
            deadlines: Deadlines::default(),
        }
    }
}
