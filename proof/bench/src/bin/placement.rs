//! `placement [--json PATH] [--quick]`: placement decisions against an exact scan.

use std::path::PathBuf;
use std::process::ExitCode;

use persys_bench::placement;

fn main() -> ExitCode {
    let mut json = PathBuf::from("target/bench/placement.json");
    let mut quick = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match (arg.as_str(), args.size_hint()) {
            ("--json", _) => json = args.next().map_or(json, PathBuf::from),
            ("--quick", _) => quick = true,
            _ => {
                placement::say("usage: placement [--json PATH] [--quick]");
                return ExitCode::from(2);
            }
        }
    }
    match placement::run(&json, quick) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            placement::say(&format!("{}: {error}", json.display()));
            ExitCode::from(2)
        }
    }
}
