//! Names that end up in paths, registries and command lines: what they may be made of.
//!
//! The same rules hold for containers and for services of a stack, so they stand here once. Each
//! function gives what is wrong, in words, and never quotes what it was given.

use crate::limits::{IMAGE_BYTES, LABEL_KEY_BYTES, NAME_BYTES, PATH_BYTES};

/// Folders in folders of a path within another.
const PATH_PARTS: usize = 16;

/// What is wrong with an image reference, `[host[:port]/]path[:tag][@sha256:digest]`.
#[must_use]
pub fn image_problem(text: &str) -> Option<&'static str> {
    if text.len() > IMAGE_BYTES {
        return Some("it is too long");
    }
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

/// Whether `text` is a host: a DNS name, an IPv4 address, or an IPv6 address in brackets.
#[must_use]
pub fn is_host(text: &str) -> bool {
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return inner.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let label = |part: &str| {
        let bytes = part.as_bytes();
        let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        bytes.len() <= 63
            && edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// Splits `host[:port]`; `None` when either is not well formed.
#[must_use]
pub fn host_and_port(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match text.rsplit_once(':') {
        // A colon inside brackets belongs to the address.
        Some((host, port)) if !port.ends_with(']') => {
            let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
            let port = port.parse::<u16>().ok().filter(|port| digits && *port > 0)?;
            (host, Some(port))
        }
        _ => (text, None),
    };
    is_host(host).then_some((host, port))
}

/// Whether `text` is the path of a file within a folder: no way out of it, and nothing unprintable.
#[must_use]
pub fn is_path_within(text: &str) -> bool {
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.len() <= 255;
    text.len() <= PATH_BYTES
        && text.split('/').count() <= PATH_PARTS
        && text.split('/').all(is_part)
        && !text.chars().any(|c| c.is_control() || c == '\\')
}

/// An absolute path that means what it says: no `.`, `..` or empty parts, nothing unprintable, and
/// neither `:` nor `,`, which separate fields in mount and disk options. A slash at the end is
/// dropped.
pub fn absolute_path(text: &str) -> Result<String, &'static str> {
    if text.len() > PATH_BYTES {
        return Err("is too long for a path");
    }
    let Some(inside) = text.strip_prefix('/') else {
        return Err("is not an absolute path");
    };
    if text.chars().any(|c| c.is_control() || matches!(c, ':' | ',')) {
        return Err("has a ':', a ',' or a control character in it, which no path here may have");
    }
    let inside = inside.strip_suffix('/').unwrap_or(inside);
    if !inside.is_empty() && inside.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("has an empty part, '.' or '..' in it");
    }
    Ok(format!("/{inside}"))
}

/// Whether `text` may name a service, a network or a volume: letters, digits, and after the first
/// also `-`, `_`, `.`. Safe as an argument and as a part of a name.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let inside = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    text.len() <= NAME_BYTES
        && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
        && text.bytes().all(inside)
}

/// Whether `text` may name a variable inside a container. Dots and dashes are in use there.
#[must_use]
pub fn is_variable(text: &str) -> bool {
    let start = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    let inside = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    text.bytes().next().is_some_and(start) && text.bytes().all(inside)
}

/// What is wrong with a label's key.
#[must_use]
pub fn label_key_problem(key: &str) -> Option<&'static str> {
    let start = key.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    if !start
        || key.len() > LABEL_KEY_BYTES
        || !key.bytes().all(|b| b.is_ascii_graphic() && b != b'=')
    {
        return Some("is not a label's key: visible ASCII without '=', a letter or digit first");
    }
    ["persys.", "com.docker.compose."]
        .iter()
        .any(|prefix| key.starts_with(prefix))
        .then_some("is a label of ours or of the compose program; choose another key")
}
