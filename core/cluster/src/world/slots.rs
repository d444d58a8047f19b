//! What the scheduler holds in memory for each node and each workload: the stored record, and
//! beside it what it merely knows at present.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_model::assignment::{Assignment, Grave};
use persys_model::drift::{Drift, DriftKind};
use persys_model::id::{PoolName, WorkloadId};
use persys_model::inventory::{Held, Report};
use persys_model::lease::Lease;
use persys_model::link::Usage;
use persys_model::node::{Node, Pool, first_of};
use persys_model::phase::Phase;
use persys_model::resources::Resources;
use persys_model::retry::Retry;
use persys_model::task::Task;
use persys_model::time::{Millis, WallMillis};
use persys_model::token::{Epoch, Session};
use persys_model::workload::Workload;

use super::attempt::Attempt;
use super::delivery::{Reach, RuntimesDown};
use crate::input::Probe;

/// Dense number of a workload in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadIndex(pub(crate) u32);

/// A node and what is known of it.
#[derive(Debug)]
pub(crate) struct NodeSlot {
    /// As stored.
    pub(crate) node: Arc<Node>,
    /// Its lease, as stored.
    pub(crate) lease: Option<Arc<Lease>>,
    /// Workloads whose place is here.
    pub(crate) assigned: BTreeSet<WorkloadIndex>,
    /// Workloads with an earlier copy here.
    pub(crate) formers: BTreeSet<WorkloadIndex>,
    /// Orders that wait for this node, as stored.
    pub(crate) graves: BTreeMap<WorkloadId, Arc<Grave>>,
    /// Open differences, as stored.
    pub(crate) drifts: BTreeMap<(WorkloadId, DriftKind), Arc<Drift>>,
    /// Unknown workloads found here, and what is held for each.
    pub(crate) orphans: BTreeMap<WorkloadId, Orphan>,
    /// Orders sent in this session and not yet obeyed.
    pub(crate) orders: BTreeMap<WorkloadId, Sent>,
    /// What it proved to have removed in this session: a word of it that comes late is no news.
    pub(crate) removed: BTreeMap<WorkloadId, Epoch>,
    /// Until when its last beat keeps it ready.
    pub(crate) expires_at: Millis,
    /// When it was last told that its lease is renewed; the fence counts from here.
    pub(crate) renewed_at: Millis,
    /// The last message taken in, in this session.
    pub(crate) seq: u64,
    /// Whether all it holds is known in this session, under this leadership.
    pub(crate) known: bool,
    /// Whether its next beat should tell all it holds.
    pub(crate) want_inventory: bool,
    /// How it was probed since it fell silent.
    pub(crate) probe: Option<Probing>,
    /// When it was declared lost, for the brake.
    pub(crate) lost_at: Option<Millis>,
    /// Somebody vouched that it is switched off.
    pub(crate) confirmed_gone: bool,
    /// What the machine really uses.
    pub(crate) usage: Usage,
    /// Present capacity of its pools, where that is less than their size.
    pub(crate) limits: BTreeMap<PoolName, u64>,
    /// Why its agent takes nothing new, if so.
    pub(crate) busy: Option<Arc<str>>,
    /// Whether orders reach it.
    pub(crate) reach: Reach,
    /// Its runtimes that do not answer.
    pub(crate) down: RuntimesDown,
}

/// How a silent node is probed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probing {
    /// When it was asked last.
    pub(crate) asked: Millis,
    /// What the latest probe that was heard of found, and when that one was asked.
    pub(crate) found: Option<(Millis, Probe)>,
}

/// An unknown workload on a node.
#[derive(Debug)]
pub(crate) struct Orphan {
    pub(crate) held: Held,
    /// What is counted against the node for it.
    pub(crate) taken: Resources,
}

/// An order on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) epoch: Epoch,
    /// When it is sent again unless it is answered.
    pub(crate) again_at: Millis,
    /// It was on its way once and could not be delivered: the decision it carries is durable.
    pub(crate) went_out: bool,
}

impl NodeSlot {
    /// Its pools as placement counts them: none larger than what its agent says it has for workloads.
    pub(crate) fn pools(&self) -> Vec<Pool> {
        let pools = self.node.facts.pools.iter().cloned();
        let limited = |pool: Pool| match self.limits.get(&pool.name) {
            Some(limit) => Pool { total_gib: pool.total_gib.min(*limit), ..pool },
            None => pool,
        };
        pools.map(limited).collect()
    }

