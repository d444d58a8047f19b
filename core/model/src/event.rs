//! What happened, for people and for watchers. Written in the same commit as the change itself.

use std::sync::Arc;

use crate::assignment::ReasonCode;
use crate::drift::DriftKind;
use crate::health::HealthState;
use crate::id::{NamespaceName, NodeId, RevisionId, WorkloadId};
use crate::mode::Mode;
use crate::node::Condition;
use crate::phase::Phase;
use crate::spec::WorkloadType;
use crate::task::Task;
use crate::time::WallMillis;
use crate::token::{Epoch, EventSeq};
use crate::volume::{VolumeKey, VolumePhase};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its place in history; no number is skipped.
    pub seq: EventSeq,
    /// When, as people read it.
    pub at: WallMillis,
    /// What.
    pub what: Happening,
    /// Who asked for it, where somebody did.
    pub by: Option<Arc<Author>>,
}

/// Who asked for a change. Each change somebody asked for has an event with its author, and a record
/// in the audit log, in the same commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// Role and name, as the certificate says.
    pub who: Arc<str>,
    /// The reason they gave; empty when they gave none.
    pub why: Arc<str>,
    /// Where the request came from, for the audit log alone.
    pub origin: Origin,
}

/// Where a request came from, and why it was let in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// Address of the caller.
    pub source: Arc<str>,
    /// What ties it to a line in a log.
    pub request: Arc<str>,
    /// The rule that allowed it.
    pub rule: Arc<str>,
    /// The namespace it is about, if about one.
    pub namespace: Arc<str>,
}

impl Author {
    /// Longest reason that is kept, in bytes.
    pub const LONGEST_WHY: usize = 512;

    /// Somebody who gives no reason.
    pub fn new(who: &str) -> Self {
        Self { who: Arc::from(who), why: Arc::from(""), origin: Origin::default() }
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// A workload changed its phase; `from` is `None` when it was accepted, `to` when it is gone.
    Workload {
        /// Which.
        id: WorkloadId,
        /// Phase before.
        from: Option<Phase>,
        /// Phase after.
        to: Option<Phase>,
        /// Why.
        code: ReasonCode,
        /// The same in a sentence.
        message: Arc<str>,
        /// On which node, if any.
        node: Option<NodeId>,
        /// By which decision, if any.
        epoch: Option<Epoch>,
        /// The revision it is about, where that is known.
        revision: Option<RevisionId>,
        /// The agent's action that led to it, where one did.
        task: Option<Arc<Task>>,
    },
    /// A node joined, or joined anew.
    NodeRegistered {
        /// Which.
        id: NodeId,
    },
    /// A node's condition changed.
    NodeCondition {
        /// Which.
        id: NodeId,
        /// Before.
        from: Condition,
        /// After.
        to: Condition,
        /// Why.
        why: Arc<str>,
    },
    /// A part of a ready node stopped working, or works again.
    NodeTrouble {
        /// The node.
        id: NodeId,
        /// The part.
        part: NodePart,
        /// The cause; `None` when the part works again.
        why: Option<Arc<str>>,
    },
    /// A workload stays in its phase for longer than it should.
    WorkloadDelayed {
        /// The workload.
        id: WorkloadId,
        /// The node that should act, if there is one.
        node: Option<NodeId>,
        /// The cause, as people read it.
        message: Arc<str>,
    },
    /// The checks of a workload have another verdict.
    Health {
        /// The workload.
        id: WorkloadId,
        /// Its node.
        node: NodeId,
        /// The verdict now.
        to: HealthState,
        /// The last failed check; empty unless unhealthy.
        message: Arc<str>,
    },
    /// A secret that a workload uses has a new value, which what runs gets at once.
    SecretChanged {
        /// The workload.
        id: WorkloadId,
        /// Its node.
        node: NodeId,
        /// What is done about it, as people read it.
        message: Arc<str>,
    },
    /// An operator changed a node.
    NodeChanged {
        /// Which.
        id: NodeId,
        /// What was changed.
        what: NodeChange,
    },
    /// So many nodes fell silent together that nothing is moved until somebody looks.
    MassFailureBrake {
        /// Silent nodes.
        silent: usize,
        /// All nodes.
        total: usize,
        /// Whether the brake is on now.
        on: bool,
    },
    /// Reality and record differ.
    Drift {
        /// Where.
        node: NodeId,
        /// Which workload.
        id: WorkloadId,
        /// How.
        kind: DriftKind,
        /// `false` when it is noticed, `true` when it is settled.
        resolved: bool,
    },
    /// A volume came to have, or lost, a life of its own.
    Volume {
        /// Which.
        key: VolumeKey,
        /// How it is now; `None` when it is gone.
        to: Option<VolumePhase>,
        /// The node that has its data, where one does.
        node: Option<NodeId>,
    },
    /// Somebody changed something that shows in no other event.
    Asked {
        /// What they asked for, in a few words.
        what: Arc<str>,
        /// About which workload, if about one.
        workload: Option<WorkloadId>,
        /// About which node, if about one.
        node: Option<NodeId>,
    },
    /// A namespace, or the whole cluster, entered or left shadow.
    Shadow {
        /// The namespace; `None` is the whole cluster.
        namespace: Option<NamespaceName>,
        /// True when it entered shadow.
        on: bool,
        /// Number of workloads that are decided about anew.
        workloads: usize,
    },
    /// The scheduler changed its mode.
    ModeChanged {
        /// Before.
        from: Mode,
        /// After.
        to: Mode,
        /// Why.
        why: Arc<str>,
    },
}

/// A part of a node that can fail while its heartbeats go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodePart {
    /// Delivery of orders to its agent.
    Orders,
    /// The numbers its agent holds: above those of the store, and not proven.
    Tokens,
    /// The runtime of one type of workload.
    Runtime(WorkloadType),
}

/// What an operator changed on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeChange {
    /// It is being emptied.
    Draining,
    /// It takes work again.
    Undrained,
    /// A taint was set.
    Tainted,
    /// A taint was removed.
    Untainted,
    /// A label was set.
    LabelSet,
    /// A label was removed.
    LabelDeleted,
    /// Somebody vouched that it is switched off and will not come back as it was.
    ConfirmedGone,
    /// It was removed from the cluster.
    Removed,
}
