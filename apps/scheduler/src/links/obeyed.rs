//! Which decisions old agents have taken.
//!
//! What an old agent says of a workload names no decision. Said before the present one reached it, it
//! is about an earlier one, and must not count for this.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use persys_model::id::{NodeId, WorkloadId};
use persys_model::token::Epoch;

/// What each old agent last took, by workload. Forgotten with the process: the core then gives its
/// unfinished orders again.
#[derive(Debug, Default)]
pub(crate) struct Obeyed(Mutex<BTreeMap<(NodeId, WorkloadId), Epoch>>);

impl Obeyed {
    pub(super) fn took(&self, node: &NodeId, workload: &WorkloadId, epoch: Epoch) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.insert((node.clone(), workload.clone()), epoch);
    }

    pub(super) fn removed(&self, node: &NodeId, workload: &WorkloadId) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.remove(&(node.clone(), workload.clone()));
    }

    /// Whether the node took this decision.
    pub(crate) fn has(&self, node: &NodeId, workload: &WorkloadId, epoch: Epoch) -> bool {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.get(&(node.clone(), workload.clone())) == Some(&epoch)
    }
}
