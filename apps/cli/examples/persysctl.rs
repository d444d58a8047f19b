//! The commands as a program, to try them by hand.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    persys_cli::run("persysctl", std::env::args_os().skip(1).collect()).await
}
