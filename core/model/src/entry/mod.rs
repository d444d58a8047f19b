//! Records of the cluster that are neither workloads nor nodes: who may do what, and where.
//!
//! They are small and few, and all of them are held by every scheduler, so that a request can be
//! judged without asking anybody. Each kind has a file of its own here and in the store.

mod binding;
mod namespace;
mod scope;
mod secret;
mod token;
pub mod vault;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use binding::{Binding, Subject};
pub use namespace::{Allowance, Namespace};
pub use scope::{Scope, UserRole};
pub use secret::SecretEntry;
pub use token::{TokenHash, UserToken};

use crate::id::{EntryName, NamespaceName, SecretName};
pub use crate::join::{JoinToken, Revocation};

/// One such record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A part of the cluster with a policy of its own.
    Namespace(Namespace),
    /// A role that somebody has somewhere.
    Binding(Binding),
    /// What a person or a tool proves itself with.
    UserToken(UserToken),
    /// An invitation to become a member.
    JoinToken(JoinToken),
    /// Somebody who is no longer believed.
    Revocation(Revocation),
    /// A value that workloads may use and nobody is told.
    Secret(SecretEntry),
}

/// The kinds of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// See [`Namespace`].
    Namespace,
    /// See [`Binding`].
    Binding,
    /// See [`UserToken`].
    UserToken,
    /// See [`JoinToken`].
    JoinToken,
    /// See [`Revocation`].
    Revocation,
    /// See [`SecretEntry`].
    Secret,
}

impl EntryKind {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Namespace,
        Self::Binding,
        Self::UserToken,
        Self::JoinToken,
        Self::Revocation,
        Self::Secret,
    ];

    /// The word for one.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Binding => "binding",
            Self::UserToken => "user token",
            Self::JoinToken => "join token",
            Self::Revocation => "revocation",
            Self::Secret => "secret",
        }
    }

    /// The folder of the store that holds them.
    #[must_use]
    pub fn folder(self) -> &'static str {
        match self {
            Self::Namespace => "namespaces",
            Self::Binding => "bindings",
            Self::UserToken => "user-tokens",
            Self::JoinToken => "join-tokens",
            Self::Revocation => "revocations",
            Self::Secret => "secrets",
        }
    }

    /// The kind whose folder this is.
    #[must_use]
    pub fn of_folder(folder: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.folder() == folder)
    }
}

/// Which record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey {
    /// Of which kind.
    pub kind: EntryKind,
    /// Its name among those.
    pub name: EntryName,
}

impl fmt::Display for EntryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.word(), self.name)
    }
}

impl Entry {
    /// Which record it is.
    #[must_use]
    pub fn key(&self) -> EntryKey {
        let (kind, name) = match self {
            Self::Namespace(namespace) => (EntryKind::Namespace, namespace.name.entry()),
            Self::Binding(binding) => (EntryKind::Binding, binding.name.clone()),
            Self::UserToken(token) => (EntryKind::UserToken, token.id.clone()),
            Self::JoinToken(token) => (EntryKind::JoinToken, token.id.clone()),
            Self::Revocation(revoked) => (EntryKind::Revocation, revoked.name.clone()),
            Self::Secret(secret) => {
                let name = SecretEntry::entry_name(&secret.namespace, &secret.name);
                (EntryKind::Secret, name)
            }
        };
        EntryKey { kind, name }
    }
}

impl Entry {
    /// Where it gives somebody a role, if it does.
    #[must_use]
    pub fn scope(&self) -> Option<&Scope> {
        if let Self::Binding(binding) = self {
            Some(&binding.scope)
        } else if let Self::UserToken(token) = self {
            Some(&token.scope)
        } else {
            None
        }
    }
}

/// All records, by their keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entries {
    by_key: BTreeMap<EntryKey, Arc<Entry>>,
}

impl Entries {
    /// One record.
    #[must_use]
    pub fn get(&self, key: &EntryKey) -> Option<&Arc<Entry>> {
        self.by_key.get(key)
    }

    /// Puts a record in, in place of the one that has its key.
    pub fn insert(&mut self, entry: Arc<Entry>) {
        self.by_key.insert(entry.key(), entry);
    }

