//! Every unit the store took, against the one before it.

use std::collections::BTreeSet;
use std::sync::Arc;

use persys_cluster::record::{Unit, Write};
use persys_model::assignment::{Assignment, Grave, ReasonCode};
use persys_model::drift::DriftKind;
use persys_model::event::{Event, Happening};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::node::{Condition, Node};
use persys_model::phase::{Phase, owner_of};
use persys_model::retry::Retry;
use persys_model::token::Epoch;
use persys_model::workload::Workload;

use super::{Check, room};
use crate::setup::node_id;
use crate::store::Contents;

/// How long a rebuilding may take to be written.
const REBUILD_MS: u64 = 6_000;

impl Check {
    /// A unit is about to be written; `before` is what is stored now.
    pub(crate) fn unit(&mut self, now: u64, scheduler: usize, before: &Contents, unit: &Unit) {
        self.counts.units += 1;
        let recovery =
            before.head.as_ref().is_none_or(|head| head.incarnation != unit.head.incarnation);
        self.counters(now, before, unit, recovery);
        self.recovered_at = recovery.then_some(now).or(self.recovered_at);
        // Rebuilding takes many units; what they change is not a history.
        let recovery = self.rebuilding(now);
        for write in &unit.writes {
            match write {
                Write::PutAssignment(assignment) => {
                    self.stale_sums = true;
                    self.assignment(now, before, unit, assignment);
                    let about = (&assignment.workload, Some(&**assignment));
                    self.copies_are_gone(now, before, unit, about);
                }
                Write::DeleteAssignment(id) => {
                    self.stale_sums = true;
                    self.copies_are_gone(now, before, unit, (id, None));
                    let from = before.assignments.get(id).map(|old| old.phase);
                    self.phases(now, unit, id, (from, None));
                }
                Write::PutNode(node) => {
                    self.stale_sums = true;
                    self.node(now, scheduler, (before, unit), node);
                }
                Write::DeleteGrave(node, id) => {
                    self.stale_sums = true;
                    if let Some(grave) = before.graves.get(&(node.clone(), id.clone())) {
                        self.copy_is_gone(now, (before, unit), (id, None), node, grave.epoch);
                    }
                }
                Write::PutGrave(grave) => self.grave(before, grave),
                Write::DeleteNode(gone) => self.node_left(gone),
                Write::PutWorkload(workload) => {
                    let old = before.workloads.get(&workload.id).filter(|_| !recovery);
                    self.generation(now, old, workload);
                }
                Write::DeleteWorkload(id) => {
                    if !self.wishes.may_go(id) && !recovery {
                        self.violate(now, "I1", || format!("{id} goes, and nobody asked for it"));
                    }
                    // A recovery may bring it back in the middle of its deletion.
                    if !self.rebuilding(now) {
                        self.wishes.gone(id);
                    }
                }
                Write::PutRetry(retry) => self.attempts(now, retry),
                Write::DeleteVolume(key) => self.volume_gone(now, (before, unit), key),
                Write::DeleteAttachment(node, id, key) => {
                    self.attachment_gone(now, (before, unit), (node, id), key);
                }
                Write::PutVolume(_)
                | Write::PutAttachment(_)
                | Write::PutLease(_)
                | Write::DeleteLease(_)
                | Write::PutReconciliation(_)
                | Write::DeleteReconciliation(_) => self.stale_sums = true,
                Write::DeleteRetry(_)
                | Write::PutDrift(_)
                | Write::DeleteDrift(..)
                | Write::PutEntry(_)
                | Write::DeleteEntry(_)
                | Write::PutRevision(_)
                | Write::DeleteRevision(..)
                | Write::PutBody(_)
                | Write::DeleteBody(..)
                | Write::PutEvent(_)
                | Write::PutAudit(_) => {}
            }
        }
        self.events_are_about_changes(now, unit);
    }

    fn grave(&mut self, before: &Contents, grave: &Grave) {
        self.stale_sums = true;
        if !is_recorded(before, &grave.node, &grave.workload) {
            self.orphans_buried.insert(grave.node.clone());
        }
    }

    /// Versions of a wish are counted upwards.
    fn generation(&mut self, now: u64, old: Option<&Arc<Workload>>, new: &Workload) {
        if old.is_some_and(|old| old.generation > new.generation) {
            self.violate(now, "I9", || format!("the generation of {} went back", new.id));
        }
    }

    fn attempts(&mut self, now: u64, retry: &Retry) {
        if retry.attempts > self.settings.retry_attempts {
            let (id, attempts) = (&retry.workload, retry.attempts);
            self.violate(now, "I18", || format!("{id} failed {attempts} times"));
        }
    }

    pub(super) fn rebuilding(&self, now: u64) -> bool {
        self.recovered_at.is_some_and(|at| now - at < REBUILD_MS)
    }

