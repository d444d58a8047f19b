//! Where tokens and revocations are kept.

use async_trait::async_trait;
use persys_identity::Denied;
use persys_model::join::{Admission, Claim, JoinRefused};

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// It was decided, and the answer is no.
    #[error("{0}")]
    Refused(String),
    /// Nothing was decided; asking again is safe.
    #[error("{0}")]
    Unavailable(String),
}

impl From<JoinRefused> for RegisterError {
    fn from(refused: JoinRefused) -> Self {
        Self::Refused(refused.to_string())
    }
}

/// Where tokens and revocations are kept.
#[async_trait]
pub trait Register: Send + Sync {
    /// Uses a token. What comes back is durable.
    async fn redeem(&self, claim: Claim) -> Result<Admission, RegisterError>;

    /// Who is no longer believed.
    async fn denied(&self) -> Result<Denied, RegisterError>;
}
