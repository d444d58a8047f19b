//! Deletions that cannot be called off: those ordered from agents of the contract.
//!
//! Such an agent knows no decisions. An order to delete that was sent and not answered may still arrive,
//! after the order to run a new workload of the same name, and would take the new one's data with it.

use persys_model::id::NodeId;

use super::World;
use super::slots::WorkloadSlot;
use crate::contract::has_data;
use crate::placement::NodeIndex;

impl World {
    /// Nodes on which a deletion under the name of a workload may still be carried out, if that would take
    /// the data of the new one: they cannot have it before the deletion is confirmed.
    pub(super) fn still_deleting(&self, slot: &WorkloadSlot) -> Vec<NodeIndex> {
        let Some(buried) = self.buried.get(&slot.workload.id) else { return Vec::new() };
        if !has_data(&slot.workload.spec) {
            return Vec::new();
        }
        let contract = |at: &&NodeIndex| {
            self.nodes.get(at.0).is_some_and(|node| node.node.facts.is_contract())
        };
        buried.iter().filter(contract).copied().collect()
    }

    /// The best node that fits, without the closed ones of `without`.
    pub(super) fn without<T>(
        &mut self,
        without: &[NodeIndex],
        choose: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let opened: Vec<NodeIndex> = without
            .iter()
            .copied()
            .filter(|at| self.nodes.get(at.0).is_some_and(super::slots::NodeSlot::is_open))
            .collect();
        for at in &opened {
            self.index.set_open(*at, false);
        }
        let chosen = choose(self);
        for at in opened {
            self.index.set_open(at, true);
        }
        chosen
    }

    /// The sentence about nodes that must finish a deletion first.
    pub(super) fn says_deleting(&self, slot: &WorkloadSlot) -> Option<String> {
        let nodes: Vec<NodeId> =
            self.still_deleting(slot).into_iter().map(|at| self.node_id(at)).collect();
        let first = nodes.first()?;
        let more = match nodes.len() {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        Some(format!(
            "{first}{more} has not confirmed that the deleted workload of this name is gone; a deletion that \
             arrives late would take the new data"
        ))
    }
}
