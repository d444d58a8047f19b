//! What callers are.

use persys_model::entry::UserRole;

/// What a caller is: a part of the cluster, or a person or tool in a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Looks.
    Viewer,
    /// Looks, and changes workloads.
    Operator,
    /// Everything: nodes, recovery, who may do what.
    Admin,
    /// Reads who did what, and nothing else.
    Auditor,
    /// Carries out on one node, and speaks for it alone.
    Agent,
    /// Decides.
    Scheduler,
    /// Passes on what users ask; by itself it may nothing.
    Gateway,
}

impl Role {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Viewer,
        Self::Operator,
        Self::Admin,
        Self::Auditor,
        Self::Agent,
        Self::Scheduler,
        Self::Gateway,
    ];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Viewer => UserRole::Viewer.word(),
            Self::Operator => UserRole::Operator.word(),
            Self::Admin => UserRole::Admin.word(),
            Self::Auditor => UserRole::Auditor.word(),
            Self::Agent => "agent",
            Self::Scheduler => "scheduler",
            Self::Gateway => "gateway",
        }
    }
}

impl From<UserRole> for Role {
    fn from(role: UserRole) -> Self {
        match role {
            UserRole::Viewer => Self::Viewer,
            UserRole::Operator => Self::Operator,
            UserRole::Admin => Self::Admin,
            UserRole::Auditor => Self::Auditor,
        }
    }
}
