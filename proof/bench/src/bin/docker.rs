//! `docker [JSON] [--quick]`: starting containers through persys, against Docker itself and Swarm.

use std::path::Path;
use std::process::ExitCode;

use persys_bench::docker;

fn main() -> ExitCode {
    let argument = std::env::args_os().nth(1);
    // The benchmark starts itself as scheduler and as agent, with a plan.
    if argument.as_ref().is_some_and(|path| Path::new(path).extension() == Some("plan".as_ref())) {
        return persys_e2e::part::main(argument);
    }
    let json = argument.unwrap_or_else(|| "target/bench/docker.json".into());
    let quick = std::env::args_os().nth(2).is_some_and(|word| word == "--quick");
    let scale = if quick { docker::Scale::QUICK } else { docker::Scale::FULL };
    match docker::run(Path::new(&json), scale) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            docker::say(&format!("{}: {error}", Path::new(&json).display()));
            ExitCode::from(2)
        }
    }
}
