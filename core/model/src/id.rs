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
    /// A character outside the alphabet of workload ids.
    #[error(
        "has the character {found:?} at position {at}; allowed are a-z, A-Z, 0-9, and inside also '-', '_', '.'"
    )]
    NotInWorkload {
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

/// One workload, stable across retries, updates and moves.
///
/// Clients of the contract also use capital letters, so an id may have them and keeps them. DNS
/// knows no case: a scheduler takes no two workloads whose ids differ in nothing else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadId(Arc<str>);

impl WorkloadId {
    /// The longest text this name may have, in bytes.
    pub const LIMIT: usize = 63;

    /// Checks `text` and keeps it.
    pub fn new(text: &str) -> Result<Self, NameError> {
        check_name(&text.to_ascii_lowercase(), Self::LIMIT).map_err(|error| match error {
            NameError::Character { found: _, at } => {
                let found = text.chars().nth(at).unwrap_or_default();
                NameError::NotInWorkload { found, at }
            }
            NameError::Empty
            | NameError::TooLong { .. }
            | NameError::NotInWorkload { .. }
            | NameError::NotInLabel { .. }
            | NameError::NotInSubject { .. }
            | NameError::Edge
            | NameError::DoubleDot => error,
        })?;
        Ok(Self(Arc::from(text)))
    }

    /// A name of our own, known to be well formed.
    #[must_use]
    pub fn fixed(text: &'static str) -> Self {
        debug_assert!(Self::new(text).is_ok(), "{text:?} is not a name");
        Self(Arc::from(text))
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if the id has capital letters.
    #[must_use]
    pub fn has_capitals(&self) -> bool {
        self.0.bytes().any(|byte| byte.is_ascii_uppercase())
    }

    /// The same id without capital letters.
    #[must_use]
    pub fn without_capitals(&self) -> Self {
        if self.has_capitals() {
            Self(Arc::from(self.0.to_ascii_lowercase()))
        } else {
            self.clone()
        }
    }
}

impl std::fmt::Display for WorkloadId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

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

/// First letters of a revision that we named after its content.
const CONTENT: &str = "content-";

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
        Self(Arc::from(format!("{CONTENT}{hash:032x}")))
    }

    /// The revision of a content whose client gave it the name of another one: this name, and
    /// `digits` digits of `content`, as in `rev-1+0a1b2c3d`.
    #[must_use]
    pub fn for_content(&self, content: &Self, digits: usize) -> Self {
        let hash = content.0.strip_prefix(CONTENT).unwrap_or(&content.0);
        let hash = hash.get(..digits).unwrap_or(hash);
        let name = self.0.get(..Self::LIMIT - hash.len() - 1).unwrap_or(&self.0);
        Self(Arc::from(format!("{name}+{hash}")))
    }

    /// The revision of what is ordered in shadow in place of this one: this name, and `digits` digits of
    /// `content`, as in `rev-1~0a1b2c3d`. No client's name for another content is taken for it.
    #[must_use]
    pub fn in_shadow(&self, content: &Self, digits: usize) -> Self {
        let named = self.for_content(content, digits);
        let (name, hash) = named.0.rsplit_once('+').unwrap_or((&named.0, ""));
        Self(Arc::from(format!("{name}~{hash}")))
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
            "", ".", "..", "a..b", "-rf", "a-", "../x", "a/b", "a b", "ä", "Ä", "a\0", "a\n", &long,
        ] {
            assert!(WorkloadId::new(bad).is_err(), "{bad:?} was accepted");
        }
        for good in ["a", "web", "web-1", "0af3", "e2e-workload-1", "db.main_2", "Web-1", "A"] {
            assert_eq!(WorkloadId::new(good).map(|id| id.to_string()).as_deref(), Ok(good));
        }
        assert!(NodeId::new("Web").is_err(), "only workloads have capital letters");
        let fault = WorkloadId::new("We b").unwrap_err();
        assert_eq!(fault, NameError::NotInWorkload { found: ' ', at: 2 });
    }

    #[test]
    fn an_id_keeps_its_capitals_and_can_be_compared_without_them() {
        let (web, other) = (WorkloadId::new("Web-A").unwrap(), WorkloadId::new("web-a").unwrap());
        assert!(web.has_capitals() && !other.has_capitals());
        assert_ne!(web, other);
        assert_eq!(web.without_capitals(), other);
        assert_eq!(other.without_capitals(), other);
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
        let content = RevisionId::of_content(0x0a1b_2c3d << 96);
        let named =
            |text: &str, digits| RevisionId::new(text).unwrap().for_content(&content, digits);
        assert_eq!(named("rev-1", 8).as_str(), "rev-1+0a1b2c3d");
        assert_eq!(named("rev-1", 32).as_str().len(), 6 + 32);
        let long = "r".repeat(RevisionId::LIMIT);
        assert!(RevisionId::new(named(&long, 8).as_str()).is_ok(), "it still fits");
        assert!(RevisionId::new("r\u{e9}v").is_err());
    }
}
