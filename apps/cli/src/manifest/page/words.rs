//! What there is to say about each field: what counts when it is not given, and what it may be.

use persys_model::id::{NamespaceName, RevisionId, SecretName, VolumeName, WorkloadId};
use persys_model::secret::{FOLDER, MOST_USES};
use persys_model::spec::check::limits as most;

/// One field.
pub(super) struct Field {
    pub(super) name: &'static str,
    /// What counts when it is not given.
    pub(super) default: String,
    /// What it is and may be.
    pub(super) help: String,
}

fn field(name: &'static str, default: &str, help: impl Into<String>) -> Field {
    Field { name, default: default.to_owned(), help: help.into() }
}

/// The fields of a message.
pub(super) fn words(message: &str) -> Vec<Field> {
    match message {
        "ApplyWorkloadRequest" => request(),
        "WorkloadSpec" => spec(),
        "ResourceRequirements" => resources(),
        "PlacementRules" => placement(),
        "Constraint" => constraint(),
        "Toleration" => toleration(),
        "SecretUse" => secret(),
        "ContainerSpec" => container(),
        "Port" => port(),
        "VolumeMount" => mount(),
        "ResourceLimits" => limits(),
        "ManagedVolumeSpec" => volume(),
        "ComposeSpec" => compose(),
        "VMSpec" => vm(),
        "DiskConfig" => disk(),
        "NetworkConfig" => network(),
        "CloudInitConfig" => cloud_init(),
        other => panic!("nothing is said about {other}; add its fields in page/words.rs"),
    }
}

fn kib(bytes: usize) -> String {
    format!("{} KiB", bytes / 1024)
}

fn request() -> Vec<Field> {
    let name = WorkloadId::LIMIT;
    let revision = RevisionId::LIMIT;
    vec![
        field(
            "workload_id",
            "must be given",
            format!(
                "The name of the workload; `name`, `id` and `workloadId` say the same. Small letters, digits, and inside also `-`, `_`, `.`; up to {name}. Applied again under the same name it is a new revision"
            ),
        ),
        field("spec", "nothing changes but the desired state", "What to run"),
        field(
            "revision_id",
            "made from the content",
            format!(
                "A name of your own for this version; up to {revision} characters. The same content under the same name changes nothing"
            ),
        ),
        field(
            "desired_state",
            "`Running`",
            "`Running`, `Stopped` or `Deleted`; `stop` and `delete` are understood too",
        ),
    ]
}

fn spec() -> Vec<Field> {
    let (entries, key) = (most::LABEL_ENTRIES, most::LABEL_KEY_BYTES);
    let (value, namespace) = (kib(most::LABEL_VALUE_BYTES), NamespaceName::LIMIT);
    vec![
        field(
            "type",
            "the body that is there",
            "`container`, `compose` or `vm`; must agree with the body",
        ),
        field("resources", "see there", "What its node keeps free for it"),
        field("container", "", "The body of a container; a spec has exactly one body"),
        field("compose", "", "The body of a Compose stack"),
        field("vm", "", "The body of a virtual machine"),
        field(
            "metadata",
            "none",
            format!(
                "Words of your own, handed through. Up to {entries}, keys of {key} bytes, values of {value}. `persys.io/namespace` says in which namespace it is (up to {namespace} characters); without it that is `default`"
            ),
        ),
        field(
            "placement",
            "any node that fits",
            "Which nodes may run it, and what happens when its node is lost",
        ),
        field(
            "secrets",
            "none",
            format!(
                "Secrets of its namespace that it sees; up to {MOST_USES}. A stack names its own in its file instead"
            ),
        ),
    ]
}

fn resources() -> Vec<Field> {
    let (cpu, memory) = (most::DEFAULT_CPU_MILLICORES, most::DEFAULT_MEMORY_MIB);
    let (most_cpu, most_memory) = (most::CPU_MILLICORES, most::MEMORY_MIB);
    let each = "a stack: the sum of its services, with that for each that says nothing; a VM: all its `vcpus`";
    vec![
        field(
            "cpu_millicores",
            &format!("{cpu}; {each}"),
            format!("Thousandths of a core; up to {most_cpu}"),
        ),
        field(
            "memory_mb",
            &format!(
                "{memory}, or the limit of the container; a stack likewise; a VM: its `memory_mb`"
            ),
            format!("MiB; up to {most_memory}. Must not be above the container's own limit"),
        ),
        field(
            "disk_gb",
            "0",
            format!(
                "GiB beside disks and volumes, which are counted by themselves; up to {}",
                most::DISK_GIB
            ),
        ),
    ]
}

