//! One service of a stack as it will be run.
//!
//! What the specification allows to be written in several ways stands here in one.

use std::collections::{BTreeMap, BTreeSet};

use crate::signal::Signal;

/// One service.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Service {
    /// Its name, one per stack; also the host name others find it under.
    pub name: String,
    /// The image it runs.
    pub image: String,
    /// Replaces the image's entry point.
    pub entrypoint: Option<Vec<String>>,
    /// Replaces the image's command.
    pub command: Option<Vec<String>>,
    /// Its environment, variables filled in.
    pub environment: BTreeMap<String, String>,
    /// Published ports, ranges written out.
    pub ports: Vec<Port>,
    /// Ports it says it listens on.
    pub expose: Vec<String>,
    /// What it sees of volumes and of the node's files.
    pub mounts: Vec<Mount>,
    /// Where it is plugged in.
    pub network: Attachment,
    /// Other services under further names, `service` or `service:name`.
    pub links: Vec<String>,
    /// What must be before it starts.
    pub depends_on: BTreeMap<String, Condition>,
    /// When it is started again. Kept by the agent: what is emitted says `no`.
    pub restart: Restart,
    /// Whether it may end: exit 0 is then completion, not failure.
    pub one_shot: bool,
    /// How many containers it has.
    pub replicas: u32,
    /// What it may use, and what is set aside for it.
    pub limits: Limits,
    /// How its health is found out.
    pub healthcheck: Option<Health>,
    /// Labels besides ours.
    pub labels: BTreeMap<String, String>,
    /// Who and where it is: user, folder, host name.
    pub identity: Identity,
    /// How it is started and stopped.
    pub process: Process,
    /// What it may do to the node.
    pub powers: Powers,
    /// How it resolves names.
    pub names: Names,
    /// How its output is kept; set by us.
    pub logging: Option<Logging>,
}

/// A published port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// Address of the node it is published on; `None` is all of them.
    pub address: Option<std::net::IpAddr>,
    /// On the node; `None` lets Docker choose.
    pub host: Option<u16>,
    /// In the container.
    pub container: u16,
    /// Its transport.
    pub protocol: Protocol,
}

/// Transport of a published port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// The word of the specification.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// A port taken on the node itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// Its number, never 0.
    pub port: u16,
    /// Its transport.
    pub protocol: Protocol,
}

/// Something seen inside a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// What it is.
    pub source: MountSource,
    /// Where it is seen, absolute.
    pub target: String,
    /// Whether it may only be read.
    pub read_only: bool,
}

/// What a mount shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountSource {
    /// A named volume of the stack.
    Volume {
        /// Its name in the file.
        name: String,
        /// Whether the image's own content is left out of a new volume.
        nocopy: bool,
    },
    /// A volume without a name, which goes with its container.
    Anonymous,
    /// A path of the node.
    Bind {
        /// Absolute.
        path: String,
        /// Whether a folder is made where there is none.
        create: bool,
        /// Its mark for `SELinux`: `z` shared, `Z` private.
        relabel: Option<char>,
    },
    /// A secret of the cluster.
    Secret(SecretFile),
    /// Memory.
    Tmpfs {
        /// Its options, as `mount` takes them.
        options: BTreeMap<String, String>,
    },
}

/// A secret as a service sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFile {
    /// The cluster's name for it.
    pub name: String,
    /// Its permissions.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Sent to the service when the value changes while it runs.
    pub signal: Option<Signal>,
}

impl Default for SecretFile {
    fn default() -> Self {
        Self { name: String::new(), mode: 0o400, uid: 0, gid: 0, signal: None }
    }
}

/// The name of the file that holds a secret for those who see it in this way.
#[must_use]
pub fn secret_file(name: &str, mode: u32, uid: u32, gid: u32) -> String {
    if (mode, uid, gid) == (0o400, 0, 0) {
        return name.to_owned();
    }
    format!("{name}.{mode:04o}.{uid}.{gid}")
}

/// Where a service is plugged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attachment {
    /// Networks of the stack, by name.
    Networks(BTreeMap<String, Endpoint>),
    /// No network at all.
    None,
    /// Docker's own bridge, where nobody has a name.
    Bridge,
    /// The node's own network.
    Host,
    /// The network of another service.
    Service(String),
}

impl Default for Attachment {
    fn default() -> Self {
        Self::Networks(BTreeMap::new())
    }
}

/// One plug in a network.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Endpoint {
    /// Further names in that network.
    pub aliases: BTreeSet<String>,
    /// A fixed address.
    pub ipv4: Option<std::net::Ipv4Addr>,
    /// A fixed address.
    pub ipv6: Option<std::net::Ipv6Addr>,
}

/// What must be true of another service first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// It was started.
    Started,
    /// Its health check passed.
    Healthy,
    /// It ended well.
    Completed,
}

impl Condition {
    /// The word of the specification.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Started => "service_started",
            Self::Healthy => "service_healthy",
            Self::Completed => "service_completed_successfully",
        }
    }
}

