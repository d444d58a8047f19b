//! The fields of containers, and of volumes.

use persys_model::id::VolumeName;
use persys_model::spec::check::limits as most;

use super::{Field, field, kib};

pub(super) fn container() -> Vec<Field> {
    let (words, word, total) =
        (most::COMMAND_WORDS, kib(most::COMMAND_WORD_BYTES), kib(most::COMMAND_TOTAL_BYTES));
    let (env, name) = (most::ENV_ENTRIES, most::ENV_NAME_BYTES);
    let (value, all) = (kib(most::ENV_VALUE_BYTES), kib(most::ENV_TOTAL_BYTES));
    let mut fields = vec![
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
                "Words in place of the image's `CMD`; its `ENTRYPOINT` stays and is given them. With `args` and `entrypoint` up to {words} words of {word}, {total} in all"
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
        field(
            "restart_policy",
            "`no`",
            "`no`, `always`, `on-failure` or `unless-stopped`: whether its program is started again \
             after it ended",
        ),
        field("privileged", "`false`", "All powers of the node; the namespace must allow it"),
        field(
            "managed_volumes",
            "none",
            format!("Volumes that are made and kept for it; up to {}", most::VOLUMES),
        ),
        field("args", "the image's own", "Further words after `command`"),
    ];
    fields.extend(of_ours());
    fields
}

/// Fields that the contract does not have.
fn of_ours() -> Vec<Field> {
    vec![
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
                "Most restarts: with `on-failure` all of them, with `always` and `unless-stopped` \
                 those in a row (60 s of running begin a new row); up to {}",
                most::MAX_RETRIES
            ),
        ),
        field(
            "entrypoint",
            "the image's own",
            "Program and first words in place of the image's `ENTRYPOINT`; the image's `CMD` is not \
             used then unless `command` or `args` repeat it",
        ),
        field("command_is_cmd", "", "Set by the scheduler; not read from a file"),
    ]
}

pub(super) fn port() -> Vec<Field> {
    vec![
        field("host_port", "any that is free", "Port of the node, 1 to 65535"),
        field("container_port", "must be given", "Port inside, 1 to 65535"),
        field("protocol", "`tcp`", "`tcp` or `udp`"),
        field(
            "host_ip",
            "every address",
            "One address of the node to publish it on, such as `127.0.0.1` or `::1`; the port counts as \
             taken on the whole node",
        ),
    ]
}

pub(super) fn mount() -> Vec<Field> {
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

pub(super) fn limits() -> Vec<Field> {
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
            "no limit, or `resources.memory_mb` where that is given",
            format!("Memory it cannot go beyond; at least {mib} MiB"),
        ),
        field(
            "memory_swap_bytes",
            "the runtime's own",
            "Memory and swap together; -1 is no limit on swap",
        ),
        field(
            "cpu_unlimited",
            "`true` where `resources` names no CPU",
            "`resources.cpu_millicores` is reserved and is no limit",
        ),
        field(
            "memory_unlimited",
            "`true` where no memory is named",
            "`resources.memory_mb` is reserved and is no limit",
        ),
    ]
}

pub(super) fn volume() -> Vec<Field> {
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