fn placement() -> Vec<Field> {
    let rules = most::PLACEMENT_RULES;
    vec![
        field(
            "constraints",
            "none",
            format!(
                "Rules on labels of nodes; all must hold; up to {rules}. Rules that no node could meet together are refused"
            ),
        ),
        field("tolerations", "none", format!("Taints it puts up with; up to {rules}")),
        field(
            "strategy",
            "`spread`",
            "`spread` takes the emptiest node that fits, `binpack` the fullest",
        ),
        field(
            "class",
            "`default`",
            "`default` runs at least once: after a lost node it may exist twice for a moment. `exclusive` runs at most once: it starts elsewhere only when the old copy is proven to be stopped",
        ),
        field(
            "on_node_loss",
            "`auto`",
            "`auto` moves it if it keeps no data on the node; `move` moves it and leaves the data behind; `stay` waits for the node",
        ),
    ]
}

fn constraint() -> Vec<Field> {
    let (key, value) = (most::LABEL_KEY_BYTES, most::NODE_LABEL_VALUE_BYTES);
    vec![
        field("key", "must be given", format!("Name of the label; up to {key} bytes")),
        field("operator", "must be given", "`exists`, `absent`, `in` or `not-in`"),
        field(
            "values",
            "none",
            format!(
                "For `in` and `not-in`, and only for these; up to {}, each of {value} bytes",
                most::CONSTRAINT_VALUES
            ),
        ),
    ]
}

fn toleration() -> Vec<Field> {
    vec![
        field("key", "must be given", "Key of the taint"),
        field("value", "the empty value", "Value of the taint"),
        field("any_value", "`false`", "The key alone decides; then no `value` may be given"),
    ]
}

fn secret() -> Vec<Field> {
    vec![
        field(
            "name",
            "must be given",
            format!("Which, up to {} characters; `persys secret set` makes it", SecretName::LIMIT),
        ),
        field(
            "env",
            "a file",
            "Seen as this variable instead. Docker shows variables to who may inspect a container on the node: prefer files. Not in a VM",
        ),
        field("path", &format!("`{FOLDER}/` and its name"), "Where the file is, absolute"),
        field("mode", "`0400`", "Its permissions, in eights, in quotes"),
        field("uid", "0", "Its owner inside"),
        field("gid", "0", "Its group inside"),
    ]
}

fn container() -> Vec<Field> {
    let (words, word, total) =
        (most::COMMAND_WORDS, kib(most::COMMAND_WORD_BYTES), kib(most::COMMAND_TOTAL_BYTES));
    let (env, name) = (most::ENV_ENTRIES, most::ENV_NAME_BYTES);
    let (value, all) = (kib(most::ENV_VALUE_BYTES), kib(most::ENV_TOTAL_BYTES));
    vec![
        field(
            "image",
            "must be given",
            format!(
                "`[host[:port]/]path[:tag][@sha256:digest]`, up to {} bytes",
                most::IMAGE_BYTES
            ),
        ),
        field(
            "command",
            "the image's own",
            format!(
                "Program and words instead of those of the image; with `args` up to {words} words of {word}, {total} in all"
            ),
        ),
        field(
            "env",
            "none",
            format!(
                "Variables; values are texts, so numbers stand in quotes. Up to {env}, names of {name} bytes, values of {value}, {all} in all"
            ),
        ),
        field(
            "volumes",
            "none",
            format!(
                "Paths of the node seen inside; up to {}. The namespace must allow them",
                most::VOLUMES
            ),
        ),
        field(
            "ports",
            "none",
            format!(
                "Ports published on the node; up to {}. No two workloads get the same port of a node",
                most::PORTS
            ),
        ),
        field("restart_policy", "`no`", "`no`, `always`, `on-failure` or `unless-stopped`"),
        field("privileged", "`false`", "All powers of the node; the namespace must allow it"),
        field(
            "managed_volumes",
            "none",
            format!("Volumes that are made and kept for it; up to {}", most::VOLUMES),
        ),
        field("args", "the image's own", "Words behind `command`"),
        field(
            "labels",
            "none",
            format!(
                "Labels on the container; up to {}. Keys that begin with `persys.` are ours",
                most::LABEL_ENTRIES
            ),
        ),
        field("limits", "none but those of the node", "What it cannot go beyond"),
        field(
            "max_retry_count",
            "no limit",
            format!(
                "Most restarts in a row, under every policy that restarts; up to {}",
                most::MAX_RETRIES
            ),
        ),
    ]
}

