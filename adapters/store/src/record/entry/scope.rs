//! Roles and where they count, as several records have them.

use std::sync::Arc;

use persys_model::entry::{Scope, UserRole};
use persys_model::id::NamespaceName;
use serde::{Deserialize, Serialize};

use crate::record::{mirror, name};

mirror!(
    /// A role, in a word.
    RoleShape of UserRole { Viewer, Operator, Admin, Auditor }
);

/// Where a role counts. Neither is left out, and nothing means everything.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ScopeShape {
    Cluster,
    Namespaces(Vec<Arc<str>>),
}

impl From<&Scope> for ScopeShape {
    fn from(scope: &Scope) -> Self {
        match scope {
            Scope::Cluster => Self::Cluster,
            Scope::Namespaces(names) => {
                Self::Namespaces(names.iter().map(|name| Arc::from(name.as_str())).collect())
            }
        }
    }
}

impl ScopeShape {
    pub(super) fn read(self) -> Result<Scope, String> {
        match self {
            Self::Cluster => Ok(Scope::Cluster),
            Self::Namespaces(names) => {
                let read = |text: &Arc<str>| name("namespace", text, NamespaceName::new);
                Ok(Scope::Namespaces(names.iter().map(read).collect::<Result<_, _>>()?))
            }
        }
    }
}
