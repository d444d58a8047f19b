//! Differences as they are shown: what is recorded, beside what was found.

use persys_model::drift::Drift;
use persys_model::inventory::Held;

use super::World;
use super::view::WorkloadView;

/// One difference between what is recorded and what a node has.
#[derive(Debug, Clone, Copy)]
pub struct DriftView<'a> {
    /// The record.
    pub drift: &'a Drift,
    /// What is recorded of the workload; nothing for one that nobody knows.
    pub workload: Option<WorkloadView<'a>>,
    /// What the node holds, of a workload that nobody knows. After a change of leader it is not
    /// there until the node has told all it holds.
    pub held: Option<&'a Held>,
}

impl World {
    /// All open differences, by node and workload.
    pub fn drifts(&self) -> impl Iterator<Item = DriftView<'_>> {
        let slots = self.node_by_id.values().filter_map(|at| self.nodes.get(at.0));
        slots.flat_map(|slot| {
            slot.drifts.values().map(|drift| DriftView {
                drift,
                workload: self.workload(&drift.workload),
                held: slot.orphans.get(&drift.workload).map(|orphan| &orphan.held),
            })
        })
    }
}
