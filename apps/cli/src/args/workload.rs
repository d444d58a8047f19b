//! Verbs about workloads.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Whether and when a container is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Restarts {
    /// Never.
    No,
    /// Whenever it ends.
    Always,
    /// When it ends with an error.
    OnFailure,
    /// Whenever it ends, unless it was stopped.
    UnlessStopped,
}

impl Restarts {
    /// The word in a spec.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Always => "always",
            Self::OnFailure => "on-failure",
            Self::UnlessStopped => "unless-stopped",
        }
    }
}

/// A container from the command line.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "one for each option")]
pub(crate) struct Run {
    /// Image to run, or a Compose file.
    pub(crate) image: String,
    /// Its id; made from the image when not given.
    #[arg(long, alias = "id")]
    pub(crate) name: Option<String>,
    /// The namespace it is in.
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Publish a port: host:container, or container alone for any free host port; /udp behind it, an address of the node in front (127.0.0.1:8080:80).
    #[arg(short, long = "publish", value_name = "HOST:CONTAINER[/udp]")]
    pub(crate) ports: Vec<String>,
    /// Set a variable; a name alone takes the value it has here.
    #[arg(short, long = "env", value_name = "KEY=VALUE")]
    pub(crate) env: Vec<String>,
    /// Read variables from a file, KEY=VALUE a line.
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Vec<PathBuf>,
    /// Give it a secret as a file, under /run/secrets unless a path is named.
    #[arg(long = "secret", value_name = "NAME[:PATH]")]
    pub(crate) secrets: Vec<String>,
    /// Give it a secret as a variable; `docker inspect` on the node shows it, a file is better.
    #[arg(long = "secret-env", value_name = "VARIABLE=NAME")]
    pub(crate) secret_env: Vec<String>,
    /// Show a path of the node inside, or a volume by its name: it is made where it is missing, and its data
    /// stays when the workload is deleted.
    #[arg(short, long = "volume", value_name = "HOST|NAME:CONTAINER[:ro]")]
    pub(crate) volumes: Vec<String>,
    /// CPU to reserve: 0.5, 2, 500m.
    #[arg(long, alias = "cpus", value_name = "CORES")]
    pub(crate) cpu: Option<String>,
    /// Memory to reserve and not to exceed: 512m, 1g.
    #[arg(short, long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Disk to reserve: 10g.
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk: Option<String>,
    /// When to start it again.
    #[arg(long, value_enum, default_value = "on-failure", value_name = "POLICY")]
    pub(crate) restart: Restarts,
    /// Health check: a command inside that has to end with 0. It is given to `sh -c`.
    #[arg(long, value_name = "COMMAND", help_heading = "Health")]
    pub(crate) health_cmd: Option<String>,
    /// Health check: a GET to a port inside, as 8080 or 8080/path.
    #[arg(long, value_name = "PORT[/PATH]", help_heading = "Health")]
    pub(crate) health_http: Option<String>,
    /// Health check: a connection to a port inside.
    #[arg(long, value_name = "PORT", help_heading = "Health")]
    pub(crate) health_tcp: Option<u16>,
    /// Time between two checks (5s).
    #[arg(long, value_name = "TIME", help_heading = "Health")]
    pub(crate) health_interval: Option<String>,
    /// Time a check may take (3s).
    #[arg(long, value_name = "TIME", help_heading = "Health")]
    pub(crate) health_timeout: Option<String>,
    /// Time after a start in which failures do not count (60s); the first success ends it.
    #[arg(long, value_name = "TIME", help_heading = "Health")]
    pub(crate) health_start_period: Option<String>,
    /// Failures in a row that make it unhealthy (3).
    #[arg(long, value_name = "COUNT", help_heading = "Health")]
    pub(crate) health_retries: Option<i32>,
    /// No health check, not even that of the image.
    #[arg(long, help_heading = "Health")]
    pub(crate) no_healthcheck: bool,
    /// Label on the container.
    #[arg(short, long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<String>,
    /// Only nodes with this label: zone=a, zone!=a, gpu, !gpu.
    #[arg(long = "constraint", value_name = "RULE")]
    pub(crate) constraints: Vec<String>,
    /// Give it all the powers of the node.
    #[arg(long)]
    pub(crate) privileged: bool,
    /// Do not wait.
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// Program in place of the image's ENTRYPOINT.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) entrypoint: Option<String>,
    /// Show its output until it ends, then delete it; the exit code is its own. It is not started again.
    #[arg(long, conflicts_with_all = ["detach", "restart"])]
    pub(crate) rm: bool,
    /// For a shell, run it and then use `exec -it`.
    #[arg(short, long, hide = true)]
    pub(crate) interactive: bool,
    /// For a shell, run it and then use `exec -it`.
    #[arg(short, long, hide = true)]
    pub(crate) tty: bool,
    /// Words in place of the image's CMD; its ENTRYPOINT stays and is given them. They end the options:
    /// what follows the first of them is part of the command.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Files that say what is wanted.
#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// File to apply, YAML or JSON, one or several documents, or a Compose file as it is; - reads
    /// what is typed.
    #[arg(value_name = "FILE", required_unless_present_any = ["files", "plan"])]
    pub(crate) named: Vec<PathBuf>,
    /// The same; several Compose files given so are one project, the later over the earlier.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) project: ProjectOptions,
    /// The namespace of all that the files want, where they name none.
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Set a variable of a Compose file; a name alone takes the value it has here.
    #[arg(short, long = "env", value_name = "KEY=VALUE")]
    pub(crate) env: Vec<String>,
    /// Read variables of a Compose file from a file, KEY=VALUE a line.
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Vec<PathBuf>,
    /// Id, for a file that has none; a Compose file is otherwise named after its folder.
    #[arg(long, alias = "name")]
    pub(crate) id: Option<String>,
    /// container, compose or vm, for a file that does not say.
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
    /// Name of this version; made from the content when not given.
    #[arg(long, alias = "revision-id")]
    pub(crate) revision: Option<String>,
    /// Carry out a plan that `plan --out` wrote; refused if it would do something else by now.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "named", "check"])]
    pub(crate) plan: Option<PathBuf>,
    /// Only check, send nothing.
    #[arg(long)]
    pub(crate) check: bool,
    /// Do not wait.
    #[arg(short, long)]
    pub(crate) detach: bool,
}

