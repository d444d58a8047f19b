//! `chaos`: a run from a seed. It ends with 1 if a promise was broken, and with 2 if it could not run.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "people read it")]

use std::process::ExitCode;

use persys_chaos::Fault;
use persys_chaos::options::Options;
use persys_chaos::report::Report;
use persys_chaos::run;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(fault) => {
            eprintln!("chaos: {fault}");
            return ExitCode::from(2);
        }
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(unless_told_to_end(&options)),
        Err(fault) => Err(fault.into()),
    };
    match result {
        Ok(report) => {
            print!("{}", report.page());
            if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(fault) => {
            eprintln!("chaos: seed {}: {fault}", options.seed);
            ExitCode::from(2)
        }
    }
}

/// Whoever ends it early leaves nothing behind either.
async fn unless_told_to_end(options: &Options) -> Result<Report, Fault> {
    let mut told = signal(SignalKind::terminate())?;
    tokio::select! {
        result = run::run(options, &|line| println!("{line}")) => result,
        _ = told.recv() => Err("told to end".into()),
        _ = tokio::signal::ctrl_c() => Err("told to end".into()),
    }
}
