//! A secret of a namespace, sealed.

use std::sync::Arc;

use super::vault::VaultSource;
use crate::id::{EntryName, NamespaceName, SecretName};
use crate::secret::Envelope;
use crate::time::WallMillis;

/// A value that workloads of a namespace may use and nobody is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretEntry {
    /// Whose it is.
    pub namespace: NamespaceName,
    /// Its name there.
    pub name: SecretName,
    /// How often it was set.
    pub version: u64,
    /// When it was set last.
    pub set_at: WallMillis,
    /// By whom.
    pub set_by: Arc<str>,
    /// The value; of one from Vault, the last that was read.
    pub sealed: Envelope,
    /// Where the value comes from, if Vault keeps it.
    pub vault: Option<VaultSource>,
}

impl SecretEntry {
    /// The name of its record. A namespace has no dot, so that no two secrets share one.
    #[must_use]
    pub fn entry_name(namespace: &NamespaceName, name: &SecretName) -> EntryName {
        EntryName::dotted(namespace, name)
    }
}
