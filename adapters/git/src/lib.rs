//! One file of a repository, at a commit that is then known.
//!
//! ```text
//!   repository · reference · path ──► check ──► room ──► bare folder of its own, gone afterwards
//!                                                 init · fetch · rev-parse · ls-tree · cat-file
//!                                                                 │
//!                                             commit · path · text of the file
//! ```
//!
//! Nothing is ever checked out, so no hook, filter, symlink or submodule has a place to act in. Git
//! runs with an empty environment but for what is named in `command`, may speak only the protocol of
//! the address, follows no redirection, and asks nobody. What it may take of time, memory and disk is
//! bounded, and so is how many of it run.

mod command;
mod credentials;
mod error;
mod fetch;
mod folder;
mod settings;

pub use error::{Error, Step};
pub use fetch::Fetcher;
pub use settings::{Limits, Settings, Ssh, safe_path};

/// Names a Compose file usually has, in the order in which they are looked for.
pub const USUAL_NAMES: [&str; 4] =
    ["compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"];

/// A file in a repository, as somebody asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Address of the repository.
    pub repository: String,
    /// Branch, tag or commit; empty means the default branch.
    pub reference: String,
    /// Path of the file; empty means the first of [`USUAL_NAMES`] that is there.
    pub path: String,
}

/// The file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The commit, by its full name.
    pub commit: String,
    /// Where in the repository the file is.
    pub path: String,
    /// Its text, verbatim.
    pub file: String,
}
