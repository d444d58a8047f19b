//! What an agent must not forget: intents, tombstones and the highest term, on disk before any
//! verb that rests on them runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_model::failure::Failure;
use persys_model::id::{RevisionId, SecretName, WorkloadId};
use persys_model::secret::SecretValues;
use persys_model::spec::Spec;
use persys_model::store_mark::StoreMark;
use persys_model::time::WallMillis;
use persys_model::token::{Epoch, Term};

/// Everything an agent keeps on disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    /// The highest leadership it has heard of.
    pub term: Term,
    /// What it is to have.
    pub intents: BTreeMap<WorkloadId, Intent>,
    /// What it has removed, lately.
    pub tombstones: BTreeMap<WorkloadId, Buried>,
    /// The latest mark of the store that a scheduler gave; `None` before the first one.
    pub mark: Option<StoreMark>,
}

/// What an agent is to have of one workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The decision.
    pub epoch: Epoch,
    /// The version.
    pub revision: RevisionId,
    /// Running, at rest, or gone.
    pub goal: Goal,
    /// What to run; `None` when only the running thing was found after the ledger was lost.
    pub spec: Option<Arc<Spec>>,
    /// The secrets of the spec as they came with the decision. On disk they are sealed.
    pub secrets: Arc<SecretValues>,
    /// Starts after the first under this decision; survives restarts of the agent.
    pub restarts: u32,
    /// Set once the agent has given up on this decision.
    pub gave_up: Option<Failure>,
    /// Beside `gave_up`: the other revision that ran before was left alone, and runs on.
    pub kept: bool,
    /// It ended well and is not started again.
    pub completed: bool,
    /// It was started under this decision in a thing that an earlier one made, whose labels therefore
    /// do not tell. Without it, a new life would take an end for that of the earlier decision.
    pub started: bool,
    /// Secrets whose values are newer than those that what runs was last told of. It is told at least
    /// once: they are taken out when that is done.
    pub untold: BTreeSet<SecretName>,
}

/// What is to become of a workload on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Goal {
    /// It runs.
    Run,
    /// It is started like what runs, and then paused.
    Pause,
    /// It is at rest, its data kept.
    Rest,
    /// It goes; `purge` takes its deletable data too.
    Gone {
        /// Whether data goes too.
        purge: bool,
    },
}

/// A removed workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buried {
    /// The decision that removed it.
    pub epoch: Epoch,
    /// When, so that old ones can be forgotten.
    pub at: WallMillis,
    /// Whether its data went too.
    pub purged: bool,
}

/// One change of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerChange {
    /// A higher leadership was heard of.
    Term(Term),
    /// The store is further than the last mark said.
    Mark(StoreMark),
    /// An intent is new or changed.
    Put(WorkloadId, Intent),
    /// An intent is carried out to its end: the workload is gone, remember that.
    Bury(WorkloadId, Buried),
    /// An old tombstone is forgotten.
    Forget(WorkloadId),
    /// An intent that a later decision about something else has made void: nothing was done about it,
    /// and nothing will be.
    Withdraw(WorkloadId),
}

impl Ledger {
    /// Carries out one change; the shell does the same on disk.
    pub fn apply(&mut self, change: &LedgerChange) {
        match change {
            LedgerChange::Term(term) => self.term = self.term.max(*term),
            LedgerChange::Mark(mark) => self.mark = Some(mark.clone()),
            LedgerChange::Put(workload, intent) => {
                self.intents.insert(workload.clone(), intent.clone());
            }
            LedgerChange::Bury(workload, buried) => {
                self.intents.remove(workload);
                self.tombstones.insert(workload.clone(), buried.clone());
            }
            LedgerChange::Forget(workload) => {
                self.tombstones.remove(workload);
            }
            LedgerChange::Withdraw(workload) => {
                self.intents.remove(workload);
            }
        }
    }
}
