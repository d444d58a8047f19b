//! The fields of stacks and machines.

use persys_model::spec::check::limits as most;

use super::{Field, field, kib};

pub(super) fn compose() -> Vec<Field> {
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
            "none",
            "Shown as the label `persys.project_name` of the containers. The project itself is named after the workload, so that no two stacks share one",
        ),
        field("found_ports", "", given),
        field("found_volumes", "", given),
        field("found_volume_names", "", given),
        field(
            "git_path",
            "`compose.yaml` and the other usual names",
            "Where in the repository the file is",
        ),
        field("git_commit", "", given),
        field("git_file", "", given),
    ]
}

pub(super) fn vm() -> Vec<Field> {
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

pub(super) fn disk() -> Vec<Field> {
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

pub(super) fn network() -> Vec<Field> {
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

pub(super) fn cloud_init() -> Vec<Field> {
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