fn port() -> Vec<Field> {
    vec![
        field("host_port", "any that is free", "Port of the node, 1 to 65535"),
        field("container_port", "must be given", "Port inside, 1 to 65535"),
        field("protocol", "`tcp`", "`tcp` or `udp`"),
    ]
}

fn mount() -> Vec<Field> {
    let path = most::PATH_BYTES;
    vec![
        field(
            "host_path",
            "must be given",
            format!("Path of the node: absolute, without `..`, `:` and `,`, up to {path} bytes"),
        ),
        field(
            "container_path",
            "must be given",
            "Where it is seen inside; anything but `/`, and nothing twice",
        ),
        field("read_only", "`false`", "May only be read"),
    ]
}

fn limits() -> Vec<Field> {
    let (least, most_shares) = most::CPU_SHARES;
    let mib = most::CONTAINER_MEMORY_MIN_BYTES / 1024 / 1024;
    vec![
        field(
            "cpu_shares",
            "the runtime's own",
            format!(
                "Weight where CPU is short, {least} to {most_shares}; it reserves as many thousandths where `resources` says nothing"
            ),
        ),
        field(
            "memory_bytes",
            "no limit",
            format!("Memory it cannot go beyond; at least {mib} MiB"),
        ),
        field(
            "memory_swap_bytes",
            "the runtime's own",
            "Memory and swap together; -1 is no limit on swap",
        ),
    ]
}

fn volume() -> Vec<Field> {
    vec![
        field(
            "name",
            "must be given",
            format!("One per driver in the cluster; up to {} characters", VolumeName::LIMIT),
        ),
        field(
            "driver",
            "`local`",
            "`local` (a folder of the node), `nfs` or `ceph-rbd`; the node must have it",
        ),
        field(
            "size_gb",
            "must be given, except for `nfs`",
            format!("GiB; up to {}. It may grow with a new revision", most::DISK_GIB),
        ),
        field(
            "access_mode",
            "`ReadWriteOnce`",
            "`ReadWriteOnce` (RWO), `ReadOnlyMany` (ROX: ceph-rbd, nfs) or `ReadWriteMany` (RWX: nfs)",
        ),
        field(
            "fs_type",
            "the driver's own",
            "`ext4`, `xfs` or `btrfs` on block devices; `nfs` or `nfs4`; nothing for a local volume of a container",
        ),
        field(
            "mount_path",
            "must be given; a VM may leave it out",
            "Where it is seen inside; a VM without it sees a bare disk",
        ),
        field("read_only", "`false`", "May only be read"),
        field(
            "retain_policy",
            "`Delete`",
            "`Delete`: the data goes when the workload is deleted. `Retain`: it stays. Neither is ever touched by an update, a move or an outage",
        ),
    ]
}

fn compose() -> Vec<Field> {
    let given = "Written by the scheduler: what it found in the file; not read from you";
    vec![
        field("source_type", "by what is given", "`inline` or `git`"),
        field(
            "git_repo",
            "",
            format!(
                "`https://host/path`, `ssh://user@host/path` or `user@host:path`, without a password; up to {} bytes. The settings of the scheduler say which are allowed",
                most::GIT_URL_BYTES
            ),
        ),
        field(
            "git_ref",
            "the default branch",
            "Branch, tag or commit; what runs is pinned to the commit that was found",
        ),
        field(
            "inline_yaml",
            "",
            format!("The Compose file itself; up to {}", kib(most::COMPOSE_BYTES)),
        ),
        field(
            "env",
            "none",
            "Variables for `${NAME}` in the file; the limits of a container's, without line breaks, and none that steer the Compose program",
        ),
        field(
            "project_name",
            "the workload's name",
            "Name of the project, for those who look at Docker",
        ),
        field("found_ports", "", given),
        field("found_volumes", "", given),
        field(
            "git_path",
            "`compose.yaml` and the other usual names",
            "Where in the repository the file is",
        ),
        field("git_commit", "", given),
        field("git_file", "", given),
    ]
}

