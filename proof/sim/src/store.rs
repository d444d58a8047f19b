//! The store: one leader key with a lease, one head, the records, and what can go wrong with it.
//!
//! Every call is carried out at one instant, as a transaction is. Everything bad happens around
//! it: the call may come late, the answer may be lost, the contents may be gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_cluster::record::{Head, Snapshot, Unit, Write};
use persys_cluster::store::{HighWater, StoreCall, StoreReply};
use persys_model::assignment::{Assignment, Grave};
use persys_model::drift::{Drift, DriftKind};
use persys_model::entry::{Entry, EntryKey};
use persys_model::history::{Body, Revision};
use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::lease::Lease;
use persys_model::node::Node;
use persys_model::reconciliation::Reconciliation;
use persys_model::retry::Retry;
use persys_model::token::{CommitSeq, Term};
use persys_model::volume::{Attachment, Volume, VolumeKey};
use persys_model::workload::Workload;

use crate::clock::Clock;

/// Everything that is stored, by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) head: Option<Head>,
    pub(crate) nodes: BTreeMap<NodeId, Arc<Node>>,
    pub(crate) leases: BTreeMap<NodeId, Arc<Lease>>,
    pub(crate) outcomes: BTreeMap<WorkloadId, Arc<Reconciliation>>,
    pub(crate) workloads: BTreeMap<WorkloadId, Arc<Workload>>,
    pub(crate) assignments: BTreeMap<WorkloadId, Arc<Assignment>>,
    pub(crate) retries: BTreeMap<WorkloadId, Arc<Retry>>,
    pub(crate) graves: BTreeMap<(NodeId, WorkloadId), Arc<Grave>>,
    pub(crate) drifts: BTreeMap<(NodeId, WorkloadId, DriftKind), Arc<Drift>>,
    pub(crate) entries: BTreeMap<EntryKey, Arc<Entry>>,
    pub(crate) volumes: BTreeMap<VolumeKey, Arc<Volume>>,
    pub(crate) attachments: BTreeMap<(NodeId, WorkloadId, VolumeKey), Arc<Attachment>>,
    pub(crate) revisions: BTreeMap<(WorkloadId, u32), Arc<Revision>>,
    pub(crate) bodies: BTreeMap<(WorkloadId, RevisionId), Arc<Body>>,
}

impl Contents {
    /// The number of the last unit; 0 when there is none.
    pub(crate) fn seq(&self) -> CommitSeq {
        self.head.as_ref().map_or(CommitSeq(0), |head| head.seq)
    }

    /// Writes one unit.
    pub(crate) fn apply(&mut self, unit: &Unit) {
        self.head = Some(unit.head.clone());
        for write in &unit.writes {
            self.write(write);
        }
    }

    fn write(&mut self, write: &Write) {
        match write {
            Write::PutNode(node) => {
                self.nodes.insert(node.facts.id.clone(), Arc::clone(node));
            }
            Write::DeleteNode(id) => {
                self.nodes.remove(id);
            }
            Write::PutLease(_)
            | Write::DeleteLease(_)
            | Write::PutReconciliation(_)
            | Write::DeleteReconciliation(_) => self.write_derived(write),
            Write::PutWorkload(workload) => {
                self.workloads.insert(workload.id.clone(), Arc::clone(workload));
            }
            Write::DeleteWorkload(id) => {
                self.workloads.remove(id);
            }
            Write::PutAssignment(assignment) => {
                self.assignments.insert(assignment.workload.clone(), Arc::clone(assignment));
            }
            Write::DeleteAssignment(id) => {
                self.assignments.remove(id);
            }
            Write::PutRetry(retry) => {
                self.retries.insert(retry.workload.clone(), Arc::clone(retry));
            }
            Write::DeleteRetry(id) => {
                self.retries.remove(id);
            }
            Write::PutGrave(grave) => {
                let key = (grave.node.clone(), grave.workload.clone());
                self.graves.insert(key, Arc::clone(grave));
            }
            Write::DeleteGrave(node, workload) => {
                self.graves.remove(&(node.clone(), workload.clone()));
            }
            Write::PutDrift(drift) => {
                let key = (drift.node.clone(), drift.workload.clone(), drift.kind);
                self.drifts.insert(key, Arc::clone(drift));
            }
            Write::DeleteDrift(node, workload, kind) => {
                self.drifts.remove(&(node.clone(), workload.clone(), *kind));
            }
            Write::PutEntry(entry) => {
                self.entries.insert(entry.key(), Arc::clone(entry));
            }
            Write::DeleteEntry(key) => {
                self.entries.remove(key);
            }
            Write::PutVolume(volume) => {
                self.volumes.insert(volume.key.clone(), Arc::clone(volume));
            }
            Write::DeleteVolume(key) => {
                self.volumes.remove(key);
            }
            Write::PutAttachment(one) => {
                let key = (one.node.clone(), one.workload.clone(), one.volume.clone());
                self.attachments.insert(key, Arc::clone(one));
            }
            Write::DeleteAttachment(node, workload, volume) => {
                self.attachments.remove(&(node.clone(), workload.clone(), volume.clone()));
            }
            Write::PutRevision(_)
            | Write::DeleteRevision(..)
            | Write::PutBody(_)
            | Write::DeleteBody(..) => self.write_history(write),
            Write::PutEvent(_) | Write::PutAudit(_) => {}
        }
    }

