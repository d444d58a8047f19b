//! What can be typed.

mod access;
mod disk;
mod global;
mod history;
mod legacy;
mod log;
mod node;
mod secret;
mod store;
mod token;
mod upkeep;
mod workload;

use std::ffi::OsString;

use clap::{CommandFactory as _, Parser, Subcommand};

pub(crate) use access::{
    AccessCommand, Bind, NamespaceAllows, NamespaceCommand, Switch, UserTokenCommand, Where,
};
pub(crate) use disk::{CreateDisk, DiskCommand};
pub(crate) use global::{Global, Output, Target, Transport};
pub(crate) use history::{Diff, History, Plan, Rollback};
pub(crate) use legacy::{
    AgentCommand, AgentGroup, ApplySpec, LegacyGroup, ListActions, SchedulerCommand,
    WorkloadCommand, WorkloadSchedule,
};
pub(crate) use log::{LogCommand, LogLevel};
pub(crate) use node::{NodeCommand, Nodes, Orphan};
pub(crate) use secret::{Audit, AuditCommand, ListAudit, SecretCommand, SetSecret};
pub(crate) use store::{
    At, DriftCommand, EtcdOptions, Import, Recover, SnapshotCommand, StoreCommand,
};
pub(crate) use token::{CaCommand, CreateToken, TokenCommand};
pub(crate) use upkeep::{Man, Top, UpgradeCheck};
pub(crate) use workload::{
    Apply, ComposeCheck, ComposeCommand, Console, Delete, Events, Exec, Get, Ids, Init, InitKind,
    List, Logs, ProjectOptions, Restart, Restarts, Run, Why,
};

/// Containers, Compose stacks and virtual machines under one small scheduler.
#[derive(Debug, Parser)]
#[command(
    name = "persys",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = false,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 error, 2 could not be placed, 3 did not become healthy, 5 no node could ever hold it, 64 usage.\nIds may be shortened as long as they are unique."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    /// Say more about what is done.
    #[arg(short = 'v', hide = true)]
    pub(crate) more: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Every verb.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a container and wait until it runs.
    Run(Box<Run>),
    /// Apply what files say, and wait until it is so.
    Apply(Box<Apply>),
    /// Show what applying files would do: what changes, restarts and moves, and what data is touched.
    Plan(Box<Plan>),
    /// List the revisions of a workload that are kept.
    History(History),
    /// Compare two revisions of a workload.
    Diff(Diff),
    /// Take an earlier revision of a workload back.
    Rollback(Rollback),
    /// Look at Compose files.
    #[command(subcommand)]
    Compose(ComposeCommand),
    /// Show one workload, whole.
    #[command(visible_alias = "describe")]
    Get(Get),
    /// List workloads.
    #[command(visible_aliases = ["ls", "ps"])]
    List(List),
    /// Say why a workload or a node is as it is, and what would help.
    Why(Why),
    /// Show what a workload printed.
    Logs(Logs),
    /// Run a command inside a workload.
    Exec(Exec),
    /// Hold the serial console of a virtual machine; Ctrl-] lets go.
    Console(Console),
    /// Look at the logs of scheduler and agents themselves.
    #[command(subcommand)]
    Log(LogCommand),
    /// Show what happened.
    Events(Events),
    /// Show who did what and who was refused, and check that nobody changed that.
    Audit(Audit),
    /// Stop workloads; they keep their place in the list.
    Stop(Ids),
    /// Start workloads that were stopped.
    Start(Ids),
    /// Pause workloads: they get no CPU time and keep their memory and place.
    Pause(Ids),
    /// Let paused workloads run again.
    Resume(Ids),
    /// Stop and start workloads where they are.
    Restart(Restart),
    /// Try failed workloads again.
    Retry(Ids),
    /// Delete workloads; volumes of stacks are kept unless --volumes is given.
    #[command(visible_alias = "rm")]
    Delete(Delete),
    /// List nodes.
    Nodes(Nodes),
    /// Look at nodes and change them.
    #[command(subcommand)]
    Node(NodeCommand),
    /// Look at the disks of workloads.
    #[command(subcommand, visible_alias = "disks")]
    Disk(DiskCommand),
    /// Invite machines to become nodes.
    #[command(subcommand, visible_alias = "tokens")]
    Token(TokenCommand),
    /// Certificates: who is believed.
    #[command(subcommand)]
    Ca(CaCommand),
    /// Set secrets for workloads, and see which there are.
    #[command(subcommand, visible_alias = "secrets")]
    Secret(SecretCommand),
    /// Parts of the cluster, and what is allowed in each.
    #[command(subcommand, visible_alias = "ns", alias = "namespaces")]
    Namespace(NamespaceCommand),
    /// Who has which role where, and the tokens they use.
    #[command(subcommand)]
    Access(AccessCommand),
    /// Say who you are to the cluster, and what you may.
    Whoami,
    /// Show nodes and workloads on one screen, as they change.
    Top(Top),
    /// Count nodes and workloads.
    Summary,
    /// Say how the scheduler itself stands.
    Status,
    /// Decide about a workload on a node that nobody knows.
    #[command(subcommand)]
    Orphan(Orphan),
    /// Lead a scheduler that lost its store out of recovery.
    Recover(Recover),
    /// Let work move although many nodes are silent.
    ReleaseBrake,
    /// Differences between what is recorded and what nodes have.
    #[command(subcommand)]
    Drift(DriftCommand),
    /// Save, check and restore copies of all that is stored.
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Import the workloads of an earlier installation from its etcd, each where it runs.
    Import(Box<Import>),
    /// Move what is stored to another place.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Say whether this release can take the place of the one that runs; changes nothing.
    UpgradeCheck(Box<UpgradeCheck>),
    /// Show the settings in effect and where each came from, or choose a context.
    Config(Config),
    /// Write a commented spec to start from.
    Init(Init),
    /// Write the completion script of a shell.
    Completion(Completion),
    /// Print names, for completion scripts.
    #[command(hide = true)]
    Names {
        /// Of what.
        #[arg(value_enum)]
        of: Names,
    },
    /// Write a manual page for every command.
    Man(Man),
    /// Say which version this is.
    Version,
    #[command(flatten)]
    Legacy(LegacyGroup),
}

