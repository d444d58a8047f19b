//! Addresses of repositories and names of their versions, at their place in a draft.

use std::sync::Arc;

use super::at::At;
use crate::repository;

/// An address. Not quoted in problems: it may carry a password.
pub(super) fn repository(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    match repository::Repository::read(text) {
        Ok(read) => Some(read.address),
        Err(problem) => at.refuse(problem),
    }
}

/// Branch, tag or commit; empty means the default branch.
pub(super) fn reference(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    match repository::reference(text) {
        Ok(reference) => Some(reference),
        Err(problem) => at.refuse(problem),
    }
}
