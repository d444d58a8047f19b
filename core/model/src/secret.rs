//! Secrets: values that are given once and never shown again.
//!
//! A workload names the secrets it uses ([`SecretUse`]); what is stored is an [`Envelope`] that only
//! the schedulers' key file opens; the values themselves ([`SecretValues`]) exist on the way to an
//! agent and there. Printing any of them shows no value.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::id::SecretName;

pub use persys_compose::Signal;

/// Largest value of a secret, in bytes.
pub const MOST_VALUE_BYTES: usize = 32 * 1024;
/// Most secrets one workload may use.
pub const MOST_USES: usize = 64;
/// Where secrets are seen as files unless another path is given.
pub const FOLDER: &str = "/run/secrets";
/// Who may read a secret seen as a file, unless told otherwise: its owner.
pub const FILE_MODE: u32 = 0o400;

/// One secret that a workload uses, and how it sees it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretUse {
    /// Which, in the workload's own namespace.
    pub secret: SecretName,
    /// Seen how.
    pub seen: SecretSeen,
}

/// How a workload sees a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecretSeen {
    /// As a variable of this name. `docker inspect` shows it: files are preferred.
    Env(Arc<str>),
    /// As a file, in memory only.
    File {
        /// Absolute, without `..`.
        path: Arc<str>,
        /// Its permissions inside.
        mode: u32,
        /// Its owner inside.
        uid: u32,
        /// Its group inside.
        gid: u32,
        /// Sent to the program when the value changes while it runs, after the file was rewritten;
        /// without one it keeps the value it was started with.
        signal: Option<Signal>,
    },
}

impl SecretUse {
    /// The signal that tells of a new value, if there is one.
    #[must_use]
    pub fn signal(&self) -> Option<Signal> {
        match self.seen {
            SecretSeen::File { signal, .. } => signal,
            SecretSeen::Env(_) => None,
        }
    }
}

/// A value under a key of its own, which is under a key of the key file. Opaque here.
#[derive(Clone, PartialEq, Eq)]
pub struct Envelope {
    /// Which key of the file opens it.
    pub key: Arc<str>,
    /// The value's own key, sealed.
    pub wrapped: Arc<[u8]>,
    /// The value, sealed.
    pub body: Arc<[u8]>,
    /// A mark of the value that nobody can try values against.
    pub digest: Arc<str>,
}

impl std::fmt::Debug for Envelope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<sealed with {}, {} bytes>", self.key, self.body.len())
    }
}

/// A value that is never printed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Redacted(Arc<[u8]>);

impl Redacted {
    /// Keeps `bytes` from being printed.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(Arc::from(bytes))
    }

    /// The bytes themselves, for the one place that hands them on.
    #[must_use]
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Redacted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<hidden, {} bytes>", self.0.len())
    }
}

/// One opened secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretValue {
    /// How often it was set until then.
    pub version: u64,
    /// Its value.
    pub value: Redacted,
}

/// The secrets of one order, opened; for one that is not set or cannot be opened, what to do. An
/// order is never held back for it: the agent carries out what it can and reports the rest.
pub type SecretValues = BTreeMap<SecretName, Result<SecretValue, Arc<str>>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_shows_no_value() {
        let value = SecretValue { version: 3, value: Redacted::new(b"hunter2") };
        let all = SecretValues::from([(SecretName::fixed("db"), Ok(value))]);
        let text = format!("{all:?}");
        assert!(text.contains("version: 3") && !text.contains("hunter2"), "{text}");
        let bytes: Arc<[u8]> = Arc::from(&b"hunter2"[..]);
        let digest = Arc::from("00");
        let sealed = Envelope { key: "k".into(), wrapped: Arc::clone(&bytes), body: bytes, digest };
        assert_eq!(format!("{sealed:?}"), "<sealed with k, 7 bytes>");
    }
}
