//! Which workloads something is due for: news the scheduler does not have, moments to wait for.
//!
//! A node may have hundreds of workloads, and a step is about one of them. What is kept here is what a
//! walk over all slots would find; debug builds take that walk after every step and compare.

use std::collections::{BTreeMap, BTreeSet};

use persys_model::id::WorkloadId;
use persys_model::inventory::State;
use persys_model::time::Millis;
use persys_model::zoo::Bug;

use crate::agent::Agent;
use crate::slot::{Heard, Slot};

/// What is due, by workload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Due {
    /// Those of which the scheduler does not have all news, and whether any of it is urgent.
    unheard: BTreeMap<WorkloadId, bool>,
    /// How many of those are urgent.
    urgent: usize,
    /// The first moment at which something of a workload is due by itself.
    at: BTreeMap<WorkloadId, Millis>,
    /// The same by moment.
    moments: BTreeSet<(Millis, WorkloadId)>,
}

impl Due {
    /// What all these slots have due.
    pub(crate) fn of(slots: &BTreeMap<WorkloadId, Slot>) -> Self {
        let mut due = Self::default();
        for (workload, slot) in slots {
            due.note(workload, Some(slot));
        }
        due
    }

    /// Takes in how a workload stands now; `None` when nothing is known of it any more.
    pub(crate) fn note(&mut self, workload: &WorkloadId, slot: Option<&Slot>) {
        let was = match slot.and_then(news) {
            Some(urgent) => {
                self.urgent += usize::from(urgent);
                self.unheard.insert(workload.clone(), urgent)
            }
            None => self.unheard.remove(workload),
        };
        self.urgent -= usize::from(was == Some(true));
        let at = slot.and_then(moment);
        if at == self.at.get(workload).copied() {
            return;
        }
        let before = match at {
            Some(at) => {
                self.moments.insert((at, workload.clone()));
                self.at.insert(workload.clone(), at)
            }
            None => self.at.remove(workload),
        };
        if let Some(before) = before {
            self.moments.remove(&(before, workload.clone()));
        }
    }

    /// Those of which the scheduler does not have all news.
    pub(crate) fn unheard(&self) -> Vec<WorkloadId> {
        self.unheard.keys().cloned().collect()
    }

    /// Whether any news should not wait for the next beat.
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent > 0
    }

    /// The first moment after `now`. What was due before is settled whenever it is touched.
    pub(crate) fn next(&self, now: Millis) -> Option<Millis> {
        self.moments.iter().map(|(at, _)| *at).find(|at| *at > now)
    }
}

/// Whether there is news, and whether it is urgent. That work is being started can wait for the next
/// beat: the answer to the order said so, and how it came out follows.
fn news(slot: &Slot) -> Option<bool> {
    let told = slot.told.as_ref().filter(|told| told.heard != Heard::Known)?;
    Some(told.heard == Heard::Unsent && told.held.report.state != State::Pending)
}

fn moment(slot: &Slot) -> Option<Millis> {
    let again = slot.again.as_ref().filter(|again| !again.counted).map(|again| again.at);
    let moments = [again, slot.retry_at, slot.standstill.due(), slot.health.due()];
    moments.into_iter().flatten().min()
}

impl Agent {
    /// When it next speaks to the scheduler: the next registration, or the next beat.
    pub fn speaks_at(&self) -> Option<Millis> {
        self.line.register_at().or_else(|| self.beat_at())
    }

    /// The earliest moment at which something is due by itself.
    pub(crate) fn wake_at(&self, beat_at: Option<Millis>, now: Millis) -> Option<Millis> {
        let unnamed = self.settings.zoo.has(Bug::OrphanCollected);
        let all = [
            self.due.next(now),
            self.line.register_at(),
            beat_at,
            self.fence.deadline(),
            self.journal.retry_at(),
            self.watch.due(&self.settings, !self.slots.is_empty()),
            unnamed.then(|| self.line.since().plus(self.settings.confirm_wait_ms)),
        ];
        all.into_iter().flatten().filter(|at| *at > now).min()
    }
}
