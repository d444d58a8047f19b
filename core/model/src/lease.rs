//! The lease of a node as it is stored for operators.
//!
//! Heartbeats renew a lease in the leader's memory and write nothing. The record changes only when
//! a lease begins, expires or ends, in the same unit as the condition of its node.

use crate::id::NodeId;
use crate::node::Condition;
use crate::time::WallMillis;
use crate::token::Session;

/// `/nodes/<id>/lease`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The node.
    pub node: NodeId,
    /// The life of the agent that holds the lease; of a lost node, the one that ended.
    pub session: Session,
    /// Held, expired or ended.
    pub state: LeaseState,
    /// Time without a heartbeat after which the lease expires, when the record was written. It is
    /// stretched as the fleet grows, and the record is not rewritten for that.
    pub length_ms: u64,
    /// Begin of the present state.
    pub since: WallMillis,
}

/// State of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseState {
    /// Heartbeats renew it.
    Held,
    /// No heartbeat came in time; the next one renews it.
    Expired,
    /// The node was declared lost: only a new registration begins another lease.
    Ended,
}

impl LeaseState {
    /// The state that belongs to the condition of a node.
    #[must_use]
    pub fn of(condition: Condition) -> Self {
        match condition {
            Condition::Ready => Self::Held,
            Condition::NotReady => Self::Expired,
            Condition::Lost => Self::Ended,
        }
    }
}
