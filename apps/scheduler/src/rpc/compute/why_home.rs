//! Waiting for the node that has a workload's data, in its explanation.

use persys_cluster::world::Judged;
use persys_model::id::NodeId;

use super::why_workload::Asked;

impl Asked<'_> {
    pub(super) fn waits_for_home(&self, home: &NodeId, judged: &Judged) -> String {
        match judged.verdicts.iter().find(|verdict| verdict.node == *home) {
            // Imported, and its node has yet to join.
            None if self.view.workload.spec.adopt_on().as_ref() == Some(home) => self.reason(),
            None => {
                format!("will not move: its data is on {home}, which is no longer in the cluster")
            }
            Some(verdict) if verdict.faults.is_empty() => {
                format!("its data is on {home}, where it fits: it is placed next")
            }
            Some(verdict) => {
                format!("will not move: its data is on {home}, which {}", verdict.faults.join(", "))
            }
        }
    }
}