    /// Writes an earlier revision or its content.
    fn write_history(&mut self, write: &Write) {
        match write {
            Write::PutRevision(one) => {
                self.revisions.insert((one.workload.clone(), one.number), Arc::clone(one));
            }
            Write::DeleteRevision(id, number) => {
                self.revisions.remove(&(id.clone(), *number));
            }
            Write::PutBody(one) => {
                let key = (one.workload.clone(), one.content.clone());
                self.bodies.insert(key, Arc::clone(one));
            }
            Write::DeleteBody(id, content) => {
                self.bodies.remove(&(id.clone(), content.clone()));
            }
            _ => {}
        }
    }

    /// Writes a record that follows from others.
    fn write_derived(&mut self, write: &Write) {
        if let Write::PutLease(lease) = write {
            self.leases.insert(lease.node.clone(), Arc::clone(lease));
        } else if let Write::DeleteLease(id) = write {
            self.leases.remove(id);
        } else if let Write::PutReconciliation(one) = write {
            self.outcomes.insert(one.workload.clone(), Arc::clone(one));
        } else if let Write::DeleteReconciliation(id) = write {
            self.outcomes.remove(id);
        }
    }

    /// Everything, as it is read back.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            head: self.head.clone(),
            nodes: self.nodes.values().cloned().collect(),
            leases: self.leases.values().cloned().collect(),
            workloads: self.workloads.values().cloned().collect(),
            assignments: self.assignments.values().cloned().collect(),
            retries: self.retries.values().cloned().collect(),
            graves: self.graves.values().cloned().collect(),
            drifts: self.drifts.values().cloned().collect(),
            entries: self.entries.values().cloned().collect(),
            volumes: self.volumes.values().cloned().collect(),
            attachments: self.attachments.values().cloned().collect(),
        }
    }

    /// Whether this is less than what a host remembers.
    pub(crate) fn has_lost(&self, known: Option<&HighWater>) -> bool {
        let Some(known) = known else { return false };
        let Some(head) = &self.head else { return true };
        head.cluster != known.cluster
            || (head.incarnation, head.seq) < (known.incarnation, known.seq)
    }
}

/// Who leads, and until when.
#[derive(Debug, Clone)]
struct LeaderKey {
    candidate: Arc<str>,
    term: Term,
    ttl_ms: u64,
    expires: u64,
}

/// The store.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) contents: Contents,
    clock: Clock,
    leader: Option<LeaderKey>,
    /// The revision keys are created with.
    revision: u64,
    /// A copy somebody made in better days.
    backup: Option<Contents>,
}

impl Store {
    /// An empty store that never was used.
    pub(crate) fn new(clock: Clock) -> Self {
        Self { contents: Contents::default(), clock, leader: None, revision: 0, backup: None }
    }

