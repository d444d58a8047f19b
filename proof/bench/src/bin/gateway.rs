//! `gateway [--seconds S] [--rounds R] [--json PATH]`: reads through a gateway against the scheduler's
//! own gRPC, in turns; what idle event streams cost; and one cluster while another stands still.
//!
//! `gateway scheduler FOLDER` and `gateway gateway FOLDER EAST WEST` are processes of their own; the
//! benchmark starts them itself.

use std::process::ExitCode;

use persys_bench::fleet;
use persys_bench::gateway::{self, Options};
use persys_bench::placement::say;

/// As the program itself has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: gateway [--seconds S] [--rounds R] [--json PATH]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["scheduler", folder] => fleet::scheduler(folder.as_ref(), None).map(|()| true),
        ["gateway", folder, east, west] => {
            gateway::serve(folder.as_ref(), &[("east", east), ("west", west)]).map(|()| true)
        }
        _ => {
            let Some(options) = Options::parse(&args) else {
                say(USAGE);
                return ExitCode::from(2);
            };
            gateway::run(&options)
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("gateway: {error}"));
            ExitCode::from(2)
        }
    }
}
