//! What was really reached: a run that never met a situation proves nothing about it.

use std::collections::BTreeMap;

use persys_cluster::effects::{Mark, Marks};
use persys_cluster::record::{Unit, Write};
use persys_model::volume::VolumePhase;

use crate::fault::Fault;

/// What the simulator itself must have seen at least once over many seeds.
pub(crate) const SITUATIONS: &[&str] = &[
    "store: answer lost, call carried out",
    "store: answer lost, call not carried out",
    "store: call carried out after its caller gave up",
    "store: commit of a deposed leader refused",
    "store: commit on a moved head refused",
    "store: leader key expired",
    "store: campaign lost to another",
    "net: message lost",
    "net: message doubled",
    "net: message held",
    "agent: refused old term",
    "agent: refused other session",
    "agent: refused old epoch",
    "agent: refused buried",
    "agent: refused holding",
    "agent: registration refused",
    "agent: told to register again",
    "agent: told to hold",
    "scheduler: removal by the answer to a beat",
    "agent: ledger could not be written",
    "agent: start came too late",
    "watchdog: stopped exclusive work",
    "runtime: verb failed",
    "runtime: verb of unknown outcome",
    "runtime: observation unknown",
    "runtime: observation late",
    "runtime: data of a volume deleted",
    "store: a volume kept without a workload",
    "store: the deletion of a volume ordered",
    "user: done",
    "user: refused",
    "user: unavailable",
    "user: no answer",
    "user: shadow entered",
    "user: shadow left",
    "contract agent: registered",
    "contract agent: not known, registers again",
    "contract agent: told to apply",
    "contract agent: told to stop instead of a removal",
    "contract agent: told to delete",
    "contract agent: told nothing",
    "contract agent: task queue is full",
    "contract agent: repairs",
    "run: recovered from agents",
    "run: recovered from a snapshot",
    "run: recovered by accepting an empty store",
    "run: two copies of default work at once",
    "run: converged",
];

/// Counters over one or many runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cover {
    counts: BTreeMap<&'static str, u64>,
    marks: Marks,
}

impl Cover {
    /// Counts one.
    pub(crate) fn hit(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    /// Counts what a stored unit shows of volumes.
    pub(crate) fn unit(&mut self, unit: &Unit) {
        for write in &unit.writes {
            let Write::PutVolume(volume) = write else { continue };
            if volume.phase == VolumePhase::Retained {
                self.hit("store: a volume kept without a workload");
            } else if volume.phase == VolumePhase::Deleting && volume.retain {
                self.hit("store: the deletion of a volume ordered");
            }
        }
    }

    /// Adds the marks of a step.
    pub(crate) fn mark(&mut self, marks: Marks) {
        self.marks.merge(marks);
    }

    /// Adds another run; each mark counts once per run.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (name, hits) in &other.counts {
            *self.counts.entry(name).or_default() += hits;
        }
        self.marks.merge(other.marks);
    }

    /// What was reached, with counts, in a fixed order.
    pub(crate) fn reached(&self) -> Vec<(String, u64)> {
        let mut all: Vec<(String, u64)> = Vec::new();
        for name in Fault::ALL.iter().map(|fault| fault.name()).chain(SITUATIONS.iter().copied()) {
            all.push((name.to_owned(), self.counts.get(name).copied().unwrap_or(0)));
        }
        for mark in Mark::ALL {
            all.push((format!("cluster: {mark:?}"), u64::from(self.marks.has(*mark))));
        }
        all
    }

    /// What was never reached.
    pub(crate) fn missing(&self) -> Vec<String> {
        self.reached().into_iter().filter(|(_, hits)| *hits == 0).map(|(name, _)| name).collect()
    }
}