/// Settings.
#[derive(Debug, clap::Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) command: Option<ConfigCommand>,
}

/// What to do with settings.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Use this context from now on.
    Use {
        /// Its name, as `config` lists it.
        context: String,
    },
}

/// Things that have names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Names {
    /// Workloads.
    Workloads,
    /// Nodes.
    Nodes,
}

/// Completion.
#[derive(Debug, clap::Args)]
pub(crate) struct Completion {
    /// Which shell.
    pub(crate) shell: clap_complete::Shell,
}

/// Everything that can be typed, and what others add to it. A command of theirs that has the name
/// of one of ours (`scheduler`, `agent`) is joined with it: its options and words come on top.
pub(crate) fn command(program: &str, extra: Vec<clap::Command>) -> clap::Command {
    let mut command = Cli::command().bin_name(program.to_owned()).display_name(program.to_owned());
    let taken: Vec<char> = command.get_arguments().filter_map(clap::Arg::get_short).collect();
    for theirs in extra {
        let theirs = without_letters(theirs, &taken);
        let name = theirs.get_name().to_owned();
        if command.find_subcommand(&name).is_none() {
            command = command.subcommand(theirs);
            continue;
        }
        command = command.mut_subcommand(name, |mut ours| {
            if let Some(about) = theirs.get_about() {
                ours = ours.about(about.clone());
            }
            ours = ours.hide(false).subcommand_required(false).arg_required_else_help(false);
            for argument in theirs.get_arguments() {
                ours = ours.arg(argument.clone());
            }
            for inner in theirs.get_subcommands() {
                ours = ours.subcommand(inner.clone());
            }
            ours
        });
    }
    command
}

/// A command without those of its letters that mean something of ours, which holds everywhere: in help,
/// completion and manual pages a letter means one thing. Whoever reads the command itself has them all.
fn without_letters(command: clap::Command, taken: &[char]) -> clap::Command {
    let is_taken = |argument: &clap::Arg| argument.get_short().is_some_and(|l| taken.contains(&l));
    command
        .mut_args(|argument| if is_taken(&argument) { argument.short(None) } else { argument })
        .mut_subcommands(|inner| without_letters(inner, taken))
}

