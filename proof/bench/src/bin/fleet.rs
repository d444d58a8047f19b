//! `fleet [--store embedded|etcd] [--agents N] [--workloads W] [--concurrency C] [--idle SECONDS]
//! [--json PATH]`: a scheduler and a fleet of agents over mTLS, from submission to running.
//! `--traces 1 [--share S]` measures what traces cost instead.
//!
//! `fleet scheduler FOLDER [ETCD]`, `fleet side …` and `fleet collector` are processes of the benchmark,
//! which starts them itself.

use std::process::ExitCode;

use persys_bench::fleet::{self, Options};
use persys_bench::placement::say;

/// As the program itself has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: fleet [--store embedded|etcd] [--agents N] [--workloads W] \
                     [--concurrency C] [--idle SECONDS] [--json PATH] [--traces 1] [--share S]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = if let [word, folder, etcd @ ..] = args.as_slice()
        && word == "scheduler"
    {
        fleet::scheduler(folder.as_ref(), etcd.first().map(String::as_str)).map(|()| true)
    } else if args == ["collector"] {
        fleet::collector().map(|()| true)
    } else if let [word, rest @ ..] = args.as_slice()
        && word == "side"
        && let Some(options) = Options::parse(rest)
    {
        fleet::side(&options).map(|()| true)
    } else if let Some(options) = Options::parse(&args) {
        fleet::run(&options)
    } else {
        say(USAGE);
        return ExitCode::from(2);
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::from(2)
        }
    }
}

/// Not on standard output: where this is a process of the benchmark, that is read.
#[expect(clippy::print_stderr, reason = "this is where people look")]
fn complain(why: &str) {
    eprintln!("fleet: {why}");
}
