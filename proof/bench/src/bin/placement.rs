//! `placement [--json PATH] [--quick] [--only REGIME]`: placement decisions against an exact scan.

use std::path::PathBuf;
use std::process::ExitCode;

use persys_bench::placement;

fn main() -> ExitCode {
    let mut json = PathBuf::from("target/bench/placement.json");
    let mut quick = false;
    let mut only = String::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--json" => json = args.next().map_or(json, PathBuf::from),
            "--quick" => quick = true,
            "--only" => only = args.next().unwrap_or_default(),
            _ => {
                placement::say("usage: placement [--json PATH] [--quick] [--only REGIME]");
                return ExitCode::from(2);
            }
        }
    }
    match placement::run(&json, quick, &only) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            placement::say(&format!("{}: {error}", json.display()));
            ExitCode::from(2)
        }
    }
}
