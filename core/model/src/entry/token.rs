//! What a person or a tool proves itself with.

use std::fmt;

use super::scope::{Scope, UserRole};
use crate::id::{EntryName, SubjectName};
use crate::time::WallMillis;

/// A token as it is kept: enough to know it again, not enough to use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserToken {
    /// Its public half.
    pub id: EntryName,
    /// Who uses it.
    pub user: SubjectName,
    /// The hash of its secret half.
    pub hash: TokenHash,
    /// What its user is with it.
    pub role: UserRole,
    /// Where.
    pub scope: Scope,
    /// When it was made.
    pub created_at: WallMillis,
    /// From when on it counts for nothing.
    pub expires_at: WallMillis,
}

/// SHA-256 of a secret that nobody can guess.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenHash(pub [u8; 32]);

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(..)")
    }
}
