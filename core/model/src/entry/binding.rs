//! Who has which role where.

use std::fmt;

use super::scope::{Scope, UserRole};
use crate::id::{EntryName, SubjectName};

/// A role that somebody has somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Its name.
    pub name: EntryName,
    /// Who has it.
    pub subject: Subject,
    /// What they are.
    pub role: UserRole,
    /// Where.
    pub scope: Scope,
}

/// Whom a binding is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// One user, as a certificate or a login names them.
    User(SubjectName),
    /// Everybody whom a login counts among this group.
    Group(SubjectName),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user/{name}"),
            Self::Group(name) => write!(f, "group/{name}"),
        }
    }
}
