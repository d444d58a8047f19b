//! Names, checked once at the edge.
//!
//! A name that exists as one of these types is safe in a store key, a path component, a container
//! name and an argument list: it starts and ends with a letter or digit, so it can be neither an
//! option nor a parent folder.

use std::sync::Arc;

/// Why a text is not a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing was given.
    #[error("is empty")]
    Empty,
    /// Longer than the limit.
    #[error("is longer than {limit} characters")]
    TooLong {
        /// The limit that was passed.
        limit: usize,
    },
    /// A character outside the alphabet.
    #[error(
        "has the character {found:?} at position {at}; allowed are a-z, 0-9, and inside also '-', '_', '.'"
    )]
    Character {
        /// The offending character.
        found: char,
        /// Its position, counted in characters from 0.
        at: usize,
    },
    /// A character that a name cannot have that stands in front of a dot.
    #[error(
        "has the character {found:?} at position {at}; allowed are a-z, 0-9, and inside also '-'"
    )]
    NotInLabel {
        /// The offending character.
        found: char,
        /// Its position, counted in characters from 0.
        at: usize,
    },
    /// A character that nobody's name can have.
    #[error("has the character {found:?} at position {at}; allowed is visible ASCII but '/'")]
    NotInSubject {
        /// The offending character.
        found: char,
        /// Its position, counted in characters from 0.
        at: usize,
    },
    /// Starts or ends with punctuation.
    #[error("must start and end with a letter or digit")]
    Edge,
    /// Two dots in a row.
    #[error("must not contain '..'")]
    DoubleDot,
}

fn check_name(text: &str, limit: usize) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > limit {
        return Err(NameError::TooLong { limit });
    }
    for (at, found) in text.chars().enumerate() {
        if !matches!(found, 'a'..='z' | '0'..='9' | '-' | '_' | '.') {
            return Err(NameError::Character { found, at });
        }
    }
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    if !edge(text.as_bytes().first()) || !edge(text.as_bytes().last()) {
        return Err(NameError::Edge);
    }
    if text.contains("..") {
        return Err(NameError::DoubleDot);
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $limit:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The longest text this name may have, in bytes.
            pub const LIMIT: usize = $limit;

            /// Checks `text` and keeps it.
            pub fn new(text: &str) -> Result<Self, NameError> {
                check_name(text, Self::LIMIT)?;
                Ok(Self(Arc::from(text)))
            }

            /// A name of our own, known to be well formed.
            #[must_use]
            pub fn fixed(text: &'static str) -> Self {
                debug_assert!(check_name(text, Self::LIMIT).is_ok(), "{text:?} is not a name");
                Self(Arc::from(text))
            }

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// One machine that runs workloads.
    NodeId, 128
);
name!(
    /// One workload, stable across retries, updates and moves.
    WorkloadId, 63
);
name!(
    /// A storage pool of a node.
    PoolName, 63
);
name!(
    /// A managed volume.
    VolumeName, 63
);
name!(
    /// A secret, within its namespace.
    SecretName, 63
);
name!(
    /// A storage driver, such as `local` or `ceph-rbd`.
    DriverName, 63
);

name!(
    /// A record of the cluster among those of its kind.
    EntryName, 128
);

impl EntryName {
    /// The name of a record that belongs to a namespace. It fits: both parts are half as long.
    #[must_use]
    pub fn dotted(namespace: &NamespaceName, name: &SecretName) -> Self {
        Self(Arc::from(format!("{namespace}.{name}")))
    }
}

/// A part of the cluster. A single DNS label: it has no dot, so that it can stand in front of one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceName(Arc<str>);

impl NamespaceName {
    /// The longest text this name may have, in bytes.
    pub const LIMIT: usize = 63;

    /// Checks `text` and keeps it.
    pub fn new(text: &str) -> Result<Self, NameError> {
        check_name(text, Self::LIMIT)?;
        match text.chars().enumerate().find(|(_, found)| matches!(found, '.' | '_')) {
            Some((at, found)) => Err(NameError::NotInLabel { found, at }),
            None => Ok(Self(Arc::from(text))),
        }
    }

