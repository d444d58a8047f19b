//! Addresses of repositories, names of their versions, and paths of files in them.
//!
//! All three end up on a command line, so none may look like an option, run a helper (`ext::`), or
//! carry a password: addresses are shown to people and written to logs. Which protocols are allowed
//! is decided by the configuration of who fetches.

use std::sync::Arc;

use persys_compose::grammar::{host_and_port, is_host};

use crate::spec::check::limits::{GIT_REF_BYTES, GIT_URL_BYTES, PATH_BYTES};
use crate::spec::check::text::shown;

const SCHEMES: &str = "is not an address: https://host/path, ssh://user@host/path, \
                       user@host:path or file:///path";
const NO_CREDENTIALS: &str = "carries credentials; keep them out of the address and refer to a \
                              token or key instead";
const NO_PATH: &str = "has no path after the host";

/// How a repository is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TLS.
    Https,
    /// A shell of somebody else.
    Ssh,
    /// A folder of the host that fetches.
    File,
    /// In the clear; for trying out.
    Http,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Https, Self::Ssh, Self::File, Self::Http];

    /// Its word in addresses.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Ssh => "ssh",
            Self::File => "file",
            Self::Http => "http",
        }
    }
}

/// The address of a repository, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// How it is reached.
    pub protocol: Protocol,
    /// Where; `None` for a folder of the host.
    pub host: Option<Arc<str>>,
    /// The whole address, as it was given.
    pub address: Arc<str>,
}

impl Repository {
    /// The address `text`, or what is wrong with it. The text is not quoted: it may carry a password.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("is missing".to_owned());
        }
        within(text, GIT_URL_BYTES)?;
        let (protocol, host) = parts(text)?;
        Ok(Self { protocol, host: host.map(Arc::from), address: Arc::from(text) })
    }
}

/// Whether the address `text` is of the repository with this path, such as `org/shop`: whatever its
/// host, and whatever folder of the host it is in.
#[must_use]
pub fn is_of(text: &str, path: &str) -> bool {
    let plain = |path: &str| {
        let path = path.trim_matches('/');
        path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/').to_ascii_lowercase()
    };
    let own = match text.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => text.split_once(':').map_or("", |(_, path)| path),
    };
    let (own, path) = (plain(own), plain(path));
    !path.is_empty()
        && (own == path || own.strip_suffix(&path).is_some_and(|rest| rest.ends_with('/')))
}

/// Whether what `reference` stands for may be another commit when `pushed` moved, which is bare or a
/// full name such as `refs/heads/main`. Nothing stands for the default branch, which may be any.
#[must_use]
pub fn may_move(reference: &str, pushed: &str) -> bool {
    let bare = |name: &str| {
        let parts = ["refs/heads/", "refs/tags/"];
        parts.iter().find_map(|part| name.strip_prefix(part)).unwrap_or(name).to_owned()
    };
    !pushed.is_empty()
        && (reference.is_empty() || reference == "HEAD" || bare(reference) == bare(pushed))
}

fn parts(text: &str) -> Result<(Protocol, Option<&str>), &'static str> {
    if !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("must be visible ASCII; write other characters as %XX");
    }
    if let Some(path) = text.strip_prefix("file://") {
        return if path.starts_with('/') {
            folder(path).map(|()| (Protocol::File, None))
        } else {
            Err(SCHEMES)
        };
    }
    let schemes = [
        ("https://", Protocol::Https, User::Forbidden),
        ("http://", Protocol::Http, User::Forbidden),
        ("ssh://", Protocol::Ssh, User::Allowed),
    ];
    for (scheme, protocol, user) in schemes {
        if let Some(rest) = text.strip_prefix(scheme) {
            return remote(rest, user).map(|host| (protocol, Some(host)));
        }
    }
    if text.contains("://") || text.contains("::") {
        return Err(SCHEMES);
    }
    scp_like(text).map(|host| (Protocol::Ssh, Some(host)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum User {
    Allowed,
    Forbidden,
}

fn remote(rest: &str, user: User) -> Result<&str, &'static str> {
    let Some((authority, path)) = rest.split_once('/') else {
        return Err(NO_PATH);
    };
    let place = match authority.rsplit_once('@') {
        Some((name, _)) if user == User::Forbidden || !is_user(name) => {
            return Err(NO_CREDENTIALS);
        }
        Some((_, place)) => place,
        None => authority,
    };
    let Some((host, _)) = host_and_port(place) else {
        return Err("its host is not a host or host:port");
    };
    folder(path).map(|()| host)
}

/// `user@host:path`, as ssh users write it.
fn scp_like(text: &str) -> Result<&str, &'static str> {
    let (user, rest) = text.split_once('@').ok_or(SCHEMES)?;
    let (host, path) = rest.split_once(':').ok_or(SCHEMES)?;
    if !is_user(user) {
        return Err(NO_CREDENTIALS);
    }
    if !is_host(host) {
        return Err("its host is not a host");
    }
    folder(path).map(|()| host)
}

