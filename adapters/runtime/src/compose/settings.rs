//! What can be set about Compose stacks.

use std::path::PathBuf;
use std::time::Duration;

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The Compose program: a path, or a name such as `docker-compose` that is looked for in the usual
    /// folders; `None` looks for any there. A program named `docker` is asked for its `compose` command.
    pub program: Option<PathBuf>,
    /// Where the agent keeps what it knows of each stack. Nobody else may read it: documents carry
    /// passwords.
    pub folder: PathBuf,
    /// How long it may take until a stack is up.
    pub up: Duration,
}

impl Settings {
    /// The usual ones, with `folder` to keep things in.
    #[must_use]
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { program: None, folder, up: Duration::from_mins(10) }
    }
}
