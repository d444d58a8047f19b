//! What is stored, and the smallest piece that is stored together.

use std::sync::Arc;

use persys_model::assignment::{Assignment, Grave};
use persys_model::audit::{AuditHead, AuditRecord};
use persys_model::drift::{Drift, DriftKind};
use persys_model::entry::{Entry, EntryKey};
use persys_model::event::Event;
use persys_model::history::{Body, Revision};
use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::lease::Lease;
use persys_model::node::Node;
use persys_model::reconciliation::Reconciliation;
use persys_model::retry::Retry;
use persys_model::token::{CommitSeq, Epoch, EventSeq};
use persys_model::volume::{Attachment, Volume, VolumeKey};
use persys_model::workload::Workload;

/// The counters of the whole cluster. It is written with every transaction, which compares it
/// first: transactions form one chain, and one that comes late cannot slip in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The identity of this cluster, drawn once.
    pub cluster: Arc<str>,
    /// How often the cluster was rebuilt; raised by every recovery.
    pub incarnation: u64,
    /// The last unit that was written.
    pub seq: CommitSeq,
    /// The highest epoch ever given out.
    pub epoch: Epoch,
    /// The last event that was written.
    pub event: EventSeq,
    /// The last record of the audit log.
    pub audit: AuditHead,
    /// A rebuilding has begun and is not yet written to its end: a leader that finds this finds a
    /// store in recovery.
    pub rebuilding: bool,
    /// Key of the marks that agents keep, drawn once; empty in stores of earlier releases.
    pub mark_key: Arc<str>,
}

/// One change of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// `/nodes/<id>`
    PutNode(Arc<Node>),
    /// `/nodes/<id>` goes.
    DeleteNode(NodeId),
    /// `/nodes/<id>/lease`
    PutLease(Arc<Lease>),
    /// `/nodes/<id>/lease` goes.
    DeleteLease(NodeId),
    /// `/workloads/<id>`
    PutWorkload(Arc<Workload>),
    /// `/workloads/<id>` goes.
    DeleteWorkload(WorkloadId),
    /// `/assignments/<id>`
    PutAssignment(Arc<Assignment>),
    /// `/assignments/<id>` goes.
    DeleteAssignment(WorkloadId),
    /// `/retries/<id>`
    PutRetry(Arc<Retry>),
    /// `/retries/<id>` goes.
    DeleteRetry(WorkloadId),
    /// `/reconciliation/<id>`
    PutReconciliation(Arc<Reconciliation>),
    /// `/reconciliation/<id>` goes.
    DeleteReconciliation(WorkloadId),
    /// `/graves/<node>/<workload>`
    PutGrave(Arc<Grave>),
    /// `/graves/<node>/<workload>` goes.
    DeleteGrave(NodeId, WorkloadId),
    /// `/drifts/<node>/<workload>/<kind>`
    PutDrift(Arc<Drift>),
    /// `/drifts/<node>/<workload>/<kind>` goes.
    DeleteDrift(NodeId, WorkloadId, DriftKind),
    /// `/<kind, in the plural>/<name>`
    PutEntry(Arc<Entry>),
    /// `/<kind, in the plural>/<name>` goes.
    DeleteEntry(EntryKey),
    /// `/volumes/<driver>:<name>`
    PutVolume(Arc<Volume>),
    /// `/volumes/<driver>:<name>` goes.
    DeleteVolume(VolumeKey),
    /// `/attachments/<node>/<workload>/<driver>:<name>`
    PutAttachment(Arc<Attachment>),
    /// `/attachments/<node>/<workload>/<driver>:<name>` goes.
    DeleteAttachment(NodeId, WorkloadId, VolumeKey),
    /// `/history/<workload>/<number>`
    PutRevision(Arc<Revision>),
    /// `/history/<workload>/<number>` goes.
    DeleteRevision(WorkloadId, u32),
    /// `/history/<workload>/spec-<content>`
    PutBody(Arc<Body>),
    /// `/history/<workload>/spec-<content>` goes.
    DeleteBody(WorkloadId, RevisionId),
    /// `/events/<time>-<seq>`
    PutEvent(Arc<Event>),
    /// `/audit/...`
    PutAudit(Arc<AuditRecord>),
}

/// Writes that are stored together or not at all, and leave a legal state behind them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// The counters after this unit; its `seq` is the unit's own number.
    pub head: Head,
    /// The changes, in no particular order: no key stands twice.
    pub writes: Vec<Write>,
}

/// Everything that is stored, as it is read back. Events and outcomes of reconciliation are not read:
/// they are history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// The counters; `None` when nothing was ever written, or all was lost.
    pub head: Option<Head>,
    /// All nodes.
    pub nodes: Vec<Arc<Node>>,
    /// Leases of nodes; copies of a store have none.
    pub leases: Vec<Arc<Lease>>,
    /// All intents.
    pub workloads: Vec<Arc<Workload>>,
    /// All decisions.
    pub assignments: Vec<Arc<Assignment>>,
    /// All running retry incidents.
    pub retries: Vec<Arc<Retry>>,
    /// All orders that wait for absent nodes.
    pub graves: Vec<Arc<Grave>>,
    /// All open differences.
    pub drifts: Vec<Arc<Drift>>,
    /// All records that are neither workloads nor nodes.
    pub entries: Vec<Arc<Entry>>,
    /// All volumes.
    pub volumes: Vec<Arc<Volume>>,
    /// All volumes on nodes.
    pub attachments: Vec<Arc<Attachment>>,
}
