//! Attempts after failures: how many, how far apart, and when the slate is clean again.

use crate::id::{NodeId, WorkloadId};
use crate::time::WallMillis;

/// The stored retry state of a workload that failed. Gone once it has been healthy long enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Whose.
    pub workload: WorkloadId,
    /// Attempts that failed in this incident.
    pub attempts: u32,
    /// Attempts allowed in this incident, for readers of the record; 0 in records that lack it.
    pub max_attempts: u32,
    /// When the next attempt is due, as people read it; `None` when none is planned.
    pub next_at: Option<WallMillis>,
    /// Nodes that refused it for want of room in this incident; another node is tried first.
    pub avoid: Vec<NodeId>,
}
