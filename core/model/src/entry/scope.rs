//! What somebody may be, and where.

use std::collections::BTreeSet;

use crate::id::NamespaceName;

/// A role that a person or a tool can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UserRole {
    /// Looks.
    Viewer,
    /// Looks, and changes workloads.
    Operator,
    /// Everything: nodes, recovery, who may do what.
    Admin,
    /// Reads who did what, and nothing else.
    Auditor,
}

impl UserRole {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Viewer, Self::Operator, Self::Admin, Self::Auditor];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
            Self::Auditor => "auditor",
        }
    }

    /// The role of that word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|role| role.word() == word)
    }
}

/// Where a role counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Everywhere, and for what belongs to no namespace.
    Cluster,
    /// In these namespaces alone; in none if there are none.
    Namespaces(BTreeSet<NamespaceName>),
}

impl Scope {
    /// Whether it takes in that namespace.
    #[must_use]
    pub fn covers(&self, namespace: &NamespaceName) -> bool {
        match self {
            Self::Cluster => true,
            Self::Namespaces(names) => names.contains(namespace),
        }
    }

    /// Whether it takes in whatever `other` does.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cluster, _) => true,
            (Self::Namespaces(_), Self::Cluster) => false,
            (Self::Namespaces(ours), Self::Namespaces(theirs)) => theirs.is_subset(ours),
        }
    }

    /// Whether it takes in nothing at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Cluster => false,
            Self::Namespaces(names) => names.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_as_a_whole_and_none_is_nowhere() {
        let web = NamespaceName::fixed("web");
        let only_web = Scope::Namespaces(BTreeSet::from([web.clone()]));
        assert!(only_web.covers(&web) && Scope::Cluster.covers(&web));
        assert!(!only_web.covers(&NamespaceName::fixed("web-2")));
        assert!(!only_web.covers(&NamespaceName::fixed("we")));
        let nowhere = Scope::Namespaces(BTreeSet::new());
        assert!(nowhere.is_empty() && !nowhere.covers(&web));
        assert!(Scope::Cluster.contains(&only_web) && !only_web.contains(&Scope::Cluster));
        assert!(only_web.contains(&nowhere) && !nowhere.contains(&only_web));
    }
}