/// A bare user name: no password after a colon, no option.
fn is_user(text: &str) -> bool {
    let start = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    start && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

fn folder(path: &str) -> Result<(), &'static str> {
    if path.trim_matches('/').is_empty() {
        return Err(NO_PATH);
    }
    if path.contains(['?', '#', '\\', '"', '\'', '`', '$', ';', '|', '<', '>']) {
        return Err("its path has a character that no repository needs");
    }
    if path.split('/').any(|part| part.starts_with('-') || part == "..") {
        return Err("its path has a part that is '..' or starts with '-'");
    }
    Ok(())
}

/// A branch, tag or commit; empty means the default branch.
pub fn reference(text: &str) -> Result<Arc<str>, String> {
    within(text, GIT_REF_BYTES)?;
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'/' | b'-');
    let sound = text.bytes().all(known)
        && !text.starts_with(['-', '/', '.'])
        && !text.ends_with(['/', '.'])
        && !["..", "//", "/."].iter().any(|pair| text.contains(pair))
        && !text.split('/').any(|part| part.strip_suffix(".lock").is_some());
    if !sound {
        return Err(format!(
            "\"{}\" is not a branch, tag or commit: letters, digits, '.', '_', '/', '-'",
            shown(text)
        ));
    }
    Ok(Arc::from(text))
}

/// Whether `text` is a commit by its full name.
#[must_use]
pub fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64)
        && text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'))
}

/// The path of a file within a repository: relative, and no part of it a way out, an option or git's
/// own. Empty means the usual names of a Compose file.
pub fn file(text: &str) -> Result<Arc<str>, String> {
    within(text, PATH_BYTES)?;
    let is_sound = |part: &str| {
        !matches!(part, "" | "." | "..")
            && !part.starts_with('-')
            && !part.eq_ignore_ascii_case(".git")
            && !part.chars().any(|c| c.is_control() || matches!(c, ':' | '\\'))
    };
    if !text.is_empty() && !text.split('/').all(is_sound) {
        return Err(format!(
            "\"{}\" is not a path within a repository, such as deploy/compose.yaml",
            shown(text)
        ));
    }
    Ok(Arc::from(text))
}

fn within(text: &str, most: usize) -> Result<(), String> {
    if text.len() > most {
        return Err(format!("has {} bytes; at most {most} are allowed", text.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_tells_how_and_where() {
        for (text, protocol, host) in [
            ("https://git.test:8443/a/b.git", Protocol::Https, Some("git.test")),
            ("http://[::1]:80/a", Protocol::Http, Some("[::1]")),
            ("ssh://git@git.test/a", Protocol::Ssh, Some("git.test")),
            ("git@git.test:a/b.git", Protocol::Ssh, Some("git.test")),
            ("file:///srv/a.git", Protocol::File, None),
        ] {
            let read = Repository::read(text).unwrap();
            assert_eq!((read.protocol, read.host.as_deref()), (protocol, host), "{text}");
            assert_eq!(&*read.address, text);
        }
    }

    #[test]
    fn a_path_stays_within_the_repository_and_is_no_option() {
        for sound in ["", "compose.yaml", "deploy/prod/docker-compose.yml", "a+b/.env.d/x_1"] {
            assert_eq!(&*file(sound).unwrap(), sound);
        }
        let long = "a".repeat(PATH_BYTES + 1);
        for hostile in [
            "/etc/passwd",
            "../x",
            "a/../../x",
            "a/..",
            "./a",
            "a//b",
            "a/",
            "-x",
            "a/-x",
            "--output=/etc/x",
            "a\nb",
            "a\0b",
            ".git/config",
            "a/.GIT/x",
            ":(top)a",
            "HEAD:a",
            "a\\b",
            long.as_str(),
        ] {
            assert!(file(hostile).is_err(), "{hostile:?}");
        }
    }

    #[test]
    fn a_commit_is_named_in_full() {
        assert!(is_commit(&"0a".repeat(20)) && is_commit(&"0a".repeat(32)));
        for not in ["", "abc1234", &"0A".repeat(20), &"0g".repeat(20)] {
            assert!(!is_commit(not), "{not}");
        }
    }

    #[test]
    fn a_push_is_told_from_one_elsewhere() {
        for (address, path, is) in [
            ("https://git.test/org/shop.git", "org/shop", true),
            ("https://git.test/Org/Shop", "org/shop", true),
            ("git@git.test:org/shop.git", "org/shop", true),
            ("ssh://git@git.test:22/org/shop/", "org/shop.git", true),
            ("file:///srv/git/org/shop.git", "org/shop", true),
            ("https://git.test/org/shop2", "org/shop", false),
            ("https://git.test/my-org/shop", "org/shop", false),
            ("https://git.test/org/shop", "shop2", false),
            ("https://git.test/org/shop", "", false),
            ("https://git.test/org/shop", "/", false),
        ] {
            assert_eq!(is_of(address, path), is, "{address} {path}");
        }
        for (reference, pushed, may) in [
            ("main", "refs/heads/main", true),
            ("refs/heads/main", "main", true),
            ("v1", "refs/tags/v1", true),
            ("", "refs/heads/anything", true),
            ("main", "refs/heads/main2", false),
            ("main", "", false),
        ] {
            assert_eq!(may_move(reference, pushed), may, "{reference} {pushed}");
        }
    }
}