    /// Carries out one call at the virtual moment `at`. `seen` is shown each unit, with the
    /// contents before it.
    pub(crate) fn execute(
        &mut self,
        caller: &str,
        call: &StoreCall,
        at: u64,
        seen: &mut dyn FnMut(&Contents, &Unit),
    ) -> StoreReply {
        let now = self.clock.now(at).mono.0;
        if self.leader.as_ref().is_some_and(|leader| leader.expires <= now) {
            self.leader = None;
        }
        match call {
            StoreCall::Campaign { candidate, ttl_ms } => self.campaign(candidate, *ttl_ms, now),
            StoreCall::Renew { term } => {
                let Some(leader) = self.leads(caller, *term) else { return StoreReply::Deposed };
                leader.expires = now + leader.ttl_ms;
                StoreReply::Renewed(self.high_water())
            }
            StoreCall::Resign { term } => {
                if self.leads(caller, *term).is_none() {
                    return StoreReply::Deposed;
                }
                self.leader = None;
                StoreReply::Done
            }
            StoreCall::Load { term, known } => {
                if self.leads(caller, *term).is_none() {
                    return StoreReply::Deposed;
                }
                self.load(known.as_ref(), seen)
            }
            StoreCall::Commit { term, after, units } => {
                if self.leads(caller, *term).is_none() {
                    return StoreReply::Deposed;
                }
                self.commit(*after, units, seen)
            }
        }
    }

    /// The leader key, if it is the caller's: both its creation and its value are compared, since
    /// a store that was wiped counts its revisions anew.
    fn leads(&mut self, caller: &str, term: Term) -> Option<&mut LeaderKey> {
        self.leader.as_mut().filter(|leader| leader.term == term && *leader.candidate == *caller)
    }

    fn high_water(&self) -> Option<HighWater> {
        self.contents.head.as_ref().map(|head| HighWater {
            cluster: Arc::clone(&head.cluster),
            incarnation: head.incarnation,
            seq: head.seq,
        })
    }

    fn campaign(&mut self, candidate: &Arc<str>, ttl_ms: u64, now: u64) -> StoreReply {
        if let Some(leader) = &self.leader {
            return StoreReply::HeldBy(Arc::clone(&leader.candidate), self.high_water());
        }
        self.revision += 1;
        let term = Term(self.revision);
        let expires = now + ttl_ms;
        self.leader = Some(LeaderKey { candidate: Arc::clone(candidate), term, ttl_ms, expires });
        StoreReply::Won(term)
    }

    fn load(
        &mut self,
        known: Option<&HighWater>,
        seen: &mut dyn FnMut(&Contents, &Unit),
    ) -> StoreReply {
        if !self.contents.has_lost(known)
            && let Some(head) = self.contents.head.clone()
        {
            let head = Head { seq: head.seq.next(), ..head };
            self.write(&Unit { head, writes: Vec::new() }, seen);
        }
        StoreReply::Loaded(Box::new(self.contents.snapshot()))
    }

    fn commit(
        &mut self,
        after: CommitSeq,
        units: &[Unit],
        seen: &mut dyn FnMut(&Contents, &Unit),
    ) -> StoreReply {
        if self.contents.seq() != after {
            return StoreReply::HeadMoved;
        }
        // As the real stores have it: numbers are left out only by a rebuilding.
        let mut last = self.contents.head.as_ref().map_or((0, after), |h| (h.incarnation, h.seq));
        for Unit { head, .. } in units {
            let rebuilt = head.incarnation > last.0 && head.seq > last.1;
            if head.seq != last.1.next() && !rebuilt {
                return StoreReply::Unavailable;
            }
            last = (head.incarnation, head.seq);
        }
        for unit in units {
            self.write(unit, seen);
        }
        StoreReply::Committed
    }

    fn write(&mut self, unit: &Unit, seen: &mut dyn FnMut(&Contents, &Unit)) {
        seen(&self.contents, unit);
        self.contents.apply(unit);
        self.revision += 1;
    }

    /// Somebody makes a copy, for worse days.
    pub(crate) fn back_up(&mut self) {
        self.backup = Some(self.contents.clone());
    }

    /// The copy as an operator gives it to a scheduler in recovery.
    pub(crate) fn copy(&self) -> Option<Snapshot> {
        let copy = self.backup.as_ref().map(Contents::snapshot)?;
        // Leases are in no copy of a store.
        Some(Snapshot { leases: Vec::new(), ..copy }).filter(|copy| copy.head.is_some())
    }

    /// Whether there is a copy that knows less than each of those who remember.
    pub(crate) fn has_older_backup(&self, known: &[Option<HighWater>]) -> bool {
        self.backup
            .as_ref()
            .is_some_and(|old| known.iter().all(|known| old.has_lost(known.as_ref())))
    }

    /// Everything is gone, the leader key and the count of revisions too.
    pub(crate) fn wipe(&mut self) {
        self.contents = Contents::default();
        self.leader = None;
        self.revision = 0;
    }

