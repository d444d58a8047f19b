//! The one executable: it parses its arguments and composes the apps.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is where people are told")]

mod arguments;
mod dev;

use std::process::ExitCode;

use arguments::Arguments;

#[tokio::main]
async fn main() -> ExitCode {
    match arguments::parse(std::env::args().skip(1)) {
        Ok(Arguments::Help) => {
            println!("{}", arguments::HELP);
            ExitCode::SUCCESS
        }
        Ok(Arguments::Version) => {
            println!("persys {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Ok(Arguments::Dev(options)) => match dev::run(options).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("persys dev: {}", chain(&error));
                eprintln!("other ports or another folder: see `persys help`");
                ExitCode::FAILURE
            }
        },
        Err(problem) => {
            eprintln!("persys: {problem}\n\n{}", arguments::HELP);
            ExitCode::from(arguments::USAGE)
        }
    }
}

/// An error and everything behind it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(behind) = source {
        text = format!("{text}: {behind}");
        source = behind.source();
    }
    text
}
