//! The one executable: it finds out what it is to be, and composes the apps.
//!
//! ```text
//!   persys dev            everything in one process, for trying and developing
//!   persys scheduler      also under the name persys-scheduler
//!   persys agent          also under the name persys-agent
//!   persys doctor         looks at this host and says how to mend what it finds
//!   persys …              the commands of people, also under the name persysctl
//! ```

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is where people are told")]

mod component;
mod dev;
mod doctor;
mod program;
mod settings;
mod tell;

use std::process::ExitCode;

use program::Program;

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
    runtime.block_on(async {
        match program {
            Program::Scheduler => component::scheduler(words).await,
            Program::Agent => component::agent(words).await,
            Program::Doctor => component::doctor(words).await,
            Program::Dev => dev::run(words).await,
            Program::Watchdog => component::watchdog(words).await,
            Program::Commands(name) => {
                persys_cli::run_with(name, words, component::commands()).await
            }
        }
    })
}
