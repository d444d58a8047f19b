//! A machine, as the scheduler knows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::id::{DriverName, NodeId, PoolName};
use crate::labels::{Labels, Taint};
use crate::resources::Compute;
use crate::spec::WorkloadType;
use crate::time::WallMillis;
use crate::token::Session;

/// Where a node is said to be that nobody can call: its agent keeps a stream open to the scheduler and
/// is reached over that. The name never resolves (RFC 6761), so that whoever dials it finds nobody.
pub const BY_STREAM: &str = "stream.invalid:1";

/// Beginning of the host of a node whose agent knows only the documents' contract: such an agent does
/// not name its machine, so its address stands for it.
pub const CONTRACT_HOST: &str = "legacy/";
/// The life of a contract agent that is called: nothing tells it from the one before.
pub const CONTRACT_LIFE: &str = "unknown";

/// What an agent says of its machine when it registers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one for each capability of its agent")]
pub struct NodeFacts {
    /// Its name.
    pub id: NodeId,
    /// The machine behind the name; another machine with the same name is refused.
    pub host: Arc<str>,
    /// One life of the agent process.
    pub incarnation: Arc<str>,
    /// Where the scheduler can call it, host and port; or [`BY_STREAM`].
    pub endpoint: Arc<str>,
    /// All the CPU and memory it offers.
    pub capacity: Compute,
    /// Its storage pools; the first is the default. None: disk is not counted on this node.
    pub pools: Vec<Pool>,
    /// What it can run.
    pub types: BTreeSet<WorkloadType>,
    /// Which volumes it can store.
    pub drivers: BTreeSet<DriverName>,
    /// Labels it was configured with.
    pub labels: Labels,
    /// Whether its watchdog can stop exclusive work without the agent.
    pub fence: bool,
    /// True if its agent can pause workloads. Those of earlier releases cannot.
    pub pauses: bool,
    /// True if its agent runs the health checks of specs.
    pub checks_health: bool,
    /// True if its agent can give new values of secrets to what runs and signal it. Those of earlier
    /// releases cannot.
    pub signals: bool,
    /// True if its agent can publish a port on one address of the node. Those of earlier releases
    /// would publish it on all of them.
    pub addresses: bool,
    /// What it cannot run, with a sentence for people on why and what to do about it.
    pub missing: BTreeMap<WorkloadType, Arc<str>>,
}

impl NodeFacts {
    /// True if its agent knows only the documents' contract: no tokens, and no inventory of its own.
    #[must_use]
    pub fn is_contract(&self) -> bool {
        self.host.starts_with(CONTRACT_HOST)
    }

    /// True if it is a contract agent that can be called, and so asked for what it holds. One that is
    /// reached over a stream is heard only by its heartbeats.
    #[must_use]
    pub fn is_asked_for_inventory(&self) -> bool {
        self.is_contract() && *self.endpoint != *BY_STREAM && *self.incarnation == *CONTRACT_LIFE
    }
}

/// A storage pool of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: PoolName,
    /// Size of the file system it is in.
    pub total_gib: u64,
    /// The first pool in the same file system, if that is another: what is reserved in any of them is
    /// taken from all.
    pub shares: Option<PoolName>,
}

impl Pool {
    /// A pool with a file system of its own.
    #[must_use]
    pub fn alone(name: PoolName, total_gib: u64) -> Self {
        Self { name, total_gib, shares: None }
    }
}

/// Of `pools`, the first in the file system that `pool` is in; `None` is the default pool. No pool, and
/// one that is not there, have none.
#[must_use]
pub fn first_of<'a>(pools: &'a [Pool], pool: Option<&PoolName>) -> Option<&'a Pool> {
    let find = |name: &PoolName| pools.iter().find(|pool| pool.name == *name);
    let named = match pool {
        Some(name) => find(name)?,
        None => pools.first()?,
    };
    named.shares.as_ref().and_then(find).or(Some(named))
}

/// Size of all `pools` together, each file system counted once.
#[must_use]
pub fn total_gib(pools: &[Pool]) -> u64 {
    let firsts = pools.iter().filter(|pool| pool.shares.is_none());
    firsts.fold(0, |sum, pool| sum.saturating_add(pool.total_gib))
}

/// The stored record of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What its agent said last.
    pub facts: NodeFacts,
    /// Its present life.
    pub session: Session,
    /// Labels set by operators; they win over the agent's.
    pub labels: Labels,
    /// Labels of the agent that operators removed.
    pub hidden_labels: BTreeSet<Arc<str>>,
    /// Marks that keep workloads away.
    pub taints: BTreeSet<Taint>,
    /// Whether it is being emptied, and why.
    pub drain: Option<Arc<str>>,
    /// Whether it can be used.
    pub condition: Condition,
    /// When the condition last changed.
    pub since: WallMillis,
}

/// Whether a node can be used, as its heartbeats and probes tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// It keeps its lease.
    Ready,
    /// Its lease ran out; nothing is placed on it and nothing is moved from it.
    NotReady,
    /// Its lease ran out long ago and it does not answer a probe: its work is moved.
    Lost,
}

impl Node {
    /// Labels as placement sees them: the agent's, less those hidden, then the operators'.
    #[must_use]
    pub fn effective_labels(&self) -> Labels {
        let mut labels = self.facts.labels.clone();
        labels.retain(|key, _| !self.hidden_labels.contains(key));
        labels.extend(self.labels.iter().map(|(key, value)| (Arc::clone(key), Arc::clone(value))));
        labels
    }

    /// Whether new work may go here at all.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.condition == Condition::Ready && self.drain.is_none()
    }

    /// Every word [`Node::status_word`] may give, and those of the contract that it does not give.
    pub const STATUS_WORDS: [&str; 5] = ["Ready", "Draining", "NotReady", "Active", "Unknown"];

    /// The word existing clients know its state by.
    #[must_use]
    pub fn status_word(&self) -> &'static str {
        match (self.condition, &self.drain) {
            (Condition::Ready, None) => "Ready",
            (Condition::Ready, Some(_)) => "Draining",
            (Condition::NotReady | Condition::Lost, _) => "NotReady",
        }
    }
}
