//! What an agent sends on its own: it registers once per life, then beats.
//!
//! Everything an agent says carries its session and a sequence number, so that a message that was
//! overtaken by a later one, or belongs to an earlier life, changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::id::{NodeId, PoolName, WorkloadId};
use crate::inventory::{Inventory, Report, Tombstone};
use crate::node::NodeFacts;
use crate::resources::Compute;
use crate::spec::WorkloadType;
use crate::store_mark::StoreMark;
use crate::task::WorkloadTask;
use crate::token::{Epoch, Session, Term};

/// An agent's first word in each life: who it is and all that it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Who it is.
    pub facts: NodeFacts,
    /// All that it holds. It starts none of it before it is told to.
    pub inventory: Inventory,
    /// The highest leadership it has heard of. A scheduler whose store knows less has lost
    /// something.
    pub term: Term,
}

/// The scheduler's answer to a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistrationAnswer {
    /// Welcome.
    Accepted {
        /// The leadership that answers.
        term: Term,
        /// The life that begins.
        session: Session,
        /// How often to beat.
        beat_ms: u64,
        /// How long a beat keeps the lease.
        lease_ms: u64,
    },
    /// Not now, or not at all.
    Refused {
        /// Why, for the log of the agent.
        why: Arc<str>,
        /// When trying again may help.
        retry_after_ms: u64,
    },
}

/// A heartbeat, or a change sent at once: the same message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// From whom.
    pub node: NodeId,
    /// In which life.
    pub session: Session,
    /// The how-manieth message of this life.
    pub seq: u64,
    /// What changed and was not yet acknowledged.
    pub reports: Vec<Report>,
    /// What was removed and was not yet acknowledged.
    pub removed: Vec<Tombstone>,
    /// All that is held, when it was asked for.
    pub inventory: Option<Inventory>,
    /// The last action for each workload that is reported or removed here.
    pub tasks: Vec<WorkloadTask>,
    /// Reserved and measured use of the machine, for people and dashboards.
    pub usage: Usage,
    /// Present capacity of pools in GiB: what is free in the file system and what workloads of ours
    /// already use there. A pool that is not named has its whole size.
    pub limits: BTreeMap<PoolName, u64>,
    /// Why the agent takes nothing new at present, if so: for people. Placement counts what is
    /// reserved, not what is measured.
    pub busy: Option<Arc<str>>,
    /// Runtimes that do not answer, by the type of workload they run, with the cause.
    pub down: BTreeMap<WorkloadType, Arc<str>>,
    /// True if the agent obeys removals that the answer to a heartbeat carries.
    pub takes_removals: bool,
}

/// A removal that the answer to a heartbeat carries because it cannot be delivered: the node is to have
/// no copy of the workload up to this decision, and proves that with a tombstone. Its data stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// The workload.
    pub workload: WorkloadId,
    /// The decision.
    pub epoch: Epoch,
}

/// Reserved and measured use of one machine. Placement does not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// CPU and memory reserved by the workloads that are to run on the node.
    pub allocated: Compute,
    /// Disk reserved by all workloads the agent holds, over all pools.
    pub allocated_disk_gib: u64,
    /// Measured CPU and memory of the whole machine.
    pub used: Compute,
    /// Measured use of the file systems behind the node's pools, each counted once.
    pub used_disk_gib: u64,
}

/// The scheduler's answer to a beat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeatAnswer {
    /// Heard.
    Heard {
        /// The leadership that answers.
        term: Term,
        /// The life it is about.
        session: Session,
        /// The message it is about: everything up to it was taken in.
        seq: u64,
        /// Whether the lease is renewed by this answer. Not so while the scheduler cannot be sure
        /// that it leads; exclusive work then runs out of time, other work does not care.
        renewed: bool,
        /// Take nothing new, stop nothing.
        hold: bool,
        /// Start nothing new; stops and removals are obeyed. Only schedulers of the plain contract
        /// send it: ours empties a node by orders.
        drain: bool,
        /// Send all that is held with the next beat.
        want_inventory: bool,
        /// How often to beat from now on; 0 leaves it as it is. A node with exclusive work may beat
        /// more often.
        beat_ms: u64,
        /// Removals that could not be delivered.
        removals: Vec<Removal>,
        /// Proof of how far the store has come, to be kept and shown to later leaderships.
        mark: Option<StoreMark>,
    },
    /// This life is over: register again, act on nothing before.
    RegisterAgain {
        /// The leadership that answers.
        term: Term,
    },
}
