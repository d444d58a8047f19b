//! Workload ids that differ only in their capital letters.
//!
//! DNS knows no case, so two such workloads would share a name. The second one is refused. Few ids
//! have capital letters; only those are listed here.

use std::collections::{BTreeMap, BTreeSet};

use persys_model::id::WorkloadId;

use super::World;

/// Ids of workloads that have capital letters, by the same id without them.
#[derive(Debug, Default)]
pub(super) struct CapitalIds(BTreeMap<WorkloadId, BTreeSet<WorkloadId>>);

impl CapitalIds {
    pub(super) fn insert(&mut self, id: &WorkloadId) {
        if id.has_capitals() {
            self.0.entry(id.without_capitals()).or_default().insert(id.clone());
        }
    }

    pub(super) fn remove(&mut self, id: &WorkloadId) {
        if !id.has_capitals() {
            return;
        }
        let plain = id.without_capitals();
        if let Some(ids) = self.0.get_mut(&plain) {
            ids.remove(id);
            if ids.is_empty() {
                self.0.remove(&plain);
            }
        }
    }
}

impl World {
    /// The reason why an orphan cannot become the workload `id`, if another one has that name.
    pub(super) fn taken_name(&self, id: &WorkloadId) -> Option<String> {
        if self.workload_by_id.contains_key(id) {
            return Some(format!("there is a workload {id} already; this copy of it can only go"));
        }
        self.case_conflict(id)
    }

    /// The reason why no workload may be called `id` beside one that differs only in case.
    pub(super) fn case_conflict(&self, id: &WorkloadId) -> Option<String> {
        let plain = id.without_capitals();
        let taken = if *id != plain && self.workload_by_id.contains_key(&plain) {
            Some(&plain)
        } else {
            self.capital_ids.0.get(&plain)?.iter().find(|other| *other != id)
        };
        Some(format!(
            "there is a workload {}, which differs from {id} only in capital letters; both would \
             have the same DNS name. Choose another id",
            taken?
        ))
    }
}
