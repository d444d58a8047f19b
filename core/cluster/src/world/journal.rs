//! What a step changes, gathered into units, and messages held back until their units are durable.
//!
//! Records are noted by name while a step works and written once, as they stand, when the unit is
//! closed: no key stands twice in a unit, and an event is always in the unit of its change.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use persys_model::audit::AuditRecord;
use persys_model::event::{Event, Happening};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::mode::Mode;
use persys_model::token::{CommitSeq, Epoch};
use persys_model::volume::VolumeKey;
use persys_model::zoo::Bug;

use super::World;
use super::derived::outcome_writes;
use super::slots::WorkloadIndex;
use crate::effects::{Effects, Mark, Outbound, Reply};
use crate::placement::NodeIndex;
use crate::record::{Unit, Write};

/// The unit that is being gathered.
#[derive(Debug, Default)]
pub(super) struct Draft {
    nodes: BTreeSet<NodeIndex>,
    /// Nodes whose lease may have to be written although they have not changed.
    leases: BTreeSet<NodeIndex>,
    intents: BTreeSet<WorkloadIndex>,
    decisions: BTreeSet<WorkloadIndex>,
    retries: BTreeSet<WorkloadIndex>,
    /// Workloads whose volumes have to be looked at, beside those above.
    pub(super) volumes_of: BTreeSet<WorkloadId>,
    /// Records of volumes that changed.
    pub(super) volumes: BTreeSet<VolumeKey>,
    pub(super) attachments: BTreeSet<(VolumeKey, NodeId, WorkloadId)>,
    /// Records outside the slots, and those that go.
    others: Vec<Write>,
    events: Vec<Arc<Event>>,
    audit: Vec<Arc<AuditRecord>>,
}

impl Draft {
    /// Whether nothing was gathered.
    pub(super) fn is_empty(&self) -> bool {
        let Self {
            nodes,
            leases,
            intents,
            decisions,
            retries,
            volumes_of,
            volumes,
            attachments,
            others,
            events,
            audit,
        } = self;
        nodes.is_empty()
            && leases.is_empty()
            && intents.is_empty()
            && decisions.is_empty()
            && retries.is_empty()
            && volumes_of.is_empty()
            && volumes.is_empty()
            && attachments.is_empty()
            && others.is_empty()
            && events.is_empty()
            && audit.is_empty()
    }

    pub(super) fn audit(&mut self, record: AuditRecord) {
        self.audit.push(Arc::new(record));
    }

    /// Workloads whose intent or decision changed.
    pub(super) fn workloads(&self) -> impl Iterator<Item = WorkloadIndex> {
        self.intents.iter().chain(&self.decisions).copied()
    }
}

/// Messages waiting for the unit they rest on.
pub(super) type Held = VecDeque<(CommitSeq, Outbound)>;

impl World {
    pub(super) fn touch_node(&mut self, at: NodeIndex) {
        self.draft.nodes.insert(at);
    }

    pub(super) fn touch_lease(&mut self, at: NodeIndex) {
        self.draft.leases.insert(at);
    }

    pub(super) fn touch_intent(&mut self, at: WorkloadIndex) {
        self.draft.intents.insert(at);
    }

    pub(super) fn touch_decision(&mut self, at: WorkloadIndex) {
        self.draft.decisions.insert(at);
    }

    pub(super) fn touch_retry(&mut self, at: WorkloadIndex) {
        self.draft.retries.insert(at);
    }

    pub(super) fn write(&mut self, write: Write) {
        self.draft.others.push(write);
    }

    /// Notes that something happened; it is told to watchers once it is durable.
    pub(super) fn happen(&mut self, what: Happening) {
        self.head.event = self.head.event.next();
        let by = self.audit.as_mut().map(|audit| {
            audit.told = true;
            Arc::clone(&audit.author)
        });
        let event = Arc::new(Event { seq: self.head.event, at: self.now.wall, what, by });
        self.draft.events.push(Arc::clone(&event));
        self.later(Outbound::Publish(event));
    }

    /// A decision number that was never given out before.
    pub(super) fn draw_epoch(&mut self, previous: Option<Epoch>) -> Epoch {
        if self.settings.zoo.has(Bug::EpochPerWorkload) {
            return previous.unwrap_or_default().next();
        }
        self.head.epoch = self.head.epoch.next();
        self.head.epoch
    }

