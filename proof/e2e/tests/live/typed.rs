//! What an operator types.

use std::collections::BTreeMap;
use std::ffi::OsString;

use persys_cli::context::{self, Context};
use persys_cli::world::World;
use persys_e2e::processes::Stack;

/// What became of a command.
#[derive(Debug)]
pub(crate) struct Said {
    /// Its exit code.
    pub(crate) code: u8,
    /// What it printed.
    pub(crate) printed: String,
    /// What it remarked.
    pub(crate) remarked: String,
}

/// Types a command of `persys`, with what stands in `input` for `-`.
pub(crate) async fn typed(stack: &Stack, line: &str, input: &str) -> Said {
    let home = stack.folder_of("home");
    let context = Context {
        endpoint: stack.address_of("scheduler").to_string(),
        identity: Some(stack.operator_file()),
        insecure: false,
        note: None,
    };
    context::write(&home, "here", &context).unwrap();
    context::choose(&home, "here").unwrap();
    let env = BTreeMap::from([("PERSYS_HOME".to_owned(), home.display().to_string())]);
    let world = World::kept(env, input.as_bytes());
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let code = persys_cli::run_in(&world, "persys", words, Vec::new()).await;
    Said { code, printed: world.printed(), remarked: world.remarked() }
}

/// The same, and it must go well; says what it printed.
pub(crate) async fn done(stack: &Stack, line: &str, input: &str) -> String {
    let said = typed(stack, line, input).await;
    assert_eq!(said.code, 0, "{line}: {said:?}");
    said.printed
}
