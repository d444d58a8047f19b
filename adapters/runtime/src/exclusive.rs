//! Exclusive work, as a watchdog asks for it: it has no ledger, so the runtime must know.

use async_trait::async_trait;
use persys_model::id::WorkloadId;

use crate::error::Error;

/// Tells which exclusive work runs.
#[async_trait]
pub trait Exclusive: Send + Sync + std::fmt::Debug {
    /// The work of our cluster and node that was started as exclusive and runs now. What is not in
    /// it does not run; if that cannot be said for certain, this is an error.
    async fn exclusive(&self) -> Result<Vec<WorkloadId>, Error>;
}
