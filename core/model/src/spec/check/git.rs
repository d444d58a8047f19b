//! Addresses of repositories, names of their versions, and paths within them.
//!
//! All end up on a command line, so none may look like an option, run a helper (`ext::`), or
//! carry a password: addresses are shown to people and written to logs. Whether `file` is allowed
//! is decided by the configuration of who fetches.

use std::sync::Arc;

use super::at::At;
use super::limits::{GIT_REF_BYTES, GIT_URL_BYTES, PATH_BYTES};
use super::text::{host_and_port, is_host, length, shown};

const SCHEMES: &str = "is not an address: https://host/path, ssh://user@host/path, \
                       user@host:path or file:///path";
const NO_CREDENTIALS: &str = "carries credentials; keep them out of the address and refer to a \
                              token or key instead";

/// An address. Not quoted in problems: it may carry a password.
pub(super) fn repository(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    if text.is_empty() {
        return at.refuse("is missing");
    }
    length(at, text.len(), GIT_URL_BYTES)?;
    match problem(text) {
        Some(what) => at.refuse(what),
        None => Some(Arc::from(text)),
    }
}

fn problem(text: &str) -> Option<&'static str> {
    if !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Some("must be visible ASCII; write other characters as %XX");
    }
    if let Some(rest) = text.strip_prefix("https://") {
        return remote(rest, User::Forbidden);
    }
    if let Some(rest) = text.strip_prefix("ssh://") {
        return remote(rest, User::Allowed);
    }
    if let Some(path) = text.strip_prefix("file://") {
        return if path.starts_with('/') { path_problem(path) } else { Some(SCHEMES) };
    }
    if text.contains("://") || text.contains("::") {
        return Some(SCHEMES);
    }
    scp_like(text)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum User {
    Allowed,
    Forbidden,
}

fn remote(rest: &str, user: User) -> Option<&'static str> {
    let Some((authority, path)) = rest.split_once('/') else {
        return Some("has no path after the host");
    };
    let host = match authority.rsplit_once('@') {
        Some((name, _)) if user == User::Forbidden || !is_user(name) => {
            return Some(NO_CREDENTIALS);
        }
        Some((_, host)) => host,
        None => authority,
    };
    if host_and_port(host).is_none() {
        return Some("its host is not a host or host:port");
    }
    path_problem(path)
}

/// `user@host:path`, as ssh users write it.
fn scp_like(text: &str) -> Option<&'static str> {
    let Some((user, rest)) = text.split_once('@') else {
        return Some(SCHEMES);
    };
    let Some((host, path)) = rest.split_once(':') else {
        return Some(SCHEMES);
    };
    if !is_user(user) {
        return Some(NO_CREDENTIALS);
    }
    if !is_host(host) {
        return Some("its host is not a host");
    }
    path_problem(path)
}

/// A bare user name: no password after a colon, no option.
fn is_user(text: &str) -> bool {
    let start = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    start && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

fn path_problem(path: &str) -> Option<&'static str> {
    if path.trim_matches('/').is_empty() {
        return Some("has no path after the host");
    }
    if path.contains(['?', '#', '\\', '"', '\'', '`', '$', ';', '|', '<', '>']) {
        return Some("its path has a character that no repository needs");
    }
    let bad = |part: &str| part.starts_with('-') || part == "..";
    path.split('/').any(bad).then_some("its path has a part that is '..' or starts with '-'")
}

/// Branch, tag or commit; empty means the default branch.
pub(super) fn reference(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    length(at, text.len(), GIT_REF_BYTES)?;
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'/' | b'-');
    let sound = text.bytes().all(known)
        && !text.starts_with(['-', '/', '.'])
        && !text.ends_with(['/', '.'])
        && !["..", "//", "/."].iter().any(|pair| text.contains(pair))
        && !text.split('/').any(|part| part.strip_suffix(".lock").is_some());
    if !sound {
        return at.refuse(format!(
            "\"{}\" is not a branch, tag or commit: letters, digits, '.', '_', '/', '-'",
            shown(text)
        ));
    }
    Some(Arc::from(text))
}

/// A path within a repository: relative, and no part of it a way out, an option or git's own. Empty
/// stays empty.
pub(super) fn path_within(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    length(at, text.len(), PATH_BYTES)?;
    let is_sound = |part: &str| {
        !matches!(part, "" | "." | "..")
            && !part.starts_with('-')
            && !part.eq_ignore_ascii_case(".git")
            && !part.chars().any(|c| c.is_control() || matches!(c, ':' | '\\'))
    };
    if !text.is_empty() && !text.split('/').all(is_sound) {
        return at.refuse(format!(
            "\"{}\" is not a path within a repository, such as deploy/compose.yaml",
            shown(text)
        ));
    }
    Some(Arc::from(text))
}

/// The full name of a commit, in either of git's two lengths.
pub(super) fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
