//! A scheduler or an agent as a process of its own, so that a test can kill it.

use std::process::ExitCode;

fn main() -> ExitCode {
    persys_e2e::part::main(std::env::args_os().nth(1))
}
