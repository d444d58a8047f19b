//! A spec as it came in, before anything is believed of it.
//!
//! One draft serves both client shapes: the fields of `persys.control.v1` and those only
//! `persys.agent.v1` has stand side by side, under the names users know. The type can say
//! everything a client can say, contradictions included; [`super::check::check`] is the only way
//! on from here. An empty text, a zero and an empty list mean "not given", as on the wire.
//!
//! Printing a draft shows no values: nobody has yet looked at what is in them.

use std::collections::BTreeMap;

/// Keys and values as they came.
pub type Texts = BTreeMap<String, String>;

/// One request to change a workload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApplyDraft {
    /// Whose.
    pub workload_id: String,
    /// The client's name for this version; empty lets us derive one from the content.
    pub revision_id: String,
    /// `Running`, `Stopped`, `Deleted` and their short forms, any case; empty means running.
    pub desired_state: String,
    /// Absent when only the desired state is to change.
    pub spec: Option<Draft>,
}

/// A spec as a client wrote it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Draft {
    /// `container`, `compose` or `vm`; empty is inferred from the body.
    pub workload_type: String,
    /// What it asks to reserve.
    pub resources: ResourcesDraft,
    /// Exactly one of the three bodies must be there.
    pub container: Option<ContainerDraft>,
    /// Exactly one of the three bodies must be there.
    pub compose: Option<ComposeDraft>,
    /// Exactly one of the three bodies must be there.
    pub vm: Option<VmDraft>,
    /// Free words of the user.
    pub metadata: Texts,
    /// Rules for choosing a node.
    pub placement: PlacementDraft,
    /// Secrets it uses.
    pub secrets: Vec<SecretDraft>,
    /// Time a copy has to end by itself, such as `30s`; empty means the usual.
    pub stop_grace: String,
    /// Health checks.
    pub health: HealthDraft,
}

/// `HealthChecks`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HealthDraft {
    /// Whether it does its work.
    pub ready: Option<CheckDraft>,
}

/// `HealthCheck`: exactly one of `http`, `tcp` and `exec`, or `disable`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckDraft {
    /// A request.
    pub http: Option<HttpDraft>,
    /// A connection.
    pub tcp: Option<TcpDraft>,
    /// A command inside.
    pub exec: Vec<String>,
    /// Time between two checks, such as `5s`; empty means the usual.
    pub interval: String,
    /// Time a check may take.
    pub timeout: String,
    /// Time after a start in which failures do not count.
    pub start_period: String,
    /// Failures in a row that make it unhealthy; 0 means the usual.
    pub retries: i32,
    /// True to have no check, not even that of the image.
    pub disable: bool,
}

/// `HttpCheck`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpDraft {
    /// A port inside.
    pub port: i32,
    /// Path and query; empty means `/`.
    pub path: String,
}

/// `TcpCheck`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpDraft {
    /// A port inside.
    pub port: i32,
}

/// `SecretUse`: names only, no values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SecretDraft {
    /// Which secret.
    pub name: String,
    /// Seen as this variable; empty means as a file.
    pub env: String,
    /// Where the file is; empty means under its name in `/run/secrets`.
    pub path: String,
    /// Permissions of the file, in eights; empty means `0400`.
    pub mode: String,
    /// Its owner inside.
    pub uid: i64,
    /// Its group inside.
    pub gid: i64,
    /// Sent to the program when the value changes; empty means none.
    pub signal: String,
}

/// `ResourceRequirements`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourcesDraft {
    /// Thousandths of a core.
    pub cpu_millicores: i64,
    /// Memory, MiB.
    pub memory_mb: i64,
    /// Disk in the node's default pool, GiB.
    pub disk_gb: i64,
}

/// `ContainerSpec` of either package.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ContainerDraft {
    /// Image reference.
    pub image: String,
    /// In place of the image's `ENTRYPOINT`.
    pub entrypoint: Vec<String>,
    /// In place of the image's `CMD`, together with `args`.
    pub command: Vec<String>,
    /// Further words after the command.
    pub args: Vec<String>,
    /// Environment.
    pub env: Texts,
    /// Paths of the node seen inside.
    pub volumes: Vec<BindDraft>,
    /// Published ports.
    pub ports: Vec<PortDraft>,
    /// `no`, `always`, `on-failure`, `unless-stopped`.
    pub restart_policy: String,
    /// Most restarts in a row.
    pub max_retry_count: i32,
    /// All the powers of the host.
    pub privileged: bool,
    /// Labels on the container.
    pub labels: Texts,
    /// Hard limits.
    pub resources: LimitsDraft,
    /// Volumes we make.
    pub managed_volumes: Vec<VolumeDraft>,
}

/// `VolumeMount`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BindDraft {
    /// On the node.
    pub host_path: String,
    /// In the container.
    pub container_path: String,
    /// Whether it may only be read.
    pub read_only: bool,
}

/// `Port` or `PortMapping`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortDraft {
    /// On the node; 0 lets the runtime choose.
    pub host_port: i32,
    /// In the container.
    pub container_port: i32,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// Address of the node; empty is every address.
    pub host_ip: String,
}

/// `ResourceLimits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitsDraft {
    /// Weight of the container when CPU is short.
    pub cpu_shares: i64,
    /// Most memory.
    pub memory_bytes: i64,
    /// Most memory and swap together; -1 sets no limit on swap.
    pub memory_swap_bytes: i64,
    /// What is reserved of CPU is no limit.
    pub cpu_unlimited: bool,
    /// What is reserved of memory is no limit.
    pub memory_unlimited: bool,
}

