//! What each command does.

mod access;
mod audit;
mod completion;
mod compose;
mod config;
mod console;
mod delete;
mod disks;
mod drift;
mod explain;
mod find;
mod follow;
mod history;
mod import;
mod init;
mod inside;
mod legacy;
mod lifecycle;
mod log;
mod log_lines;
mod look;
mod manual;
mod nodes;
mod once;
mod operate;
mod plan;
mod prepare;
mod recover;
mod secrets;
mod snapshot;
mod submit;
mod tokens;

use std::future::Future;
use std::pin::Pin;

use crate::args::{self, Cli, Command, ComposeCommand};
use crate::problem::Problem;
use crate::shell::Shell;
use crate::world::World;

/// Commands that need no settings and no cluster; `None` for the others.
pub(crate) fn offline(
    world: &World,
    program: &str,
    cli: &Cli,
    extra: Vec<clap::Command>,
) -> Result<Option<u8>, Problem> {
    if let Command::Version = &cli.command {
        world.print(format!("{program} {}\n", env!("CARGO_PKG_VERSION")).as_bytes())?;
    } else if let Command::Completion(wanted) = &cli.command {
        let mut command = args::command(program, extra);
        world.print(&completion::script(wanted.shell, &mut command, program))?;
    } else if let Command::Man(wanted) = &cli.command {
        manual::write(world, program, args::command(program, extra), &wanted.out)?;
    } else if let Command::Init(wanted) = &cli.command {
        init::init(world, program, wanted)?;
    } else if let Command::Compose(ComposeCommand::Check(wanted)) = &cli.command {
        let output = cli.global.output.unwrap_or_default();
        return compose::check(world, output, wanted).map(Some);
    } else {
        return Ok(None);
    }
    Ok(Some(0))
}

/// A command under way.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = Result<u8, Problem>> + Send + 'a>>;

/// All others; tells the exit code.
///
/// Each command is a future of its own on the heap: together they would not fit the stack of a
/// small thread.
pub(crate) fn run(shell: &Shell, command: Command) -> Running<'_> {
    use lifecycle::{Verb, each};
    match command {
        Command::Run(run) => Box::pin(async move { Box::pin(submit::run(shell, &run)).await }),
        Command::Apply(apply) => Box::pin(async move { submit::apply(shell, &apply).await }),
        Command::Plan(wanted) => {
            Box::pin(async move { Box::pin(plan::plan(shell, &wanted)).await })
        }
        Command::History(of) => Box::pin(async move { history::list(shell, &of).await }),
        Command::Diff(of) => Box::pin(async move { history::diff(shell, &of).await }),
        Command::Rollback(to) => Box::pin(async move { history::rollback(shell, &to).await }),
        Command::Get(get) => Box::pin(async move { look::get(shell, &get).await }),
        Command::List(list) => Box::pin(async move { look::list(shell, &list).await }),
        Command::Why(why) => Box::pin(async move { explain::why(shell, &why).await }),
        Command::Logs(logs) => Box::pin(async move { follow::logs(shell, &logs).await }),
        Command::Exec(exec) => Box::pin(inside::exec(shell, exec)),
        Command::Console(of) => Box::pin(async move { console::hold(shell, &of).await }),
        Command::Log(command) => Box::pin(log::run(shell, command)),
        Command::Events(events) => Box::pin(async move { follow::events(shell, &events).await }),
        Command::Audit(wanted) => Box::pin(audit::run(shell, wanted)),
        Command::Secret(command) => Box::pin(secrets::run(shell, command)),
        Command::Stop(ids) => Box::pin(async move { each(shell, &ids, Verb::Stop).await }),
        Command::Start(ids) => Box::pin(async move { each(shell, &ids, Verb::Start).await }),
        Command::Pause(ids) => Box::pin(async move { each(shell, &ids, Verb::Pause).await }),
        Command::Resume(ids) => Box::pin(async move { each(shell, &ids, Verb::Resume).await }),
        Command::Restart(of) => Box::pin(async move { each(shell, &of.ids, Verb::Restart).await }),
        Command::Retry(ids) => Box::pin(async move { each(shell, &ids, Verb::Retry).await }),
        Command::Delete(wanted) => Box::pin(async move { delete::run(shell, &wanted).await }),
        Command::Nodes(nodes) => Box::pin(async move { nodes::list(shell, &nodes).await }),
        Command::Node(node) => Box::pin(nodes::run(shell, node)),
        Command::Disk(disk) => Box::pin(disks::run(shell, disk)),
        Command::Token(command) => Box::pin(tokens::run(shell, command)),
        Command::Ca(command) => Box::pin(tokens::ca(shell, command)),
        Command::Namespace(command) => Box::pin(access::namespace(shell, command)),
        Command::Access(command) => Box::pin(access::access(shell, command)),
        Command::Whoami => Box::pin(access::whoami(shell)),
        Command::Top(top) => Box::pin(async move { crate::top::run(shell, &top).await }),
        Command::UpgradeCheck(wanted) => Box::pin(crate::upgrade::run(shell, *wanted)),
        Command::Summary => Box::pin(look::summary(shell)),
        Command::Status => Box::pin(look::status(shell)),
        Command::Orphan(orphan) => Box::pin(operate::orphan(shell, orphan)),
        Command::Recover(how) => Box::pin(async move { recover::recover(shell, &how).await }),
        Command::Drift(command) => Box::pin(drift::run(shell, command)),
        Command::Snapshot(command) => Box::pin(snapshot::run(shell, command)),
        Command::Import(wanted) => Box::pin(async move { import::run(shell, &wanted).await }),
        Command::Store(command) => Box::pin(snapshot::store(shell, command)),
        Command::ReleaseBrake => Box::pin(operate::release_brake(shell)),
        Command::Names { of } => Box::pin(completion::names(shell, of)),
        Command::Config(wanted) => Box::pin(async move { config::run(shell, &wanted) }),
        Command::Legacy(group) => Box::pin(legacy::run(shell, group)),
        Command::Compose(_)
        | Command::Init(_)
        | Command::Completion(_)
        | Command::Man(_)
        | Command::Version => Box::pin(std::future::ready(Ok(0))),
    }
}