    /// The pool `name`, or the default one, if it has less for workloads than its size: in words.
    pub(crate) fn shrunk(&self, name: Option<&PoolName>) -> Option<String> {
        let pool = first_of(&self.node.facts.pools, name)?;
        let limit = self.limits.get(&pool.name).filter(|limit| **limit < pool.total_gib)?;
        Some(format!(
            "the disk of pool {} has {limit} of {} GiB for workloads; the rest is in use by others",
            pool.name, pool.total_gib
        ))
    }

    pub(crate) fn new(node: Arc<Node>, now: Millis) -> Self {
        Self {
            node,
            lease: None,
            assigned: BTreeSet::new(),
            formers: BTreeSet::new(),
            graves: BTreeMap::new(),
            drifts: BTreeMap::new(),
            orphans: BTreeMap::new(),
            orders: BTreeMap::new(),
            removed: BTreeMap::new(),
            expires_at: now,
            renewed_at: now,
            seq: 0,
            known: false,
            want_inventory: true,
            probe: None,
            lost_at: None,
            confirmed_gone: false,
            usage: Usage::default(),
            limits: BTreeMap::new(),
            busy: None,
            reach: Reach::default(),
            down: RuntimesDown::new(),
        }
    }

    /// True if it takes new work. A node whose machine is busy would refuse it, and one that cannot
    /// be called would never hear of it.
    pub(crate) fn is_open(&self) -> bool {
        self.node.is_open() && self.busy.is_none() && self.reach.trouble().is_none()
    }

    /// Forgets what belonged to an earlier life of the agent.
    pub(crate) fn begin_session(&mut self, now: Millis, lease_ms: u64) {
        self.busy = None;
        self.reach = Reach::default();
        self.down.clear();
        self.orders.clear();
        self.removed.clear();
        self.seq = 0;
        self.known = false;
        self.want_inventory = false;
        self.expires_at = now.plus(lease_ms);
        self.renewed_at = now;
        self.probe = None;
        self.lost_at = None;
        self.confirmed_gone = false;
    }
}

/// A workload and what is known of it.
#[derive(Debug)]
pub(crate) struct WorkloadSlot {
    /// The intent, as stored.
    pub(crate) workload: Arc<Workload>,
    /// The decision, as stored.
    pub(crate) assignment: Arc<Assignment>,
    /// The retry incident, as stored.
    pub(crate) retry: Option<Arc<Retry>>,
    /// The last word of its node about the present decision.
    pub(crate) seen: Option<Report>,
    /// The life of its node, and the decision, that the node is known to have taken in.
    pub(crate) told: Option<(Session, Epoch)>,
    /// The decision its node last took in, and when this scheduler learned of it.
    pub(crate) admitted: Option<(Epoch, WallMillis)>,
    /// The last action of its node for it, and the decision it was for.
    pub(crate) task: Option<(Epoch, Arc<Task>)>,
    /// Waiting to be settled in this step.
    pub(crate) dirty: bool,
    /// Its place in the waiting room, while it wants room.
    pub(crate) waits: Option<u64>,
    /// When the next attempt is due.
    pub(crate) retry_due: Option<Millis>,
    /// Since when it runs without a failure.
    pub(crate) healthy_since: Option<Millis>,
    /// Since when its node does not hold what it should, although it was told.
    pub(crate) amiss_since: Option<Millis>,
    /// Its node says that it runs something of it by an earlier decision.
    pub(crate) runs_older: bool,
    /// The present attempt to have it on its node.
    pub(crate) attempt: Attempt,
}

/// A growing table with reused numbers.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// Keeps `value` and tells its number.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(at) = self.free.pop()
            && let Some(slot) = self.get_slot(at)
        {
            *slot = Some(value);
            return at;
        }
        let at = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.slots.push(Some(value));
        at
    }

    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let value = self.get_slot(at)?.take()?;
        self.free.push(at);
        Some(value)
    }

    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.slots.get(usize::try_from(at).ok()?)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.get_slot(at)?.as_mut()
    }

    /// All of them, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    fn get_slot(&mut self, at: u32) -> Option<&mut Option<T>> {
        self.slots.get_mut(usize::try_from(at).ok()?)
    }
}

impl WorkloadSlot {
    /// True if its node may run something of it although its phase does not say so: what is to be
    /// stopped, or what the node has by an earlier decision.
    pub(super) fn may_run_unseen(&self) -> bool {
        match self.assignment.phase {
            Phase::Stopping => true,
            Phase::Starting
            | Phase::Running
            | Phase::Paused
            | Phase::Unresponsive
            | Phase::Restarting
            | Phase::Deleting => false,
            Phase::Pending | Phase::Stopped | Phase::Completed | Phase::Backoff | Phase::Failed => {
                self.runs_older
            }
        }
    }
}
