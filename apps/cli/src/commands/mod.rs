//! What each command does.

mod config;
mod explain;
mod find;
mod follow;
mod init;
mod inside;
mod legacy;
mod lifecycle;
mod look;
mod nodes;
mod operate;
mod submit;

use crate::args::{self, Cli, Command};
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
    match &cli.command {
        Command::Version => {
            world.print(format!("{program} {}\n", env!("CARGO_PKG_VERSION")).as_bytes())?;
        }
        Command::Completion(wanted) => {
            let mut script = Vec::new();
            let mut command = args::command(program, extra);
            clap_complete::generate(wanted.shell, &mut command, program, &mut script);
            world.print(&script)?;
        }
        Command::Init(wanted) => init::init(world, program, wanted)?,
        _ => return Ok(None),
    }
    Ok(Some(0))
}

/// All others; tells the exit code.
pub(crate) async fn run(shell: &Shell, command: Command) -> Result<u8, Problem> {
    match command {
        Command::Run(run) => submit::run(shell, &run).await,
        Command::Apply(apply) => submit::apply(shell, &apply).await,
        Command::Get(get) => look::get(shell, &get).await,
        Command::List(list) => look::list(shell, &list).await,
        Command::Why(why) => explain::why(shell, &why).await,
        Command::Logs(logs) => follow::logs(shell, &logs).await,
        Command::Exec(exec) => inside::exec(shell, exec).await,
        Command::Events(events) => follow::events(shell, &events).await,
        Command::Stop(ids) => lifecycle::each(shell, &ids, lifecycle::Verb::Stop).await,
        Command::Start(ids) => lifecycle::each(shell, &ids, lifecycle::Verb::Start).await,
        Command::Restart(restart) => {
            lifecycle::each(shell, &restart.ids, lifecycle::Verb::Restart).await
        }
        Command::Retry(ids) => lifecycle::each(shell, &ids, lifecycle::Verb::Retry).await,
        Command::Delete(ids) => lifecycle::each(shell, &ids, lifecycle::Verb::Delete).await,
        Command::Nodes(nodes) => nodes::list(shell, &nodes).await,
        Command::Node(node) => nodes::run(shell, node).await,
        Command::Summary => look::summary(shell).await,
        Command::Status => look::status(shell).await,
        Command::Orphan(orphan) => operate::orphan(shell, orphan).await,
        Command::Recover(recover) => operate::recover(shell, &recover).await,
        Command::ReleaseBrake => operate::release_brake(shell).await,
        Command::Config(wanted) => config::run(shell, &wanted),
        Command::Legacy(group) => legacy::run(shell, group).await,
        Command::Init(_) | Command::Completion(_) | Command::Version => Ok(0),
    }
}