    /// All units of a call are written: what is reserved fits.
    pub(crate) fn applied(&mut self, now: u64, contents: &Contents) {
        if !std::mem::take(&mut self.stale_sums) {
            return;
        }
        self.records_match(now, contents);
        self.derived_match(now, contents);
        if !self.rebuilding(now) {
            self.histories(now, contents);
        }
        let sums = room::sums(contents);
        // What nobody had put there takes room all the same, from the moment it is written down.
        let orphans_buried = std::mem::take(&mut self.orphans_buried);
        for (id, taken) in &sums {
            let Some(node) = contents.nodes.get(id) else { continue };
            if orphans_buried.contains(id) {
                continue;
            }
            let grew = self.sums.get(id).is_none_or(|before| taken.grew(before));
            if grew
                && self.store_lost_at.is_none()
                && let Some(excess) = taken.excess(node)
            {
                self.violate(now, "I5", || format!("{id} is over-committed: {excess}"));
            }
        }
        self.sums = sums;
    }

    fn counters(&mut self, now: u64, before: &Contents, unit: &Unit, recovery: bool) {
        let head = &unit.head;
        let events: Vec<&Arc<Event>> = unit
            .writes
            .iter()
            .filter_map(|write| match write {
                Write::PutEvent(event) => Some(event),
                _ => None,
            })
            .collect();
        let Some(old) = &before.head else { return };
        if head.incarnation < old.incarnation || head.epoch < old.epoch {
            self.violate(now, "I9", || format!("counters went back: {old:?}, then {head:?}"));
        }
        if recovery {
            return;
        }
        if head.seq != old.seq.next() || head.cluster != old.cluster {
            self.violate(now, "I9", || format!("the chain is broken: {old:?}, then {head:?}"));
        }
        let mut last = old.event;
        for event in events {
            if event.seq != last.next() {
                let (seq, last) = (event.seq, last);
                self.violate(now, "I8", || format!("event {seq} follows event {last}"));
            }
            last = event.seq;
        }
        if head.event != last {
            self.violate(now, "I8", || {
                format!("events end at {last}, the head says {}", head.event)
            });
        }
    }

    fn assignment(&mut self, now: u64, before: &Contents, unit: &Unit, new: &Assignment) {
        let id = &new.workload;
        let old = before.assignments.get(id);
        self.phases(now, unit, id, (old.map(|old| old.phase), Some(new.phase)));
        // A rebuilding writes down again what a snapshot or an agent holds; it places nothing.
        let rebuilt = unit.head.rebuilding
            || matches!(new.reason.code, ReasonCode::Recovered | ReasonCode::Adopted);
        match new.phase {
            Phase::Failed if new.reason.failure.is_none() => {
                self.violate(now, "I18", || format!("{id} failed without a reason"));
            }
            Phase::Backoff => match &new.reason.failure {
                Some(failure) if failure.retryable() => {}
                failure => {
                    self.violate(now, "I18", || format!("{id} is tried again after {failure:?}"));
                }
            },
            _ => {}
        }
        let Some(place) = &new.place else { return };
        let place_before = old.and_then(|old| old.place.as_ref());
        if place_before.is_some_and(|old| old.epoch == place.epoch) {
            if place_before.is_some_and(|old| old.node != place.node) {
                self.violate(now, "one node per epoch", || format!("{id} moved within an epoch"));
            }
            return;
        }
        let known = (id.clone(), place.node.clone());
        let other = self.decided.insert(place.epoch, known.clone());
        if other.is_some_and(|other| other != known) {
            self.violate(now, "I9", || format!("decision {} was given out twice", place.epoch));
        }
        let floor = before.head.as_ref().map(|head| head.epoch).unwrap_or_default();
        let fresh = place.epoch > floor && place.epoch <= unit.head.epoch;
        if !fresh && !rebuilt {
            let (epoch, top) = (place.epoch, unit.head.epoch);
            self.violate(now, "I9", || {
                format!("{id} got decision {epoch}, which is not between {floor} and {top}")
            });
        }
        if place_before.is_some_and(|old| old.node == place.node) || rebuilt {
            return;
        }
        let node = node_after(before, unit, &place.node);
        let workload = workload_after(before, unit, id);
        if let (Some(node), Some(spec)) = (node, workload)
            && let Some(why) = room::unsuited(&spec, &node)
        {
            self.violate(now, "I17", || format!("{id} was put on {}: {why}", place.node));
        }
        self.put_where_its_data_is(now, (before, unit), id, &place.node);
        let orphans = before.drifts.keys().filter(|(_, _, kind)| *kind == DriftKind::OrphanOnAgent);
        let orphans: BTreeSet<_> =
            orphans.map(|(node, id, _)| (node.clone(), id.clone())).collect();
        if !orphans.is_empty() {
            self.orphans_at.insert(place.epoch, orphans);
        }
    }