    /// The copy is put in place of what is there.
    pub(crate) fn restore(&mut self) {
        if let Some(contents) = self.backup.clone() {
            self.revision = contents.seq().0;
            self.contents = contents;
            self.leader = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use persys_model::token::{Epoch, EventSeq};

    fn head(seq: u64) -> Head {
        Head {
            cluster: Arc::from("c"),
            incarnation: 1,
            seq: CommitSeq(seq),
            epoch: Epoch(0),
            event: EventSeq(0),
            audit: persys_model::audit::AuditHead::default(),
            rebuilding: false,
            mark_key: Arc::from(""),
        }
    }

    fn unit(seq: u64) -> Unit {
        Unit { head: head(seq), writes: Vec::new() }
    }

    fn call(store: &mut Store, at: u64, call: &StoreCall) -> StoreReply {
        call_by(store, "a#1", at, call)
    }

    fn call_by(store: &mut Store, who: &str, at: u64, call: &StoreCall) -> StoreReply {
        store.execute(who, call, at, &mut |_, _| {})
    }

    fn campaign(store: &mut Store, at: u64, who: &str) -> StoreReply {
        call_by(store, who, at, &StoreCall::Campaign { candidate: Arc::from(who), ttl_ms: 3000 })
    }

    fn commit(store: &mut Store, at: u64, term: Term, after: u64) -> StoreReply {
        let units = vec![unit(after + 1)];
        call(store, at, &StoreCall::Commit { term, after: CommitSeq(after), units })
    }

    #[test]
    fn one_leads_until_its_lease_runs_out_and_writes_nothing_afterwards() {
        let mut store = Store::new(Clock::new(0, 1000, 0));
        let StoreReply::Won(first) = campaign(&mut store, 0, "a#1") else { panic!("not won") };
        assert_eq!(campaign(&mut store, 10, "b#1"), StoreReply::HeldBy(Arc::from("a#1"), None));
        assert_eq!(commit(&mut store, 20, first, 0), StoreReply::Committed);
        assert_eq!(
            call(&mut store, 2000, &StoreCall::Renew { term: first }),
            StoreReply::Renewed(None)
        );
        assert_eq!(commit(&mut store, 4999, first, 1), StoreReply::Committed);
        let StoreReply::Won(second) = campaign(&mut store, 5000, "b#1") else { panic!("not won") };
        assert!(second > first);
        assert_eq!(commit(&mut store, 5001, first, 2), StoreReply::Deposed);
        assert_eq!(call(&mut store, 5002, &StoreCall::Renew { term: first }), StoreReply::Deposed);
    }

    #[test]
    fn a_load_shuts_the_door_on_what_is_still_on_its_way() {
        let mut store = Store::new(Clock::new(0, 1000, 0));
        let StoreReply::Won(term) = campaign(&mut store, 0, "a#1") else { panic!("not won") };
        assert_eq!(commit(&mut store, 1, term, 0), StoreReply::Committed);
        let reply = call(&mut store, 2, &StoreCall::Load { term, known: None });
        let StoreReply::Loaded(snapshot) = reply else { panic!("not loaded") };
        assert_eq!(snapshot.head, Some(head(2)));
        assert_eq!(commit(&mut store, 3, term, 1), StoreReply::HeadMoved);
        assert_eq!(commit(&mut store, 4, term, 2), StoreReply::Committed);
    }

    #[test]
    fn a_store_that_lost_something_is_not_written_to_by_a_load() {
        let mut store = Store::new(Clock::new(0, 1000, 0));
        let StoreReply::Won(term) = campaign(&mut store, 0, "a#1") else { panic!("not won") };
        assert_eq!(commit(&mut store, 1, term, 0), StoreReply::Committed);
        store.back_up();
        assert_eq!(commit(&mut store, 2, term, 1), StoreReply::Committed);
        store.restore();
        let StoreReply::Won(term) = campaign(&mut store, 3, "a#2") else { panic!("not won") };
        let known = Some(HighWater { cluster: Arc::from("c"), incarnation: 1, seq: CommitSeq(2) });
        let reply = call_by(&mut store, "a#2", 4, &StoreCall::Load { term, known });
        let StoreReply::Loaded(snapshot) = reply else { panic!("not loaded") };
        assert_eq!(snapshot.head, Some(head(1)));
        store.wipe();
        assert_eq!(store.contents, Contents::default());
    }
}
