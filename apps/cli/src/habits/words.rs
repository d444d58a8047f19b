//! Commands of other tools.

/// A command of another tool that means the same as one of ours.
pub(super) struct Same {
    pub(super) theirs: &'static [&'static str],
    /// With a name behind it.
    pub(super) ours: &'static [&'static str],
    /// Without one.
    pub(super) ours_alone: &'static [&'static str],
}

const fn same(theirs: &'static [&'static str], ours: &'static [&'static str]) -> Same {
    Same { theirs, ours, ours_alone: ours }
}

pub(super) const SAME: &[Same] = &[
    same(&["inspect"], &["get"]),
    same(&["info"], &["status"]),
    same(&["cluster-info"], &["status"]),
    same(&["server", "members"], &["status"]),
    same(&["operator", "raft", "list-peers"], &["status"]),
    same(&["stats"], &["top"]),
    same(&["volume", "ls"], &["disk", "list"]),
    same(&["volume", "list"], &["disk", "list"]),
    same(&["volume", "inspect"], &["disk", "get"]),
    same(&["volume", "rm"], &["disk", "delete"]),
    Same { theirs: &["job", "status"], ours: &["get"], ours_alone: &["list"] },
    same(&["job", "list"], &["list"]),
    same(&["job", "run"], &["apply"]),
    same(&["job", "plan"], &["plan"]),
    same(&["job", "stop"], &["stop"]),
    same(&["job", "restart"], &["restart"]),
    same(&["job", "inspect"], &["get"]),
    same(&["job", "history"], &["history"]),
    same(&["job", "revert"], &["rollback"]),
    Same { theirs: &["alloc", "status"], ours: &["get"], ours_alone: &["list"] },
    same(&["alloc", "logs"], &["logs"]),
    same(&["alloc", "exec"], &["exec"]),
    same(&["alloc", "restart"], &["restart"]),
    Same { theirs: &["node", "status"], ours: &["node", "get"], ours_alone: &["nodes"] },
    same(&["drain"], &["node", "drain"]),
    same(&["taint"], &["node", "taint"]),
    same(&["shutdown"], &["stop"]),
    same(&["reboot"], &["restart"]),
    same(&["suspend"], &["pause"]),
    same(&["unpause"], &["resume"]),
    same(&["dominfo"], &["get"]),
    same(&["domstate"], &["get"]),
    same(&["rollout", "undo"], &["rollback"]),
    same(&["rollout", "history"], &["history"]),
    same(&["rollout", "restart"], &["restart"]),
    same(&["rollout", "status"], &["get"]),
    same(&["create", "-f"], &["apply", "-f"]),
    same(&["replace", "-f"], &["apply", "-f"]),
    same(&["config", "use-context"], &["config", "use"]),
    same(&["config", "get-contexts"], &["config"]),
    same(&["config", "current-context"], &["config"]),
    same(&["config", "view"], &["config"]),
    Same { theirs: &["compose", "up"], ours: &["apply"], ours_alone: &["apply", "."] },
    Same { theirs: &["up"], ours: &["apply"], ours_alone: &["apply", "."] },
    same(&["compose", "ps"], &["list"]),
    Same {
        theirs: &["compose", "config"],
        ours: &["compose", "check"],
        ours_alone: &["compose", "check", "."],
    },
];

/// Kinds that are listed when nothing else is said of them.
pub(super) const ALONE: &[(&str, &[&str])] = &[
    ("disks", &["disk", "list"]),
    ("tokens", &["token", "list"]),
    ("secrets", &["secret", "list"]),
    ("namespaces", &["namespace", "list"]),
    ("ns", &["namespace", "list"]),
    ("volumes", &["disk", "list"]),
];

/// A command of another tool that is done differently here.
pub(super) struct Other {
    pub(super) theirs: &'static [&'static str],
    pub(super) why: &'static str,
    pub(super) next: &'static [&'static str],
}

const fn other(
    theirs: &'static [&'static str],
    why: &'static str,
    next: &'static [&'static str],
) -> Other {
    Other { theirs, why, next }
}