    /// Sends once everything decided so far is durable.
    pub(super) fn later(&mut self, message: Outbound) {
        self.outbox.push(message);
    }

    /// Sends now: the message rests on nothing that is not durable.
    pub(super) fn at_once(&mut self, message: Outbound) {
        self.effects.out.push(message);
    }

    pub(super) fn mark(&mut self, mark: Mark) {
        self.effects.marks.add(mark);
    }

    /// Ends the unit, if anything was gathered: what follows is stored on its own.
    pub(super) fn close_unit(&mut self) {
        self.keep_volumes();
        if self.audit.is_some() && !self.draft.is_empty() {
            self.record_wish();
        }
        let draft = std::mem::take(&mut self.draft);
        let mut writes = draft.others;
        for at in &draft.nodes {
            if let Some(slot) = self.nodes.get(at.0) {
                writes.push(Write::PutNode(Arc::clone(&slot.node)));
            }
        }
        self.lease_writes(draft.nodes.union(&draft.leases).copied(), &mut writes);
        outcome_writes(&draft.events, &mut writes);
        for at in draft.intents {
            if let Some(slot) = self.workloads.get(at.0) {
                writes.push(Write::PutWorkload(Arc::clone(&slot.workload)));
            }
        }
        for at in draft.decisions {
            if let Some(slot) = self.workloads.get(at.0) {
                writes.push(Write::PutAssignment(Arc::clone(&slot.assignment)));
            }
        }
        for at in draft.retries {
            if let Some(slot) = self.workloads.get(at.0) {
                writes.push(match &slot.retry {
                    Some(retry) => Write::PutRetry(Arc::clone(retry)),
                    None => Write::DeleteRetry(slot.workload.id.clone()),
                });
            }
        }
        self.volume_writes(draft.volumes, draft.attachments, &mut writes);
        let events: Vec<_> = draft.events.into_iter().map(Write::PutEvent).collect();
        let audit = draft.audit.into_iter().map(Write::PutAudit);
        if self.settings.zoo.has(Bug::EventOutsideCommit) {
            writes.extend(audit);
            self.push_unit(writes);
            self.push_unit(events);
        } else {
            writes.extend(events);
            writes.extend(audit);
            self.push_unit(writes);
        }
    }

    fn push_unit(&mut self, writes: Vec<Write>) {
        if writes.is_empty() {
            return;
        }
        self.head.seq = self.head.seq.next();
        self.effects.units.push(Unit { head: self.head.clone(), writes });
    }

    /// Ends the step: what may go goes, the rest waits for its unit.
    pub(super) fn finish(&mut self) -> Effects {
        self.close_unit();
        let early = self.settings.zoo.has(Bug::TokenBeforeCommit)
            || (self.settings.zoo.has(Bug::DegradedStillActs) && self.mode == Mode::Degraded);
        let outbox = std::mem::take(&mut self.outbox);
        for message in outbox {
            let early = early && matches!(message, Outbound::Command(..));
            if early || self.durable >= self.head.seq {
                self.effects.out.push(message);
            } else {
                self.held.push_back((self.head.seq, message));
            }
        }
        self.effects.wake_at = self.witness.wake_at().or(self.timers.next());
        std::mem::take(&mut self.effects)
    }

    /// Units up to `through` are durable: lets go what waited for them.
    pub(super) fn committed(&mut self, through: CommitSeq) {
        self.durable = self.durable.max(through);
        while self.held.front().is_some_and(|(seq, _)| *seq <= self.durable) {
            if let Some((_, message)) = self.held.pop_front() {
                self.effects.out.push(message);
            }
        }
    }

    /// What waited for units that may never become durable is not sent. Callers are told so.
    pub(super) fn drop_held(&mut self) {
        let held = std::mem::take(&mut self.held);
        for (_, message) in held {
            if let Outbound::Reply(request, Reply::Done { .. }) = message {
                self.mark(Mark::OutcomeUnknown);
                let why = "the store did not confirm the change in time and it may or may not have \
                           happened; the same request again, with the same id and revision, is safe";
                self.at_once(Outbound::Reply(request, Reply::Unknown { why: why.into() }));
            }
        }
    }
}
