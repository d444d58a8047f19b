//! What a runtime had in this life of the agent.
//!
//! What is stopped or removed is known by its name alone, so every runtime is asked. One that is away
//! would hold up the work of all others: it is passed over if it once told all that it has, and was
//! never told to make this.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use persys_model::id::WorkloadId;
use persys_node::input::Seen;

/// What one runtime had; nothing is known before it told once.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<Option<BTreeSet<WorkloadId>>>);

impl Memory {
    fn all(&self) -> MutexGuard<'_, Option<BTreeSet<WorkloadId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It told what it has.
    pub(crate) fn told(&self, list: &[Seen]) {
        let mut all = self.all();
        let all = all.get_or_insert_default();
        // Nearly all of it was there the last time, and is told in order as a rule: one walk along both
        // finds the rest. What is told out of order is put in again, which changes nothing.
        let mut known = all.iter().peekable();
        let is_new = |seen: &&Seen| {
            while known.next_if(|known| **known < seen.workload).is_some() {}
            known.peek() != Some(&&seen.workload)
        };
        let new: Vec<WorkloadId> =
            list.iter().filter(is_new).map(|seen| seen.workload.clone()).collect();
        all.extend(new);
    }

    /// It is about to have this.
    pub(crate) fn begins(&self, workload: &WorkloadId) {
        if let Some(all) = self.all().as_mut() {
            all.insert(workload.clone());
        }
    }

    /// It has this no more.
    pub(crate) fn ended(&self, workload: &WorkloadId) {
        if let Some(all) = self.all().as_mut() {
            all.remove(workload);
        }
    }

    /// True if it has not told what it has.
    pub(crate) fn is_untold(&self) -> bool {
        self.all().is_none()
    }

    /// Whether it told what it has, and this was never among it.
    pub(crate) fn lacks(&self, workload: &WorkloadId) -> bool {
        self.all().as_ref().is_some_and(|all| !all.contains(workload))
    }
}
