//! The fields around a body: name, reservation, placement, secrets.

use persys_model::id::{NamespaceName, RevisionId, SecretName, WorkloadId};
use persys_model::secret::{FOLDER, MOST_USES};
use persys_model::spec::check::limits as most;

use super::{Field, field, kib};

pub(super) fn request() -> Vec<Field> {
    let name = WorkloadId::LIMIT;
    let revision = RevisionId::LIMIT;
    vec![
        field(
            "workload_id",
            "must be given",
            format!(
                "The name of the workload; `name`, `id` and `workloadId` say the same. Letters, digits, and inside also `-`, `_`, `.`; up to {name}. No two workloads differ in capital letters alone. Applied again under the same name it is a new revision"
            ),
        ),
        field("spec", "nothing changes but the desired state", "What to run"),
        field(
            "revision_id",
            "made from the content",
            format!(
                "A name of your own for this version; up to {revision} characters. The same content under the same name changes nothing; other content under the same name is a revision of its own, `NAME+` and 8 digits of its content"
            ),
        ),
        field(
            "desired_state",
            "`Running`",
            "`Running`, `Stopped` or `Deleted`; `stop` and `delete` are understood too",
        ),
        field(
            "plan",
            "carried out as things are",
            "A plan of `POST /v1/check`: the change is refused if it would do something else by now",
        ),
    ]
}

pub(super) fn spec() -> Vec<Field> {
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
        field(
            "stop_grace",
            "`10s`; a VM: `60s`",
            "Time a copy has to end by itself, in whole seconds, such as `30s` or `1m30s`, up to a day. In a stack it counts for services without a `stop_grace_period`",
        ),
        field(
            "health",
            "the `HEALTHCHECK` of the image",
            "Checks of whether it does its work; see [health.md](health.md). The services of a stack have theirs in its file",
        ),
    ]
}

pub(super) fn resources() -> Vec<Field> {
    let (cpu, memory) = (most::DEFAULT_CPU_MILLICORES, most::DEFAULT_MEMORY_MIB);
    let (most_cpu, most_memory) = (most::CPU_MILLICORES, most::MEMORY_MIB);
    let each = "a stack: the sum of its services, with that for each that says nothing; a VM: all its `vcpus`";
    vec![
        field(
            "cpu_millicores",
            &format!("{cpu}; {each}"),
            format!(
                "Thousandths of a core; up to {most_cpu}. What is given here also limits a container; the default does not"
            ),
        ),
        field(
            "memory_mb",
            &format!(
                "{memory}, or the limit of the container; a stack likewise; a VM: its `memory_mb`"
            ),
            format!(
                "MiB; up to {most_memory}. What is given here also limits a container that has no `limits.memory_bytes`; the default does not. Must not be above the container's own limit"
            ),
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

pub(super) fn placement() -> Vec<Field> {
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

pub(super) fn constraint() -> Vec<Field> {
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

pub(super) fn toleration() -> Vec<Field> {
    vec![
        field("key", "must be given", "Key of the taint"),
        field("value", "the empty value", "Value of the taint"),
        field("any_value", "`false`", "The key alone decides; then no `value` may be given"),
    ]
}

pub(super) fn secret() -> Vec<Field> {
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
        field(
            "signal",
            "none",
            "Sent when the value changes, after the file was rewritten: `SIGHUP`, `SIGUSR1` or `SIGUSR2`. Without one, what runs keeps the value it was started with. Not for a variable, not in a VM",
        ),
    ]
}