/// `ManagedVolumeSpec`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumeDraft {
    /// Its name.
    pub name: String,
    /// `local`, `nfs`, `ceph-rbd`.
    pub driver: String,
    /// Its size, GiB.
    pub size_gb: i64,
    /// `ReadWriteOnce`, `ReadOnlyMany`, `ReadWriteMany` or their short forms.
    pub access_mode: String,
    /// File system.
    pub fs_type: String,
    /// Where it is seen.
    pub mount_path: String,
    /// Whether it may only be read.
    pub read_only: bool,
    /// `Delete` or `Retain`.
    pub retain_policy: String,
}

/// `ComposeSpec` of either package.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ComposeDraft {
    /// `git` or `inline`; empty is inferred.
    pub source_type: String,
    /// Address of the repository.
    pub git_repo: String,
    /// Branch, tag or commit.
    pub git_ref: String,
    /// Where in the repository the file is; empty takes the usual names.
    pub git_path: String,
    /// What was found there. Filled by whoever fetched it for us; no client can say it.
    pub fetched: Option<Fetched>,
    /// The file itself.
    pub inline_yaml: String,
    /// Project name.
    pub project_name: String,
    /// The file itself, plain or base64.
    pub compose_yaml: String,
    /// Variables for the file.
    pub env: Texts,
}

/// A file that was taken out of a repository.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Fetched {
    /// The commit, by its full name.
    pub commit: String,
    /// Where in the repository the file is.
    pub path: String,
    /// Its text, verbatim.
    pub file: String,
}

/// `VMSpec` of either package.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct VmDraft {
    /// Name the guest goes by.
    pub name: String,
    /// Virtual processors.
    pub vcpus: i32,
    /// Memory, MiB.
    pub memory_mb: i64,
    /// Disks.
    pub disks: Vec<DiskDraft>,
    /// Network cards.
    pub networks: Vec<NetworkDraft>,
    /// `user-data`, plain or base64.
    pub cloud_init: String,
    /// First-boot configuration in parts.
    pub cloud_init_config: CloudInitDraft,
    /// Base image: catalogue name or absolute path.
    pub os_image: String,
    /// Size of the root disk made from `os_image`, GiB.
    pub disk_gb: i64,
    /// `libvirt`.
    pub runtime: String,
    /// Volumes we make.
    pub managed_volumes: Vec<VolumeDraft>,
    /// Free words of the user.
    pub metadata: Texts,
}

/// `DiskConfig` of either package.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskDraft {
    /// Storage pool of the node.
    pub pool_name: String,
    /// Its size, GiB.
    pub size_gb: i64,
    /// Device name, by the name the control package has for it.
    pub mount_point: String,
    /// A file or network image of the user's.
    pub path: String,
    /// Device name, such as `vda`.
    pub device: String,
    /// `qcow2`, `raw`, `iso`.
    pub format: String,
    /// `disk` or `cdrom`.
    pub disk_type: String,
    /// Whether the guest may boot from it.
    pub boot: bool,
    /// The image this one only records changes to.
    pub backing_file: String,
    /// `local`, `nfs`, `ceph-rbd`.
    pub storage: String,
}

/// `NetworkConfig` of either package.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkDraft {
    /// A bridge of the node.
    pub bridge: String,
    /// Whether the address comes from the network.
    pub dhcp: bool,
    /// Fixed address, by the name the control package has for it.
    pub static_ip: String,
    /// A libvirt network.
    pub network: String,
    /// Hardware address.
    pub mac_address: String,
    /// Fixed address.
    pub ip_address: String,
    /// Kind of card.
    pub model: String,
    /// Device of another hypervisor; refused.
    pub host_dev_name: String,
}

/// `CloudInitConfig` of either package.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct CloudInitDraft {
    /// `user-data`.
    pub user_data: String,
    /// `meta-data`.
    pub meta_data: String,
    /// `network-config`.
    pub network_config: String,
    /// `vendor-data`.
    pub vendor_data: String,
    /// A user to be made on first boot.
    pub username: String,
    /// The key that may log in.
    pub ssh_public_key: String,
    /// A crypt hash.
    pub password: String,
}

/// Rules for choosing a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlacementDraft {
    /// Demands on the node's labels.
    pub constraints: Vec<ConstraintDraft>,
    /// Taints it puts up with.
    pub tolerations: Vec<TolerationDraft>,
    /// `spread` or `binpack`.
    pub strategy: String,
    /// `default` or `exclusive`.
    pub class: String,
    /// `auto`, `move` or `stay`.
    pub on_node_loss: String,
}

/// One demand on a node's labels.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConstraintDraft {
    /// Which label.
    pub key: String,
    /// `exists`, `absent`, `in`, `not-in`.
    pub operator: String,
    /// Values for `in` and `not-in`.
    pub values: Vec<String>,
}

/// One taint a workload puts up with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TolerationDraft {
    /// The taint's key.
    pub key: String,
    /// The taint's value.
    pub value: String,
    /// Whether every value will do.
    pub any_value: bool,
}

macro_rules! print_name_only {
    ($($name:ident)*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}

print_name_only!(Draft ContainerDraft ComposeDraft Fetched VmDraft CloudInitDraft);
