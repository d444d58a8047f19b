//! What people type: commands, waiting, tables, exit codes.
//!
//! ```text
//!   words ──► args ──► settings (flag > variable > context > file) ──► command
//!                                                                        │ ask, wait, show
//!                                                                        ▼
//!   0 done · 1 error · 2 could not be placed · 3 not healthy · 5 no node could ever hold it · 64 usage
//!   4 is kept for an update that was taken back
//! ```
//!
//! Nothing is sent when anything that was typed or written is wrong, and every fault is named at
//! once. Every error says what, why and what to type next.

mod args;
mod commands;
mod connect;
pub mod context;
mod habits;
mod import;
mod manifest;
mod problem;
mod shell;
mod show;
mod sizes;
mod stores;
mod top;
mod upgrade;
mod wait;
pub mod world;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches as _;
use clap::error::ErrorKind;

use crate::args::Cli;
use crate::problem::{Problem, USAGE};
use crate::shell::Shell;
use crate::world::World;

/// Runs what was typed. `program` is the name it was called by, `words` what came after it.
pub async fn run(program: &str, words: Vec<OsString>) -> ExitCode {
    run_with(program, words, Vec::new()).await
}

/// The same where the executable has commands of its own: they are in the help and the completion
/// (see [`command_with`]); it takes care of them before it calls this.
pub async fn run_with(program: &str, words: Vec<OsString>, extra: Vec<clap::Command>) -> ExitCode {
    ExitCode::from(run_in(&World::real(), program, words, extra).await)
}

/// Everything that can be typed.
#[must_use]
pub fn command() -> clap::Command {
    command_with("persys", Vec::new())
}

/// Everything that can be typed, with commands of the executable added. One that has the name of
/// one of ours (`scheduler`, `agent`) is joined with it.
#[must_use]
pub fn command_with(program: &str, extra: Vec<clap::Command>) -> clap::Command {
    args::command(program, extra)
}

/// Whether `words` are for [`run`] where the executable has a command of the same name: `scheduler
/// summary` and `agent health` are, `scheduler` and `agent` with options alone are not.
#[must_use]
pub fn is_ours(words: &[OsString]) -> bool {
    args::is_ours(words)
}

/// Runs what was typed in a given world and tells the exit code.
pub async fn run_in(
    world: &World,
    program: &str,
    words: Vec<OsString>,
    extra: Vec<clap::Command>,
) -> u8 {
    let name = if program.is_empty() { "persys" } else { program };
    let words = habits::translated(words);
    let mut cli = match understand(name, words.clone(), extra.clone()) {
        Ok(cli) => cli,
        Err(error) => {
            let Some(problem) = habits::advice(&words, &error) else {
                return not_understood(world, &error);
            };
            world.remark(problem.text(name, false).as_bytes());
            return problem.code;
        }
    };
    cli.global.verbose |= cli.more;
    let color = shell::color(world, &cli.global);
    match Box::pin(dispatch(world, name, cli, extra)).await {
        Ok(code) => code,
        Err(problem) => {
            if !problem.what.is_empty() {
                world.remark(problem.text(name, color).as_bytes());
            }
            problem.code
        }
    }
}

fn understand(
    name: &str,
    words: Vec<OsString>,
    extra: Vec<clap::Command>,
) -> Result<Cli, clap::Error> {
    let all = std::iter::once(OsString::from(name)).chain(words);
    let matches = args::command(name, extra).try_get_matches_from(all)?;
    Cli::from_arg_matches(&matches)
}

async fn dispatch(
    world: &World,
    program: &str,
    cli: Cli,
    extra: Vec<clap::Command>,
) -> Result<u8, Problem> {
    if let Some(code) = commands::offline(world, program, &cli, extra)? {
        return Ok(code);
    }
    let settings = connect::settings::resolve(&cli.global, world)?;
    let shell =
        Shell { program: program.to_owned(), world: world.clone(), global: cli.global, settings };
    if let Some(note) = &shell.settings.note {
        world.note(&format!("note: {note}"));
    }
    commands::run(&shell, cli.command).await
}

/// Help and version are answers; the rest is a mistake.
fn not_understood(world: &World, error: &clap::Error) -> u8 {
    let text = error.render();
    let rendered = if world.out_terminal { text.ansi().to_string() } else { text.to_string() };
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // Whoever closed the pipe has read enough.
        drop(world.print(rendered.as_bytes()));
        return 0;
    }
    world.remark(rendered.as_bytes());
    USAGE
}