    /// Takes a record out.
    pub fn remove(&mut self, key: &EntryKey) -> Option<Arc<Entry>> {
        self.by_key.remove(key)
    }

    /// All of them, by kind and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.by_key.values()
    }

    /// Their keys.
    pub fn keys(&self) -> impl Iterator<Item = &EntryKey> {
        self.by_key.keys()
    }

    /// How many there are of one kind.
    #[must_use]
    pub fn count(&self, kind: EntryKind) -> usize {
        self.by_key.keys().filter(|key| key.kind == kind).count()
    }

    /// The namespace of that name. The default one needs no record.
    #[must_use]
    pub fn namespace(&self, name: &NamespaceName) -> Option<&Namespace> {
        let key = EntryKey { kind: EntryKind::Namespace, name: name.entry() };
        let Entry::Namespace(namespace) = &**self.by_key.get(&key)? else { return None };
        Some(namespace)
    }

    /// All bindings.
    pub fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.iter().filter_map(|entry| {
            let Entry::Binding(binding) = &**entry else { return None };
            Some(binding)
        })
    }

    /// The secret of that name in a namespace.
    #[must_use]
    pub fn secret(&self, namespace: &NamespaceName, name: &SecretName) -> Option<&SecretEntry> {
        let name = SecretEntry::entry_name(namespace, name);
        let key = EntryKey { kind: EntryKind::Secret, name };
        let Entry::Secret(secret) = &**self.by_key.get(&key)? else { return None };
        Some(secret)
    }

    /// All secrets.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretEntry> {
        self.iter().filter_map(|entry| {
            let Entry::Secret(secret) = &**entry else { return None };
            Some(secret)
        })
    }

    /// All namespaces that have a record.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.iter().filter_map(|entry| {
            let Entry::Namespace(namespace) = &**entry else { return None };
            Some(namespace)
        })
    }

    /// All tokens of users.
    pub fn user_tokens(&self) -> impl Iterator<Item = &UserToken> {
        self.iter().filter_map(|entry| {
            let Entry::UserToken(token) = &**entry else { return None };
            Some(token)
        })
    }

    /// All invitations.
    pub fn join_tokens(&self) -> impl Iterator<Item = &JoinToken> {
        self.iter().filter_map(|entry| {
            let Entry::JoinToken(token) = &**entry else { return None };
            Some(token)
        })
    }

    /// Everybody who is no longer believed.
    pub fn revocations(&self) -> impl Iterator<Item = &Revocation> {
        self.iter().filter_map(|entry| {
            let Entry::Revocation(revoked) = &**entry else { return None };
            Some(revoked)
        })
    }

    /// The token with that id.
    #[must_use]
    pub fn user_token(&self, id: &EntryName) -> Option<&UserToken> {
        let key = EntryKey { kind: EntryKind::UserToken, name: id.clone() };
        let Entry::UserToken(token) = &**self.by_key.get(&key)? else { return None };
        Some(token)
    }
}

impl FromIterator<Arc<Entry>> for Entries {
    fn from_iter<I: IntoIterator<Item = Arc<Entry>>>(entries: I) -> Self {
        Self { by_key: entries.into_iter().map(|entry| (entry.key(), entry)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_folder_of_its_own() {
        for kind in EntryKind::ALL {
            assert_eq!(EntryKind::of_folder(kind.folder()), Some(*kind));
        }
        assert_eq!(EntryKind::of_folder("workloads"), None);
    }

    #[test]
    fn a_record_is_found_under_its_key_and_no_other() {
        let web = Namespace::new(NamespaceName::fixed("web"));
        let entries: Entries = [Arc::new(Entry::Namespace(web.clone()))].into_iter().collect();
        assert_eq!(entries.namespace(&NamespaceName::fixed("web")), Some(&web));
        assert_eq!(entries.namespace(&NamespaceName::fixed("we")), None);
        assert_eq!(entries.user_token(&EntryName::fixed("web")), None);
        assert_eq!(entries.count(EntryKind::Namespace), 1);
    }
}