pub(super) const OTHER: &[Other] = &[
    other(&["images"], "images are kept by the Docker of each node", &["docker images"]),
    other(&["rmi"], "images are kept by the Docker of each node", &["docker rmi {last}"]),
    other(&["pull"], "a node pulls an image when it needs it", &["persys run {last}"]),
    other(&["push"], "Docker pushes images to a registry", &["docker push {last}"]),
    other(
        &["build"],
        "images of a Compose file are built when it is applied",
        &["persys apply . --build"],
    ),
    other(
        &["login"],
        "the cluster is chosen by its context; nodes read logins of registries from a file",
        &["persys config"],
    ),
    other(
        &["down"],
        "a stack is deleted by its name; its volumes stay unless --volumes is given",
        &["persys list", "persys delete NAME"],
    ),
    other(
        &["compose", "down"],
        "a stack is deleted by its name; its volumes stay unless --volumes is given",
        &["persys list", "persys delete NAME"],
    ),
    other(
        &["compose", "logs"],
        "logs are shown by the name of the stack",
        &["persys logs -f NAME"],
    ),
    other(
        &["compose", "exec"],
        "a service is named behind its stack",
        &["persys exec NAME/SERVICE sh"],
    ),
    other(
        &["kill"],
        "a workload is asked to stop, and ended after its grace",
        &["persys stop {last}"],
    ),
    other(
        &["destroy"],
        "it means to switch off in one tool and to delete in another",
        &["persys stop {last}", "persys delete {last}"],
    ),
    other(&["undefine"], "a machine goes with its disks", &["persys delete {last}"]),
    other(&["define"], "a machine is described by a spec", &["persys init --type vm box.yaml"]),
    other(&["dumpxml"], "a machine is described by a spec", &["persys get {last} -o yaml"]),
    other(&["domifaddr"], "addresses are shown with the workload", &["persys get {last}"]),
    other(&["create"], "a container is made and started in one", &["persys run {last}"]),
    other(
        &["cp"],
        "files are passed through a command",
        &[
            "persys exec NAME cat /path/in/container > file",
            "persys exec -i NAME sh -c 'cat > /path' < file",
        ],
    ),
    other(&["port"], "ports are shown with the workload", &["persys get {last}"]),
    other(
        &["attach"],
        "no terminal is bound to the first process of a workload",
        &["persys logs -f {last}", "persys exec -it {last} sh"],
    ),
    other(
        &["port-forward"],
        "a port is published on its node, on one address if you like",
        &["persys run IMAGE -p 127.0.0.1:8080:80"],
    ),
    other(
        &["scale"],
        "a workload is one copy; services of a Compose file have deploy.replicas",
        &["persys apply compose.yaml"],
    ),
    other(
        &["edit"],
        "a spec is edited as a file",
        &["persys get {last} --secrets -o yaml > {last}.yaml", "persys apply -f {last}.yaml"],
    ),
    other(
        &["label"],
        "labels of nodes decide where work goes",
        &["persys node label NODE key=value"],
    ),
    other(
        &["cordon"],
        "a taint keeps new work away and leaves what runs",
        &["persys node taint {last} cordoned=yes:NoSchedule"],
    ),
    other(&["uncordon"], "the taint is taken away", &["persys node untaint {last} cordoned"]),
    other(
        &["network"],
        "stacks have networks of their own, by their Compose files",
        &["persys compose check ."],
    ),
    other(&["volume"], "volumes are called disks here", &["persys disk list"]),
    other(&["volumes"], "volumes are called disks here", &["persys disk list"]),
    other(
        &["secret", "create"],
        "a secret is set, the first time and later; its value is typed, piped in or read from a file",
        &["persys secret set NAME", "persys secret set NAME --file FILE"],
    ),
    other(&["alloc"], "a workload is one copy, under its own name", &["persys list"]),
    other(&["job"], "workloads are listed and shown by their names", &["persys list"]),
    other(
        &["prune"],
        "what is not wanted is deleted by name",
        &["persys list", "persys disk list"],
    ),
    other(&["system"], "each kind is listed by itself", &["persys status", "persys disk list"]),
];

/// Kinds as kubectl names them, and the command that lists them.
pub(super) const KINDS: &[(&[&str], &[&str])] = &[
    (
        &[
            "all",
            "po",
            "pods",
            "containers",
            "deploy",
            "deployments",
            "statefulsets",
            "services",
            "svc",
            "workloads",
            "jobs",
            "vms",
            "stacks",
        ],
        &["list"],
    ),
    (&["no", "nodes"], &["nodes"]),
    (&["ev", "events"], &["events"]),
    (&["ns", "namespaces"], &["namespace", "list"]),
    (&["secrets"], &["secret", "list"]),
    (&["pv", "pvc", "volumes", "disks"], &["disk", "list"]),
];
