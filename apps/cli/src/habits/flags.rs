//! Options of other tools.

/// An option of another tool that is said differently here.
pub(super) struct Other {
    pub(super) commands: &'static [&'static str],
    pub(super) flags: &'static [&'static str],
    pub(super) why: &'static str,
    pub(super) next: &'static [&'static str],
}

const fn other(
    commands: &'static [&'static str],
    flags: &'static [&'static str],
    why: &'static str,
    next: &'static [&'static str],
) -> Other {
    Other { commands, flags, why, next }
}

const IN_A_FILE: &str = "a Compose file says it, and is applied as it is";

pub(super) const OTHER: &[Other] = &[
    other(
        &["list", "ls", "ps", "get", "nodes", "events"],
        &["--format", "--json"],
        "output as data is chosen with -o",
        &["persys list -o json", "persys list -o yaml"],
    ),
    other(
        &["list", "ls", "ps"],
        &["--filter", "-f", "--field-selector"],
        "lists are narrowed by state and node",
        &["persys list --status running", "persys list --node NODE"],
    ),
    other(
        &["list", "ls", "ps"],
        &["-l", "--selector", "-n", "--namespace"],
        "lists are narrowed by state and node; all namespaces you may see are listed",
        &["persys list --status running", "persys list -o json"],
    ),
    other(
        &["logs"],
        &["-c", "--container"],
        "a service is named behind its stack",
        &["persys logs NAME/{value}"],
    ),
    other(
        &["exec"],
        &["-c", "--container"],
        "a service is named behind its stack",
        &["persys exec NAME/{value} {last}"],
    ),
    other(
        &["logs"],
        &["-p", "--previous"],
        "what was left of its last end is told with the reason",
        &["persys why {last}"],
    ),
    other(
        &["logs"],
        &["-t", "--timestamps", "--until", "--details"],
        "a line is shown as it was printed; what happened and when is told by events",
        &["persys logs {last} --since 10m", "persys events {last}"],
    ),
    other(
        &["exec"],
        &["-u", "--user", "-w", "--workdir", "-e", "--env", "--privileged"],
        "a command runs as its container does; a shell inside changes what it needs",
        &["persys exec NAME sh -c 'cd /folder && A=1 command'"],
    ),
    other(
        &["stop", "restart"],
        &["-t", "--time", "--grace-period"],
        "the time to end is part of the spec (stop_grace), 10 s unless it says otherwise",
        &["persys get {last} -o yaml"],
    ),
    other(
        &["delete"],
        &["-v"],
        "volumes are deleted with their data by the whole word",
        &["persys delete {last} --volumes"],
    ),
    other(
        &["delete"],
        &["--filename", "--all"],
        "workloads are deleted by their names",
        &["persys delete NAME"],
    ),
    other(
        &["run"],
        &["-u", "--user"],
        IN_A_FILE,
        &["user: \"{value}\"", "persys apply compose.yaml"],
    ),
    other(
        &["run"],
        &["-w", "--workdir"],
        IN_A_FILE,
        &["working_dir: {value}", "persys apply compose.yaml"],
    ),
    other(
        &["run"],
        &["-h", "--hostname"],
        IN_A_FILE,
        &["hostname: {value}", "persys apply compose.yaml"],
    ),
    other(
        &["run"],
        &["--network", "--net"],
        IN_A_FILE,
        &["network_mode: {value}", "persys apply compose.yaml"],
    ),
    other(
        &["run"],
        &[
            "--cap-add",
            "--cap-drop",
            "--device",
            "--gpus",
            "--sysctl",
            "--ulimit",
            "--tmpfs",
            "--dns",
        ],
        IN_A_FILE,
        &["persys apply compose.yaml"],
    ),
    other(
        &["run"],
        &["--health-cmd", "--health-interval", "--health-retries", "--health-timeout"],
        IN_A_FILE,
        &["healthcheck: {test: [CMD, ...]}", "persys apply compose.yaml"],
    ),
    other(
        &["run"],
        &["--mount"],
        "a mount is written as -v",
        &[
            "persys run IMAGE -v /path/on/node:/path/inside:ro",
            "persys run IMAGE -v name:/path/inside",
        ],
    ),
    other(
        &["run"],
        &["-P", "--publish-all"],
        "ports are published one by one; without a port of the node any free one is taken",
        &["persys run IMAGE -p 80"],
    ),
    other(
        &["run"],
        &["--pull", "--platform"],
        "a node pulls an image that it does not have, for its own platform",
        &["persys run IMAGE"],
    ),
    other(&["run"], &["--image"], "the image comes first", &["persys run {value} --name NAME"]),
    other(
        &["run"],
        &["--link", "--volumes-from"],
        "containers that belong together are the services of a Compose file",
        &["persys apply compose.yaml"],
    ),
    other(
        &["apply", "plan"],
        &["-k", "-R", "--recursive", "--prune", "--server-side"],
        "files are named one by one; nothing is deleted by leaving it out",
        &["persys apply a.yaml b.yaml"],
    ),
    other(
        &["apply", "run"],
        &["--dry-run"],
        "what would happen is shown by plan; --check reads the files only",
        &["persys plan -f FILE", "persys apply --check FILE"],
    ),
    other(
        &["secret"],
        &["--value", "--from-literal"],
        "others on the machine see what is typed as an argument",
        &["persys secret set NAME", "persys secret set NAME --file FILE"],
    ),
    other(
        &["events"],
        &["--since", "--until", "--filter"],
        "events are narrowed by what they are about",
        &["persys events NAME", "persys events -n 20"],
    ),
];
