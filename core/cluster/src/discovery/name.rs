//! Names of the tree of names, and how an id becomes one label of it.

use std::sync::Arc;

/// Longest label, by the rules of DNS.
const LONGEST_LABEL: usize = 63;
/// Longest domain we take: a label, a shard and the dots still fit before it.
const LONGEST_DOMAIN: usize = 120;
/// What begins a label that is not the id itself.
const MARK: &str = "x--";

/// Why a text is not a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    /// Nothing is there.
    #[error("is empty")]
    Empty,
    /// Longer than the limit.
    #[error("is longer than {LONGEST_DOMAIN} characters")]
    TooLong,
    /// A part between two dots is not a label.
    #[error(
        "each part between dots has 1 to {LONGEST_LABEL} of a-z, 0-9, '_' and '-', and '-' neither first nor last"
    )]
    Label,
}

/// A name: its labels from the root down, joined by `/`. So `web.persys.local` is
/// `local/persys/web`, and all names below a name follow it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl Name {
    /// A domain as people write it, with or without the last dot, in any case.
    pub fn parse(text: &str) -> Result<Self, NameFault> {
        let text = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if text.is_empty() {
            return Err(NameFault::Empty);
        }
        if text.len() > LONGEST_DOMAIN {
            return Err(NameFault::TooLong);
        }
        let labels: Vec<_> = text.rsplit('.').collect();
        if !labels.iter().all(|label| is_label(label.as_bytes())) {
            return Err(NameFault::Label);
        }
        Ok(Self(Arc::from(labels.join("/"))))
    }

    /// The name somebody asks for, by its labels from the root down, and whether that is all of it.
    /// It ends before the first label that none of our names can have.
    pub fn asked<'a, L: IntoIterator<Item = &'a [u8]>>(labels: L) -> (Self, bool) {
        let mut path = String::new();
        for label in labels {
            let label = label.to_ascii_lowercase();
            let Some(text) = std::str::from_utf8(&label).ok().filter(|_| is_label(&label)) else {
                return (Self(Arc::from(path)), false);
            };
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(text);
        }
        (Self(Arc::from(path)), true)
    }

    /// The name one label below.
    #[must_use]
    pub fn child(&self, label: &Label) -> Self {
        self.fixed_child(label.text())
    }

    /// A name of our own, from the root down.
    pub(super) fn fixed(path: &'static str) -> Self {
        debug_assert!(path.split('/').all(|label| is_label(label.as_bytes())), "{path:?}");
        Self(Arc::from(path))
    }

    /// The name below by a label of our own.
    #[must_use]
    pub(super) fn fixed_child(&self, label: &str) -> Self {
        debug_assert!(is_label(label.as_bytes()), "{label:?} is not a label");
        Self(Arc::from(format!("{}/{label}", self.0)))
    }

    /// Labels from the root down, joined by `/`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0
    }

    /// As people write it, with the last dot.
    #[must_use]
    pub fn dotted(&self) -> String {
        let mut text = String::with_capacity(self.0.len() + 1);
        for label in self.0.rsplit('/') {
            text.push_str(label);
            text.push('.');
        }
        text
    }

    /// No name itself, but where those below this one begin in the order of names.
    #[must_use]
    pub fn start_below(&self) -> Self {
        Self(Arc::from(format!("{}/", self.0)))
    }

    /// Whether this is `other` or below it.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        let rest = self.0.strip_prefix(&*other.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

fn is_label(label: &[u8]) -> bool {
    let inner = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-');
    label.len() <= LONGEST_LABEL
        && label.iter().all(inner)
        && edge(label.first())
        && edge(label.last())
}

/// The label of an id. Ids may have dots and underscores and be longer than a label.
///
/// | id | label | example |
/// |---|---|---|
/// | letters, digits, `-` | the id itself | `web-1` |
/// | has `_` or `.`, or begins with `x--` | `x--`, then `-u` for `_`, `-d` for `.`, `--` for `-` | `db.main_2` is `x--db-dmain-u2` |
/// | too long for that | `x---`, then 128 bits of a hash in hex | |
///
/// The first two can be read back, so no two ids share one. For hashes that is only nearly so: whoever
/// keeps labels must not answer for one that two ids claim, which [`Label::is_digest`] asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    text: String,
    digest: bool,
}

impl Label {
    /// The label of `id`, which is one of our ids: with a letter or digit at each end. DNS knows no
    /// case, so neither does the label; no two workloads differ in their capital letters alone.
    #[must_use]
    pub fn of(id: &str, digest: fn(&str) -> u128) -> Self {
        let id = &*id.to_ascii_lowercase();
        let plain = !id.contains(['_', '.']) && !id.starts_with(MARK);
        if plain && id.len() <= LONGEST_LABEL {
            return Self { text: id.to_owned(), digest: false };
        }
        let mut text = String::from(MARK);
        for letter in id.chars() {
            match letter {
                '-' => text.push_str("--"),
                '_' => text.push_str("-u"),
                '.' => text.push_str("-d"),
                other => text.push(other),
            }
        }
        if text.len() <= LONGEST_LABEL {
            return Self { text, digest: false };
        }
        Self { text: format!("{MARK}-{:032x}", digest(id)), digest: true }
    }

    /// The label itself.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether another id might have the same.
    #[must_use]
    pub fn is_digest(&self) -> bool {
        self.digest
    }
}

/// 128 bits of a text (FNV-1a), the same on every machine and in every version.
#[must_use]
pub fn digest(text: &str) -> u128 {
    const START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    text.bytes().fold(START, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}
