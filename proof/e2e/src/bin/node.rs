//! A scheduler, an agent or a crowd as a process of its own, so that a test can kill it.

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match words.split_first() {
        Some((first, rest)) if first == "crowd" => persys_e2e::crowd::main(rest),
        _ => persys_e2e::part::main(words.into_iter().next()),
    }
}