/// Whether these words (without the program's name) are for this crate, where the executable has a
/// command of the same name: `scheduler summary` is ours, `scheduler --grpc …` is not.
pub(crate) fn is_ours(words: &[OsString]) -> bool {
    let mut plain = words.iter().filter_map(|word| word.to_str());
    let group = match plain.next() {
        Some(group @ ("scheduler" | "agent" | "ca")) => group,
        Some("dev" | "gateway" | "join") => return false,
        Some(_) | None => return true,
    };
    let command = Cli::command();
    let Some(group) = command.find_subcommand(group) else { return false };
    plain.any(|word| group.find_subcommand(word).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
        let theirs = clap::Command::new("scheduler").arg(clap::Arg::new("grpc").long("grpc"));
        let out = clap::Arg::new("out").long("out").short('o');
        let issue = clap::Command::new("ca").subcommand(clap::Command::new("issue").arg(out));
        let command = command("persys", vec![clap::Command::new("dev"), theirs, issue]);
        assert!(command.find_subcommand("dev").is_some());
        let joined = command.find_subcommand("scheduler").unwrap();
        assert!(joined.find_subcommand("summary").is_some());
        assert!(joined.get_arguments().any(|argument| argument.get_id() == "grpc"));
        command.debug_assert();
    }

    #[test]
    fn components_and_old_commands_are_told_apart() {
        for (line, ours) in [
            ("scheduler summary", true),
            ("scheduler --insecure", false),
            ("scheduler", false),
            ("agent health", true),
            ("agent --node n1", false),
            ("list", true),
            ("dev --runtime sim", false),
            ("", true),
        ] {
            assert_eq!(is_ours(&words(line)), ours, "{line}");
        }
    }

    /// Spellings that stand in the manuals, and those that scripts of existing clients use.
    const SPELLINGS: &[&str] = &[
        "run nginx -p 8080:80 -e A=1 -v /a:/b:ro --cpu 0.5 --memory 512m --restart always -- sh -c x",
        "apply -f a.yaml -f b.json --id x --type vm",
        "apply docker-compose.yml --id x -e A=1 --env-file f",
        "compose check docker-compose.yml -e A=1 --env-file f -o json",
        "apply --plan p.json",
        "plan -f a.yaml --out p.json",
        "history web -o wide",
        "diff web",
        "diff web 1 3 --secrets",
        "rollback web",
        "rollback web 2 --detach",
        "get web -o json",
        "list --watch -o wide",
        "why node/n1",
        "logs -f web --tail 5 --since 10m",
        "exec -it web -- sh -l",
        "console db --force",
        "events -f --workload web --node n --type X",
        "log level",
        "log level scheduler::rpc=debug --for 5m",
        "log level trace --component agent --node n1",
        "log level --reset",
        "stop a b c",
        "node drain n1 --reason x",
        "node taint n1 a=b:NoSchedule",
        "node label n1 a=b c-",
        "namespace create web --allow-host-path /srv/web",
        "ns ls",
        "access bind --user ada --role operator -n web -n db",
        "access bind --group ops --role admin --cluster",
        "access token create ci --role operator --namespace web --ttl 30d",
        "access token revoke 00ff",
        "whoami",
        "disk list -o json",
        "disk get local:db",
        "disk create db --driver nfs --size 5",
        "disk delete db",
        "orphan adopt n1 w1",
        "recover --from-agents",
        "recover --from-agents --dry-run",
        "recover --from-snapshot f --yes",
        "recover --accept-empty -o json",
        "drift list",
        "drift ls n1 -o json",
        "drift check",
        "drift adopt n1 w1",
        "drift delete n1 w1",
        "drift ignore n1 w1",
        "snapshot save f",
        "snapshot save f --state-dir d",
        "snapshot inspect f -o json",
        "snapshot restore f --state-dir d",
        "snapshot restore f --etcd a:2379,b:2379",
        "store migrate --from d --to etcd:127.0.0.1:2379",
        "store migrate --from etcd:127.0.0.1:2379 --to d",
        "store migrate --from d --to etcd:a:1 --etcd-root /p --etcd-ca c --etcd-cert d --etcd-key k",
        "snapshot save f --etcd a:1 --etcd-server-name n --etcd-user u --etcd-password-file p",
        "top",
        "top --once -o json",
        "upgrade-check --snapshot f --fresh 2h --ca-dir d",
        "upgrade-check --etcd a:2379,b:2379 --etcd-ca c -o json",
        "man --out d",
        "config use dev",
        "completion bash",
        "workload schedule spec.json --id a --type container --revision r",
        "workload list --status Running --node-id n",
        "workload get --id a",
        "node list --status Ready",
        "node get --id n",
        "scheduler apply --id a --type vm --spec-file f",
        "scheduler get-workload --workload-id a",
        "scheduler list-workloads --filter-node-id n",
        "agent list-actions --workload-id a --newest-first=false --action-limit 3",
        "metrics",
        "-v --transport grpc --grpc-endpoint h:1 --grpc-insecure --rpc-timeout-seconds 5 list",
        "list --grpc-target scheduler --config c",
    ];

    #[test]
    fn every_documented_spelling_is_understood() {
        for line in SPELLINGS {
            let all = std::iter::once("persys").chain(line.split_whitespace());
            assert!(Cli::try_parse_from(all).is_ok(), "{line}");
        }
    }
}
