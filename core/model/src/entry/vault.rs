//! A secret whose value is kept by Vault's key/value engine.
//!
//! The record names a place in Vault; the scheduler reads the value from there and keeps the last one
//! sealed in the same record, so that a Vault that is away stops no restart.

use std::fmt;
use std::sync::Arc;

use crate::time::WallMillis;

/// Longest mount, path or field.
const MOST_BYTES: usize = 256;

/// The version of the key/value engine behind a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KvVersion {
    /// Values are at `<mount>/<path>`.
    One,
    /// Values have versions and are at `<mount>/data/<path>`; the newest is read.
    Two,
}

impl KvVersion {
    /// As people write it.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }

    /// The version with that number.
    #[must_use]
    pub fn of(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::One),
            2 => Some(Self::Two),
            _ => None,
        }
    }
}

/// A value in Vault. Its parts are checked, so that no part can name anything but what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VaultPath {
    mount: Arc<str>,
    path: Arc<str>,
    field: Arc<str>,
    version: KvVersion,
}

/// A part that names nothing in Vault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{part}: {text:?} is not usable: words of letters, digits and -_.=@+ with / between them, up to \
     {MOST_BYTES} bytes"
)]
pub struct BadVaultPath {
    /// `mount`, `path` or `field`.
    pub part: &'static str,
    /// As it was given.
    pub text: String,
}

impl VaultPath {
    /// Checks the parts.
    pub fn new(
        mount: &str,
        path: &str,
        field: &str,
        version: KvVersion,
    ) -> Result<Self, BadVaultPath> {
        let bad = |part, text: &str| BadVaultPath { part, text: text.to_owned() };
        if !is_path(mount) {
            return Err(bad("mount", mount));
        }
        if !is_path(path) {
            return Err(bad("path", path));
        }
        if !is_path(field) || field.contains('/') {
            return Err(bad("field", field));
        }
        let (mount, path, field) = (Arc::from(mount), Arc::from(path), Arc::from(field));
        Ok(Self { mount, path, field, version })
    }

    /// Where the engine is mounted.
    #[must_use]
    pub fn mount(&self) -> &str {
        &self.mount
    }

    /// The path within the mount.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The field of what is there.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The version of the engine.
    #[must_use]
    pub fn version(&self) -> KvVersion {
        self.version
    }

    /// The path that is read, as policies of Vault write it.
    #[must_use]
    pub fn api_path(&self) -> String {
        let Self { mount, path, .. } = self;
        match self.version {
            KvVersion::One => format!("{mount}/{path}"),
            KvVersion::Two => format!("{mount}/data/{path}"),
        }
    }

    /// True if what is read is at `prefix` or below it. Compared word by word, and on the path that is
    /// really read: whoever may read `kv/a` may read neither `kv/ab` nor `kv/data/a`.
    #[must_use]
    pub fn is_within(&self, prefix: &str) -> bool {
        let read = self.api_path();
        match read.strip_prefix(prefix) {
            Some(rest) => is_path(prefix) && (rest.is_empty() || rest.starts_with('/')),
            None => false,
        }
    }
}

impl fmt::Display for VaultPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.api_path(), self.field)
    }
}

/// True for words with `/` between them that need no quoting in a URL and climb nowhere.
#[must_use]
pub fn is_path(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.=@+".contains(&byte);
    let word =
        |word: &str| !word.is_empty() && word != "." && word != ".." && word.bytes().all(letter);
    text.len() <= MOST_BYTES && text.split('/').all(word)
}

/// What becomes of running workloads when the value changes in Vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum OnChange {
    /// They get it when they are next started.
    #[default]
    Leave,
    /// They are restarted, one after another.
    Restart,
}

impl OnChange {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Leave => "leave",
            Self::Restart => "restart",
        }
    }

    /// The one with that word; nothing means the usual.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "" | "leave" => Some(Self::Leave),
            "restart" => Some(Self::Restart),
            _ => None,
        }
    }
}

/// Where the value of a secret comes from, if not from whoever set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VaultSource {
    /// The value in Vault.
    pub at: VaultPath,
    /// What a change means.
    pub on_change: OnChange,
    /// When the sealed value was read; none until it was read for the first time, and then what is
    /// sealed is empty.
    pub fetched_at: Option<WallMillis>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mount: &str, path: &str, version: KvVersion) -> VaultPath {
        VaultPath::new(mount, path, "password", version).unwrap()
    }

    #[test]
    fn a_prefix_counts_word_by_word_and_on_what_is_really_read() {
        let (one, two) = (KvVersion::One, KvVersion::Two);
        for (path, prefix, wanted) in [
            (at("kv", "team-a/db", one), "kv/team-a", true),
            (at("kv", "team-a", one), "kv/team-a", true),
            (at("kv", "team-ab/db", one), "kv/team-a", false),
            (at("kv", "team-b/db", one), "kv/team-a", false),
            (at("kv", "team-a/db", two), "kv/team-a", false),
            (at("kv", "team-a/db", two), "kv/data/team-a", true),
            (at("kv", "data/team-a/db", one), "kv/data/team-a", true),
            (at("kv/data", "team-a/db", one), "kv/data/team-a", true),
            (at("kv", "team-a/db", one), "kv", true),
            (at("kv", "team-a/db", one), "kv/", false),
            (at("kv", "team-a/db", one), "", false),
            (at("kv", "team-a/db", one), "k", false),
            (at("sys", "mounts", one), "kv", false),
        ] {
            assert_eq!(path.is_within(prefix), wanted, "{path} in {prefix:?}");
        }
    }

    #[test]
    fn nothing_climbs_out_or_hides_in_a_url() {
        for bad in [
            "", "/a", "a/", "a//b", "..", "a/../b", "a/./b", "a%2fb", "a?b", "a#b", "a b", "a\nb",
            "a\\b", "\u{e9}", "a:b",
        ] {
            assert!(VaultPath::new(bad, "x", "f", KvVersion::One).is_err(), "mount {bad:?}");
            assert!(VaultPath::new("kv", bad, "f", KvVersion::Two).is_err(), "path {bad:?}");
            assert!(VaultPath::new("kv", "x", bad, KvVersion::Two).is_err(), "field {bad:?}");
        }
        assert!(VaultPath::new("kv", "x", "a/b", KvVersion::Two).is_err());
        assert!(VaultPath::new("kv", &"x".repeat(300), "a", KvVersion::Two).is_err());
    }
}