    /// No copy is forgotten before its node has proved that it is gone, or an order waits for it.
    fn copies_are_gone(
        &mut self,
        now: u64,
        before: &Contents,
        unit: &Unit,
        about: (&WorkloadId, Option<&Assignment>),
    ) {
        let Some(old) = before.assignments.get(about.0) else { return };
        let place = old.place.as_ref().map(|place| (&place.node, place.epoch));
        let former = old.former.iter().map(|(node, former)| (node, former.epoch));
        for (node, epoch) in place.into_iter().chain(former) {
            self.copy_is_gone(now, (before, unit), about, node, epoch);
        }
    }

    fn copy_is_gone(
        &mut self,
        now: u64,
        (before, unit): (&Contents, &Unit),
        (id, new): (&WorkloadId, Option<&Assignment>),
        node: &NodeId,
        epoch: Epoch,
    ) {
        let kept = |assignment: &Assignment| {
            assignment.former.contains_key(node)
                || assignment.place.as_ref().is_some_and(|place| place.node == *node)
        };
        let written = unit.writes.iter().any(|write| match write {
            Write::PutGrave(grave) => grave.node == *node && grave.workload == *id,
            Write::PutAssignment(assignment) => assignment.workload == *id && kept(assignment),
            // Data that was to be deleted there has a user again.
            Write::PutAttachment(used) => used.node == *node && used.volume.order_id() == *id,
            Write::DeleteNode(gone) => gone == node,
            _ => false,
        });
        let known = before.nodes.contains_key(node);
        if new.is_some_and(kept) || written || !known || self.rebuilding(now) {
            return;
        }
        // An order from before a recovery that its node never took: whoever recovers asks the nodes, and
        // what comes late is refused by its term. The incarnation stands in front of an epoch.
        let before_recovery =
            |sent: &Epoch| sent.0 >> 32 < epoch.0 >> 32 && !self.ever_took(node, id, *sent);
        let proved = |sent: &Epoch| self.said_removed(node, id, *sent) || before_recovery(sent);
        let sent = self.sent.get(&(node.clone(), id.clone()));
        let never_left = sent.is_none_or(|sent| sent.iter().all(proved));
        if !never_left && !self.said_removed(node, id, epoch) {
            self.violate(now, "I11", || {
                format!("the copy of {id} on {node} by {epoch} is forgotten, not proved to be gone")
            });
        }
    }

    /// The events about a workload in this unit lead from its old phase to its new one.
    fn phases(
        &mut self,
        now: u64,
        unit: &Unit,
        about: &WorkloadId,
        (old, new): (Option<Phase>, Option<Phase>),
    ) {
        let mut at = old;
        for (from, to, what) in events_about(unit, about) {
            if from != at && !self.rebuilding(now) {
                self.violate(now, "I8", || format!("{about} was {at:?}, an event says {from:?}"));
            }
            let legal = match (from, to) {
                (Some(from), Some(to)) => owner_of(from, to).is_some(),
                (None, Some(_)) | (Some(_), None) => true,
                (None, None) => false,
            };
            if !legal && !self.rebuilding(now) {
                self.violate(now, "I7", || format!("{about} went from {from:?} to {to:?}"));
            }
            self.agent_said_so(now, about, (from, to), what);
            at = to;
        }
        if at != new && !self.rebuilding(now) {
            self.violate(now, "I8", || {
                format!("{about} went from {old:?} to {new:?}, its events end at {at:?}")
            });
        }
    }

    /// What only an agent can know was said by that agent.
    fn agent_said_so(
        &mut self,
        now: u64,
        about: &WorkloadId,
        (from, to): (Option<Phase>, Option<Phase>),
        what: &Happening,
    ) {
        let Happening::Workload { node: Some(node), epoch: Some(epoch), code, .. } = what else {
            return;
        };
        if matches!(code, ReasonCode::Recovered | ReasonCode::Adopted) || from == to {
            return;
        }
        let Some(number) = (0..self.watched.len()).find(|number| node_id(*number) == *node) else {
            return;
        };
        let said = match to {
            // Told beside the failure of the decision before.
            Some(Phase::Running) if *code == ReasonCode::UpdateFailed => {
                self.said_kept(number, about, *epoch)
            }
            Some(Phase::Running) => self.said_running(number, about, *epoch),
            Some(Phase::Completed) => self.said_complete(number, about, *epoch),
            _ => true,
        };
        if !said {
            self.violate(now, "I20", || {
                format!("{about} is {to:?} on {node} by {epoch}, but {node} never said so")
            });
        }
    }

