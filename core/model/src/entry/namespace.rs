//! A part of the cluster: its workloads are seen and changed by those who have a role there.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::vault::VaultPath;
use crate::id::NamespaceName;

/// A namespace, and what its workloads may have of their nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// Its name.
    pub name: NamespaceName,
    /// What is allowed there beyond what every workload may have.
    pub allowance: Allowance,
    /// True while its workloads are placed, ordered and reported, but have no ports and no names.
    pub shadow: bool,
}

impl Namespace {
    /// A namespace that allows nothing out of the ordinary.
    #[must_use]
    pub fn new(name: NamespaceName) -> Self {
        Self { name, allowance: Allowance::default(), shadow: false }
    }
}

/// What workloads may have of their nodes. Nothing, unless it says so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allowance {
    /// All powers of the host.
    pub privileged: bool,
    /// The network of the host as it is.
    pub host_network: bool,
    /// Devices of the host.
    pub devices: bool,
    /// Paths of the host, each with everything below it.
    pub host_paths: BTreeSet<Arc<str>>,
    /// Paths of Vault that its secrets may be read from, each with everything below it. They are
    /// written as Vault's own policies write them: `kv/team-a`, or `secret/data/team-a` for version 2.
    pub vault_paths: BTreeSet<Arc<str>>,
}

impl Allowance {
    /// True if a secret may come from there. Nothing may unless it was allowed.
    #[must_use]
    pub fn allows_vault(&self, at: &VaultPath) -> bool {
        self.vault_paths.iter().any(|prefix| at.is_within(prefix))
    }
}
