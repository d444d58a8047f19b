//! The one executable: it finds out what it is to be, and composes the apps.
//!
//! ```text
//!   persys dev            everything in one process, for trying and developing
//!   persys scheduler      also under the name persys-scheduler
//!   persys gateway        also under the name persys-gateway
//!   persys agent          also under the name persys-agent
//!   persys doctor         looks at this host and says how to mend what it finds
//!   persys ca             the authority: made, asked, rotated, served
//!   persys join           makes this machine a node
//!   persys probe          asks a component whether it is well
//!   persys …              the commands of people, also under the name persysctl
//! ```

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is where people are told")]

mod ca;
mod component;
mod dev;
mod doctor;
mod enrol;
mod join;
mod open_files;
mod probe;
mod program;
mod settings;
mod telemetry;
mod tell;
#[cfg(test)]
mod views;

use std::process::ExitCode;

/// Most of what is done is to read, make and drop small messages on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The exit code of a command that was not understood.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let called = words.next().unwrap_or_default();
    let (program, words) = program::choose(&called, words.collect());
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("persys: the system gives no threads: {error}");
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(program.run(words))
}
