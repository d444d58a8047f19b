//! `compose [JSON] [--quick]`: bringing stacks up through persys, against the Compose program itself.

use std::path::Path;
use std::process::ExitCode;

use persys_bench::{compose, docker};

fn main() -> ExitCode {
    let argument = std::env::args_os().nth(1);
    // The benchmark starts itself as scheduler and as agent, with a plan.
    if argument.as_ref().is_some_and(|path| Path::new(path).extension() == Some("plan".as_ref())) {
        return persys_e2e::part::main(argument);
    }
    let json = argument.unwrap_or_else(|| "target/bench/compose.json".into());
    let quick = std::env::args_os().nth(2).is_some_and(|word| word == "--quick");
    let scale = if quick { compose::Scale::QUICK } else { compose::Scale::FULL };
    match compose::run(Path::new(&json), scale) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            docker::say(&format!("{}: {error}", Path::new(&json).display()));
            ExitCode::from(2)
        }
    }
}