fn vm() -> Vec<Field> {
    let (vcpus, memory) = (most::VCPUS, most::VM_MEMORY_MIN_MIB);
    vec![
        field("vcpus", "must be given", format!("Virtual processors, 1 to {vcpus}")),
        field("memory_mb", "must be given", format!("MiB; at least {memory}")),
        field(
            "disks",
            "one from `os_image`",
            format!("Disks; up to {}. Without `os_image` there must be one", most::DISKS),
        ),
        field("networks", "none", format!("Network cards; up to {}", most::NETWORKS)),
        field(
            "cloud_init",
            "none",
            "What happens on the first boot; without it nobody can log in to most images",
        ),
        field(
            "os_image",
            "none",
            "A name of the node's catalogue of images, or the absolute path of one; the root disk is made from it",
        ),
        field(
            "managed_volumes",
            "none",
            format!(
                "Volumes that are made and kept for it, seen as disks; up to {}",
                most::VOLUMES
            ),
        ),
        field(
            "name",
            "the workload's name",
            format!("Name of the guest; up to {} bytes", most::NAME_BYTES),
        ),
        field(
            "disk_gb",
            &most::DEFAULT_ROOT_GIB.to_string(),
            "GiB of the root disk that is made from `os_image`. Not given and with `disks` there: the first of them is it",
        ),
        field("metadata", "none", "Words of your own, with the limits of those of the spec"),
        field("runtime", "`libvirt`", "`libvirt`"),
    ]
}

fn disk() -> Vec<Field> {
    vec![
        field(
            "pool_name",
            "the first pool of the node",
            "Pool of the node that the disk is made in",
        ),
        field(
            "size_gb",
            &most::DEFAULT_DISK_GIB.to_string(),
            format!(
                "GiB of a disk that is made; up to {}. With `path`: made if it is not there",
                most::DISK_GIB
            ),
        ),
        field("mount_point", "", "An older word for `device`; `/` is the first disk"),
        field(
            "path",
            "a disk in a pool",
            "A disk of yours: `/path`, `rbd:pool/image`, `nfs://host/path` or `host:/path`. It is never deleted",
        ),
        field("device", "the next free one", "`vda`, `vdb`, `sda` and so on"),
        field("format", "`qcow2`; `raw` on Ceph", "`qcow2`, `raw`, or `iso` for a cdrom"),
        field("type", "`disk`", "`disk` or `cdrom`"),
        field("boot", "the first one", "It is booted from this"),
        field("backing_file", "none", "Absolute path of the image that a new qcow2 disk stands on"),
        field(
            "storage",
            "`local`",
            "`local`, `nfs` or `ceph-rbd`, for a disk that is made and without a pool",
        ),
    ]
}

fn network() -> Vec<Field> {
    vec![
        field(
            "bridge",
            "",
            format!(
                "A bridge of the node, up to {} bytes; one of `bridge` and `network`",
                most::INTERFACE_BYTES
            ),
        ),
        field("dhcp", "`true` without `static_ip`", "The network gives the address"),
        field("static_ip", "DHCP", "`address` or `address/prefix`"),
        field("network", "`default`", "A network of libvirt"),
        field("mac_address", "made from the workload's name", "Six pairs of hex digits"),
        field("model", "`virtio`", "`virtio`, `e1000`, `e1000e` or `rtl8139`"),
    ]
}

fn cloud_init() -> Vec<Field> {
    let all = format!("all four together up to {}", kib(most::CLOUD_INIT_BYTES));
    vec![
        field("user_data", "none", format!("As cloud-init reads it; {all}")),
        field("meta_data", "made for you", "The same"),
        field("network_config", "from `networks`", "The same"),
        field("vendor_data", "none", "The same"),
        field(
            "username",
            "the image's own",
            format!(
                "Who may log in; up to {} bytes; needs a key or a password. The three shorthands are instead of `user_data`",
                most::USERNAME_BYTES
            ),
        ),
        field("ssh_public_key", "none", "One line of a `.pub` file"),
        field(
            "password",
            "none",
            "A hash such as `openssl passwd -6` prints, never the password itself",
        ),
    ]
}
