//! Addresses of repositories, names of their versions and paths within them, at their place in a draft.

use std::sync::Arc;

use super::at::At;
use crate::repository;

pub(super) use crate::repository::is_commit;

fn read(at: &At<'_>, read: Result<Arc<str>, String>) -> Option<Arc<str>> {
    match read {
        Ok(sound) => Some(sound),
        Err(problem) => at.refuse(problem),
    }
}

/// An address. Not quoted in problems: it may carry a password.
pub(super) fn repository(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    read(at, repository::Repository::read(text).map(|repository| repository.address))
}

/// Branch, tag or commit; empty means the default branch.
pub(super) fn reference(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    read(at, repository::reference(text))
}

/// A path within a repository. Empty stays empty.
pub(super) fn path_within(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    read(at, repository::file(text))
}