/// What is wanted of a Compose project.
#[derive(Debug, Default, Args)]
pub(crate) struct ProjectOptions {
    /// Start the services of this profile of a Compose file too; * is all of them.
    #[arg(long = "profile", value_name = "NAME")]
    pub(crate) profiles: Vec<String>,
    /// Build the images of a Compose file again, also those that are there.
    #[arg(long)]
    pub(crate) build: bool,
    /// Build nothing: the nodes have the images, or a registry that they read has them.
    #[arg(long, conflicts_with = "build")]
    pub(crate) no_build: bool,
}

/// Words about Compose files.
#[derive(Debug, Subcommand)]
pub(crate) enum ComposeCommand {
    /// Say what becomes of every key of a Compose file: honoured, changed, ignored or refused.
    Check(ComposeCheck),
}

/// A Compose file to look at.
#[derive(Debug, Args)]
pub(crate) struct ComposeCheck {
    /// The file, or the folder it is in; - reads what is typed.
    #[arg(value_name = "FILE", required_unless_present = "files")]
    pub(crate) file: Option<PathBuf>,
    /// Files that are one project, the later over the earlier.
    #[arg(short = 'f', long = "file", value_name = "FILE", conflicts_with = "file")]
    pub(crate) files: Vec<PathBuf>,
    /// Look at the services of this profile too; * is all of them.
    #[arg(long = "profile", value_name = "NAME")]
    pub(crate) profiles: Vec<String>,
    /// Set a variable; a name alone takes the value it has here.
    #[arg(short, long = "env", value_name = "KEY=VALUE")]
    pub(crate) env: Vec<String>,
    /// Read variables from a file, KEY=VALUE a line.
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Vec<PathBuf>,
}

