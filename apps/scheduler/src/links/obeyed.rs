//! Which decisions old agents have taken.
//!
//! What an old agent says of a workload names no decision. Said before the present one reached it, it
//! is about an earlier one, and must not count for this.
//!
//! One that is reached over a stream is not asked whether a removal is done. It is, once the workload
//! is missing from its heartbeats: the first may have been on its way when the order was, the second
//! was not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use persys_model::id::{NodeId, WorkloadId};
use persys_model::inventory::Tombstone;
use persys_model::token::Epoch;

/// Heartbeats without a workload that prove its removal.
const BEATS_WITHOUT: u8 = 2;

/// What each old agent last took, by workload. Forgotten with the process: the core then gives its
/// unfinished orders again.
#[derive(Debug, Default)]
pub(crate) struct Obeyed(Mutex<BTreeMap<NodeId, Taken>>);

#[derive(Debug, Default)]
struct Taken {
    held: BTreeMap<WorkloadId, Epoch>,
    /// Removals that were sent, and the heartbeats since that did not name the workload.
    leaving: BTreeMap<WorkloadId, (Epoch, u8)>,
}

impl Obeyed {
    fn of<T>(&self, node: &NodeId, look: impl FnOnce(&mut Taken) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        look(all.entry(node.clone()).or_default())
    }

    pub(super) fn took(&self, node: &NodeId, workload: &WorkloadId, epoch: Epoch) {
        self.of(node, |taken| {
            taken.leaving.remove(workload);
            taken.held.insert(workload.clone(), epoch);
        });
    }

    pub(super) fn removed(&self, node: &NodeId, workload: &WorkloadId) {
        self.of(node, |taken| taken.held.remove(workload));
    }

    /// A removal was sent; it begins anew when it is sent again.
    pub(super) fn leaves(&self, node: &NodeId, workload: &WorkloadId, epoch: Epoch) {
        self.of(node, |taken| {
            taken.held.remove(workload);
            taken.leaving.insert(workload.clone(), (epoch, 0));
        });
    }

    /// What was sent to a node may not have arrived.
    pub(crate) fn forget(&self, node: &NodeId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(node);
    }

    /// Whether the node took this decision.
    pub(crate) fn has(&self, node: &NodeId, workload: &WorkloadId, epoch: Epoch) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(node).is_some_and(|taken| taken.held.get(workload) == Some(&epoch))
    }

    /// A heartbeat named these workloads: the removals it proves.
    pub(crate) fn gone(&self, node: &NodeId, named: &BTreeSet<WorkloadId>) -> Vec<Tombstone> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(taken) = all.get_mut(node) else { return Vec::new() };
        let mut gone = Vec::new();
        taken.leaving.retain(|workload, (epoch, without)| {
            *without = if named.contains(workload) { 0 } else { without.saturating_add(1) };
            let is_gone = *without >= BEATS_WITHOUT;
            if is_gone {
                // Such an agent does not say what became of the data.
                let (workload, epoch) = (workload.clone(), *epoch);
                gone.push(Tombstone { workload, epoch, purged: false });
            }
            !is_gone
        });
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_is_proved_by_two_heartbeats_in_a_row() {
        let (node, web) = (NodeId::new("n1").unwrap(), WorkloadId::new("web").unwrap());
        let (obeyed, nothing) = (Obeyed::default(), BTreeSet::new());
        let named = BTreeSet::from([web.clone()]);
        obeyed.took(&node, &web, Epoch(1));
        assert!(obeyed.has(&node, &web, Epoch(1)) && !obeyed.has(&node, &web, Epoch(2)));
        assert!(obeyed.gone(&node, &nothing).is_empty(), "nobody asked for it");
        obeyed.leaves(&node, &web, Epoch(2));
        for named in [&nothing, &named, &nothing] {
            assert!(obeyed.gone(&node, named).is_empty());
        }
        let proof = Tombstone { workload: web.clone(), epoch: Epoch(2), purged: false };
        assert_eq!(obeyed.gone(&node, &nothing), [proof]);
        assert!(obeyed.gone(&node, &nothing).is_empty(), "once");

        obeyed.leaves(&node, &web, Epoch(3));
        obeyed.took(&node, &web, Epoch(4));
        assert!(obeyed.gone(&node, &nothing).is_empty() && obeyed.gone(&node, &nothing).is_empty());
        obeyed.forget(&node);
        assert!(!obeyed.has(&node, &web, Epoch(4)));
    }
}