    /// An event without a change of its record is a lie.
    fn events_are_about_changes(&mut self, now: u64, unit: &Unit) {
        for write in &unit.writes {
            let Write::PutEvent(event) = write else { continue };
            let found = match &event.what {
                Happening::Workload { id, .. } => unit.writes.iter().any(|other| match other {
                    Write::PutAssignment(assignment) => assignment.workload == *id,
                    Write::DeleteAssignment(gone) => gone == id,
                    _ => false,
                }),
                Happening::NodeCondition { id, .. } => unit
                    .writes
                    .iter()
                    .any(|other| matches!(other, Write::PutNode(node) if node.facts.id == *id)),
                _ => true,
            };
            if !found {
                let what = &event.what;
                self.violate(now, "I8", || format!("an event without its change: {what:?}"));
            }
        }
    }

    fn node(
        &mut self,
        now: u64,
        scheduler: usize,
        (before, unit): (&Contents, &Unit),
        new: &Arc<Node>,
    ) {
        let id = &new.facts.id;
        let Some(old) = before.nodes.get(id) else { return };
        if new.session < old.session && !self.rebuilding(now) {
            self.violate(now, "I9", || {
                format!("the session of {id} went from {} to {}", old.session, new.session)
            });
        }
        let mut at = old.condition;
        for write in &unit.writes {
            if let Write::PutEvent(event) = write
                && let Happening::NodeCondition { id: about, from, to, .. } = &event.what
                && about == id
            {
                if *from != at {
                    self.violate(now, "I8", || format!("{id} was {at:?}, an event says {from:?}"));
                }
                at = *to;
            }
        }
        if at != new.condition && !self.rebuilding(now) {
            let condition = new.condition;
            self.violate(now, "I8", || format!("{id} became {condition:?} without an event"));
        }
        if new.condition == Condition::Lost && old.condition != Condition::Lost {
            self.lost_now.push((scheduler, id.clone()));
            // The brake holds back failover, not an operator who vouches for one node.
            if !vouched_for(unit, id) {
                self.brake(now, before, id);
            }
        }
    }

    /// When many nodes are silent together, none is given up.
    fn brake(&mut self, now: u64, before: &Contents, id: &NodeId) {
        let total = before.nodes.len();
        let silent = before.nodes.values().filter(|n| n.condition == Condition::NotReady).count();
        let too_many = silent >= 2 && silent * 100 > total * self.settings.brake_percent;
        // A word of the operator counts until everything is well again; that long is enough.
        let released = self.brake_released_at.is_some_and(|at| now - at < 120_000);
        if too_many && !released {
            self.violate(now, "brake", || {
                format!("{id} was given up while {silent} of {total} nodes are silent")
            });
        }
    }
}

/// Changes of phase of this workload in this unit, in order.
fn events_about<'a>(
    unit: &'a Unit,
    about: &'a WorkloadId,
) -> impl Iterator<Item = (Option<Phase>, Option<Phase>, &'a Happening)> {
    unit.writes.iter().filter_map(move |write| match write {
        Write::PutEvent(event) => match &event.what {
            Happening::Workload { id, from, to, .. } if id == about => {
                Some((*from, *to, &event.what))
            }
            _ => None,
        },
        _ => None,
    })
}

fn node_after(before: &Contents, unit: &Unit, id: &NodeId) -> Option<Arc<Node>> {
    let written = unit.writes.iter().find_map(|write| match write {
        Write::PutNode(node) if node.facts.id == *id => Some(Arc::clone(node)),
        _ => None,
    });
    written.or_else(|| before.nodes.get(id).cloned())
}

pub(super) fn workload_after(
    before: &Contents,
    unit: &Unit,
    id: &WorkloadId,
) -> Option<Arc<persys_model::spec::Spec>> {
    let written = unit.writes.iter().find_map(|write| match write {
        Write::PutWorkload(workload) if workload.id == *id => Some(Arc::clone(&workload.spec)),
        _ => None,
    });
    written.or_else(|| before.workloads.get(id).map(|workload| Arc::clone(&workload.spec)))
}

/// Whether the store knows of a copy of this workload on this node.
fn is_recorded(contents: &Contents, node: &NodeId, id: &WorkloadId) -> bool {
    let assigned = contents.assignments.get(id).is_some_and(|assignment| {
        assignment.place.as_ref().is_some_and(|place| place.node == *node)
            || assignment.former.contains_key(node)
    });
    assigned || contents.graves.contains_key(&(node.clone(), id.clone()))
}

/// True if an operator confirmed in this unit that a node is gone.
fn vouched_for(unit: &Unit, id: &NodeId) -> bool {
    unit.writes.iter().any(|write| {
        let Write::PutEvent(event) = write else { return false };
        matches!(&event.what, Happening::NodeCondition { id: about, why, .. }
            if about == id && why.starts_with("an operator"))
    })
}