/// One workload, whole.
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Which.
    pub(crate) id: String,
    /// Show secret values as they are.
    #[arg(long)]
    pub(crate) secrets: bool,
    /// Go on showing it as it changes.
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// Which workloads.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only those in this state.
    #[arg(long)]
    pub(crate) status: Option<String>,
    /// Only those on this node.
    #[arg(long, alias = "node-id")]
    pub(crate) node: Option<String>,
    /// Go on showing them as they change.
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Show the ids alone.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// All are listed anyway, stopped ones and those of every namespace.
    #[arg(short, long, hide = true, alias = "all-namespaces", short_alias = 'A')]
    pub(crate) all: bool,
}

/// What to explain.
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// A workload's id, or `node`.
    pub(crate) subject: String,
    /// With `node`: which one; `node/NAME` says the same.
    pub(crate) name: Option<String>,
}

/// Output of a workload.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Whose; of one service of a stack as workload/service.
    pub(crate) id: String,
    /// Go on with what is printed from now on.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only so many lines of the end.
    #[arg(short = 'n', long, value_name = "LINES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tail: Option<u32>,
    /// Only what is younger: 10m, 2h, or a moment as 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
}

/// A command inside.
#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// Pass on what is typed.
    #[arg(short, long)]
    pub(crate) interactive: bool,
    /// Give it a terminal.
    #[arg(short, long)]
    pub(crate) tty: bool,
    /// Inside which workload; in a stack as workload/service.
    pub(crate) id: String,
    /// The command and its words; a `--` before them may be left out.
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// A machine's serial console.
#[derive(Debug, Args)]
pub(crate) struct Console {
    /// Take it from whoever holds it.
    #[arg(long)]
    pub(crate) force: bool,
    /// Of which workload.
    pub(crate) id: String,
}

/// Which events.
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Go on with what happens from now on.
    #[arg(short, long, alias = "watch", short_alias = 'w')]
    pub(crate) follow: bool,
    /// Only about this workload.
    #[arg(value_name = "WORKLOAD")]
    pub(crate) about: Option<String>,
    /// The same.
    #[arg(long, alias = "workload-id", conflicts_with = "about")]
    pub(crate) workload: Option<String>,
    /// Only about this node.
    #[arg(long, alias = "node-id")]
    pub(crate) node: Option<String>,
    /// Only of this type.
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
    /// Only what somebody asked for, with who it was and why.
    #[arg(long)]
    pub(crate) asked: bool,
    /// Only what happened after this event, by its id.
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<String>,
    /// At most so many, the newest.
    #[arg(short = 'n', long, default_value_t = 100, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    pub(crate) limit: i64,
}

/// Which workloads, by id.
#[derive(Debug, Args)]
pub(crate) struct Ids {
    /// Their ids.
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Do not wait.
    #[arg(short, long)]
    pub(crate) detach: bool,
}

/// Which workloads to delete.
#[derive(Debug, Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    pub(crate) ids: Ids,
    /// Delete the volumes named in the Compose file too, with their data.
    #[arg(long)]
    pub(crate) volumes: bool,
    /// Do not ask.
    #[arg(short, long, alias = "force", short_alias = 'f')]
    pub(crate) yes: bool,
}

/// Which workloads to restart.
#[derive(Debug, Args)]
pub(crate) struct Restart {
    #[command(flatten)]
    pub(crate) ids: Ids,
}

/// A spec to start from.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Where to write it; - prints it.
    #[arg(default_value = "persys.yaml")]
    pub(crate) file: PathBuf,
    /// container, compose or vm.
    #[arg(long = "type", value_enum, default_value = "container", value_name = "TYPE")]
    pub(crate) kind: InitKind,
    /// Write over a file that is there.
    #[arg(long)]
    pub(crate) force: bool,
}

/// What the spec is to describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InitKind {
    /// A container.
    Container,
    /// A Compose stack.
    Compose,
    /// A virtual machine.
    Vm,
}
