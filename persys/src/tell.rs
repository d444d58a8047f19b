//! Telling people: sentences, faults, help.

use std::ffi::OsString;
use std::process::ExitCode;

/// An error and everything behind it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(behind) = source {
        let next = behind.to_string();
        // Some errors repeat what is behind them.
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
        source = behind.source();
    }
    text
}

/// What was typed after `name`; or what the process ends with, once help or the fault was shown.
pub(crate) fn typed<T: clap::Parser>(name: &str, words: Vec<OsString>) -> Result<T, ExitCode> {
    let words = std::iter::once(OsString::from(name)).chain(words);
    T::try_parse_from(words).map_err(|error| not_understood(&error))
}

/// Shows what the library says of the words, and what the process ends with: help is an error to the
/// library and none to people.
pub(crate) fn not_understood(error: &clap::Error) -> ExitCode {
    let code = if error.use_stderr() { crate::USAGE } else { 0 };
    drop(error.print());
    ExitCode::from(code)
}

/// Says what is wrong, each fault on a line.
pub(crate) fn faults(program: &str, faults: &[String]) -> ExitCode {
    for fault in faults {
        eprintln!("{program}: {fault}");
    }
    ExitCode::from(crate::USAGE)
}