    /// A name of our own, known to be well formed.
    #[must_use]
    pub fn fixed(text: &'static str) -> Self {
        debug_assert!(Self::new(text).is_ok(), "{text:?} is not a namespace");
        Self(Arc::from(text))
    }

    /// Where workloads are that name no other.
    #[must_use]
    pub fn default_one() -> Self {
        Self::fixed("default")
    }

    /// The name of its record.
    #[must_use]
    pub fn entry(&self) -> EntryName {
        EntryName(Arc::clone(&self.0))
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for NamespaceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who somebody is, as a certificate or a login says: a name, an address, a number. Shown and
/// compared, never part of a path: visible ASCII without `/`, up to 128 characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubjectName(Arc<str>);

impl SubjectName {
    /// The longest text this name may have, in bytes.
    pub const LIMIT: usize = 128;

    /// Checks `text` and keeps it.
    pub fn new(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > Self::LIMIT {
            return Err(NameError::TooLong { limit: Self::LIMIT });
        }
        let bad = |found: &char| !found.is_ascii_graphic() || *found == '/';
        match text.chars().enumerate().find(|(_, found)| bad(found)) {
            Some((at, found)) => Err(NameError::NotInSubject { found, at }),
            None => Ok(Self(Arc::from(text))),
        }
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for SubjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl WorkloadId {
    /// The name of an order that is about a volume; see [`crate::volume::VolumeKey::order_id`].
    pub(crate) fn of_volume(text: &str) -> Self {
        Self(Arc::from(text))
    }
}

/// A client's name for one version of a spec, or the hash we gave it. Shown and compared, never
/// part of a path: any visible ASCII up to 128 characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RevisionId(Arc<str>);

impl RevisionId {
    /// The longest text a revision may have, in bytes.
    pub const LIMIT: usize = 128;

    /// Checks `text` and keeps it.
    pub fn new(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > Self::LIMIT {
            return Err(NameError::TooLong { limit: Self::LIMIT });
        }
        match text.chars().enumerate().find(|(_, c)| !c.is_ascii_graphic()) {
            Some((at, found)) => Err(NameError::Character { found, at }),
            None => Ok(Self(Arc::from(text))),
        }
    }

    /// A revision of our own, known to be well formed.
    #[must_use]
    pub fn fixed(text: &'static str) -> Self {
        debug_assert!(Self::new(text).is_ok(), "{text:?} is not a revision");
        Self(Arc::from(text))
    }

    /// The name of a version whose client gave it none: 128 bits of its content, in hex.
    #[must_use]
    pub fn of_content(hash: u128) -> Self {
        Self(Arc::from(format!("content-{hash:032x}")))
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for RevisionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_escape_are_refused() {
        let long = "a".repeat(64);
        for bad in [
            "", ".", "..", "a..b", "-rf", "a-", "../x", "a/b", "a b", "A", "ä", "a\0", "a\n", &long,
        ] {
            assert!(WorkloadId::new(bad).is_err(), "{bad:?} was accepted");
        }
        for good in ["a", "web", "web-1", "0af3", "e2e-workload-1", "db.main_2"] {
            assert_eq!(WorkloadId::new(good).map(|id| id.to_string()).as_deref(), Ok(good));
        }
    }

    #[test]
    fn a_namespace_is_one_label() {
        for bad in ["", "a.b", "a_b", "-a", "A", "a/b", &"a".repeat(64)] {
            assert!(NamespaceName::new(bad).is_err(), "{bad:?} was accepted");
        }
        assert!(NamespaceName::new("team-7").is_ok());
    }

    #[test]
    fn a_subject_can_be_an_address_but_no_path() {
        assert!(SubjectName::new("ada@example.com").is_ok());
        for bad in ["", "a/b", "a b", "\u{e4}", "a\n", &"a".repeat(129)] {
            assert!(SubjectName::new(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn a_revision_is_visible_ascii() {
        assert!(RevisionId::new("sha256:ab/cd@1").is_ok());
        assert!(RevisionId::new("rev 1").is_err());
        assert!(RevisionId::new("r\u{e9}v").is_err());
    }
}
