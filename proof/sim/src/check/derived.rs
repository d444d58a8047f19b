//! Records for operators that follow from others.

use persys_model::lease::LeaseState;

use super::Check;
use crate::store::Contents;

impl Check {
    /// Every node has the lease of its session and condition; nothing else has a lease, and no
    /// outcome outlives its workload.
    pub(super) fn derived_match(&mut self, now: u64, contents: &Contents) {
        if self.rebuilding(now) {
            return;
        }
        for (id, node) in &contents.nodes {
            let wanted = (node.session, LeaseState::of(node.condition));
            let found = contents.leases.get(id).map(|lease| (lease.session, lease.state));
            // A store that was set back has no leases until its nodes are heard.
            if found.is_some_and(|found| found != wanted) {
                self.violate(now, "I21", || {
                    format!("the lease of {id} is {found:?}, not {wanted:?}")
                });
            }
        }
        if let Some(id) = contents.leases.keys().find(|id| !contents.nodes.contains_key(*id)) {
            self.violate(now, "I21", || format!("{id} has a lease and is no node"));
        }
        let stale = contents.outcomes.keys().find(|id| !contents.workloads.contains_key(*id));
        if let Some(id) = stale {
            self.violate(now, "I21", || format!("the outcome for {id} outlived it"));
        }
    }
}
