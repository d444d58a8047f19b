//! Image references: `[host[:port]/]path[:tag][@sha256:digest]`, nothing else.

use std::sync::Arc;

use super::at::At;
use super::limits::IMAGE_BYTES;
use super::text::{host_and_port, length, shown};

/// A reference that every registry client reads the same way.
pub(super) fn image(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    if text.is_empty() {
        return at.refuse("is missing");
    }
    length(at, text.len(), IMAGE_BYTES)?;
    match problem(text) {
        Some(what) => at.refuse(format!("\"{}\" is not an image: {what}", shown(text))),
        None => Some(Arc::from(text)),
    }
}

fn problem(text: &str) -> Option<&'static str> {
    if !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Some("only visible ASCII is allowed");
    }
    let (name, digest) = match text.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (text, None),
    };
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return Some("after '@' comes 'sha256:' and 64 hex digits, small letters");
    }
    let (host, path) = match name.split_once('/') {
        Some((first, rest)) if is_registry(first) => (Some(first), rest),
        _ => (None, name),
    };
    if host.is_some_and(|host| host_and_port(host).is_none()) {
        return Some("its registry is not host or host:port");
    }
    let (path, tag) = match path.rsplit_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (path, None),
    };
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Some("its tag must be letters, digits, '_', '.', '-', at most 128");
    }
    if !path.split('/').all(is_component) {
        return Some("its path must be small letters and digits, separated by '/', '.', '_', '-'");
    }
    let looks_like_id = path.len() == 64 && path.bytes().all(|b| b.is_ascii_hexdigit());
    (host.is_none() && looks_like_id).then_some("an image id has no registry to be pulled from")
}

/// Docker's rule for telling `host/path` from `path/path`.
fn is_registry(first: &str) -> bool {
    first.contains(['.', ':'])
        || first == "localhost"
        || first.bytes().any(|b| b.is_ascii_uppercase())
}

fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn is_tag(text: &str) -> bool {
    let start = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    start
        && text.len() <= 128
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

/// Runs of letters and digits, joined by one `.`, one or two `_`, or any number of `-`.
fn is_component(text: &str) -> bool {
    let run = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let edge = |b: Option<u8>| b.is_some_and(run);
    if !edge(text.bytes().next()) || !edge(text.bytes().last()) {
        return false;
    }
    text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        .all(|joint| matches!(joint, "" | "." | "_" | "__") || joint.bytes().all(|b| b == b'-'))
}
