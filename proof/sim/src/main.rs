//! The simulator as a program.

use std::process::ExitCode;

fn main() -> ExitCode {
    persys_sim::program::main(std::env::args().skip(1).collect())
}