/// When a service is started again after it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Restart {
    /// Never.
    #[default]
    No,
    /// Whenever it ends, at most so often in a row (0 = no limit).
    Always {
        /// Most restarts in a row; 0 sets no limit.
        max_retries: u32,
    },
    /// Only when it ends badly, at most so often in a row (0 = no limit).
    OnFailure {
        /// Most restarts in a row; 0 sets no limit.
        max_retries: u32,
    },
    /// Like `Always`; a stop by the user already outlives a restart of the node here.
    UnlessStopped,
}

/// Amounts of one container of a service; `None` where the file says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Most CPU, in thousandths of a core.
    pub cpu_millicores: Option<u64>,
    /// Most memory.
    pub memory_bytes: Option<u64>,
    /// Most processes.
    pub pids: Option<u64>,
    /// CPU set aside, in thousandths of a core.
    pub reserved_cpu_millicores: Option<u64>,
    /// Memory set aside.
    pub reserved_memory_bytes: Option<u64>,
    /// Most memory and swap together; -1 sets no limit.
    pub swap_bytes: Option<i64>,
    /// Weight when CPU is short.
    pub cpu_shares: Option<u64>,
    /// Shared memory.
    pub shm_bytes: Option<u64>,
}

/// How health is found out.
#[derive(Clone, PartialEq, Eq)]
pub enum Health {
    /// Not at all, even if the image says how.
    Disabled,
    /// By a command.
    Check {
        /// `CMD` or `CMD-SHELL` and its words; `None` takes the image's.
        test: Option<Vec<String>>,
        /// Milliseconds between two checks.
        interval_ms: Option<u64>,
        /// Milliseconds one may take.
        timeout_ms: Option<u64>,
        /// Failures in a row until it is unhealthy.
        retries: Option<u32>,
        /// Milliseconds in which failures do not count.
        start_period_ms: Option<u64>,
    },
}

/// Who and where a service is.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// User and group inside.
    pub user: Option<String>,
    /// Further groups.
    pub groups: BTreeSet<String>,
    /// Folder it starts in.
    pub working_dir: Option<String>,
    /// Its own name for itself.
    pub hostname: Option<String>,
    /// The domain of that name.
    pub domainname: Option<String>,
    /// `os/architecture` of its image.
    pub platform: Option<String>,
}

/// How a service is started and stopped.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Process {
    /// Whether a small init reaps its processes.
    pub init: Option<bool>,
    /// Whether it has a terminal.
    pub tty: bool,
    /// Whether its input stays open.
    pub stdin_open: bool,
    /// Whether its own files cannot be changed.
    pub read_only: bool,
    /// The signal that asks it to end.
    pub stop_signal: Option<String>,
    /// Milliseconds until it is killed, in whole seconds.
    pub stop_grace_ms: Option<u64>,
    /// Limits of its processes, soft and hard; -1 sets none.
    pub ulimits: BTreeMap<String, (i64, i64)>,
    /// Settings of its own kernel namespaces.
    pub sysctls: BTreeMap<String, String>,
    /// How soon the kernel kills it when memory is short, 0 to 1000.
    pub oom_score_adj: Option<u16>,
}

/// What a service may do beyond its own container. Judged by [`crate::policy`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Powers {
    /// All the powers of the node.
    pub privileged: bool,
    /// Capabilities it has besides Docker's usual ones.
    pub cap_add: BTreeSet<String>,
    /// Capabilities it does without.
    pub cap_drop: BTreeSet<String>,
    /// Options such as `no-new-privileges:true`.
    pub security_opt: BTreeSet<String>,
    /// Devices of the node, `host:container:permissions`.
    pub devices: BTreeSet<String>,
    /// Whose processes it sees.
    pub pid: Option<Namespace>,
    /// Whose shared memory it sees.
    pub ipc: Option<Namespace>,
    /// Whether it is root on the node where users are mapped.
    pub host_users: bool,
}

/// Whose kernel namespace a service is in, if not its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Namespace {
    /// The node's.
    Host,
    /// Another service's.
    Service(String),
    /// Its own, which others may join.
    Shareable,
    /// Its own.
    Private,
}

/// How a service resolves names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    /// Names of its own, with their addresses or `host-gateway`.
    pub extra_hosts: BTreeMap<String, BTreeSet<String>>,
    /// Servers.
    pub dns: Vec<std::net::IpAddr>,
    /// Domains that are tried.
    pub search: Vec<String>,
    /// Options of the resolver.
    pub options: Vec<String>,
}

/// How output is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logging {
    /// Size of one file, MiB.
    pub file_mib: u32,
    /// Number of files.
    pub files: u32,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.image)
    }
}

macro_rules! print_name_only {
    ($($name:ident),+) => {
        $(impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), " { .. }"))
            }
        })+
    };
}

print_name_only!(Health, Identity, Process);
