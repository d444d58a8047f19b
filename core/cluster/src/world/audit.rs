//! Who asked for a change: every change somebody asked for has an event that names them, and a record
//! in the audit log.
//!
//! Most changes have an event anyway, and it carries the author. A change that shows in none, such
//! as a new version of what still waits, gets one of its own. The record is part of the first unit
//! that the change makes: it is stored with it or not at all.

use std::sync::Arc;

use persys_model::audit::AuditRecord;
use persys_model::event::{Author, Happening};
use persys_model::id::{NodeId, WorkloadId};

use super::World;
use crate::input::Ask;

/// The wish that is being carried out.
#[derive(Debug)]
pub(super) struct Audit {
    pub(super) author: Arc<Author>,
    what: &'static str,
    workload: Option<WorkloadId>,
    node: Option<NodeId>,
    object: Arc<str>,
    /// The revision before, where there was one.
    before: Option<Arc<str>>,
    /// Whether an event names the author already.
    pub(super) told: bool,
    /// Whether the audit log has it already.
    recorded: bool,
    /// Units made before.
    units: usize,
}

impl World {
    /// What happens from here on happens because `author` asked for it.
    pub(super) fn begin_audit(&mut self, author: Arc<Author>, ask: &Ask) {
        let (what, workload, node) = ask.summary();
        self.audit = Some(Audit {
            author,
            what,
            before: workload.and_then(|id| self.revision_of(id)),
            workload: workload.cloned(),
            node: node.cloned(),
            object: ask.object(),
            told: false,
            recorded: false,
            units: self.effects.units.len(),
        });
    }

    /// The wish is carried out. If anything changed, an event says so.
    pub(super) fn end_audit(&mut self) {
        let Some(Audit { what, workload, node, told, units, .. }) = &self.audit else { return };
        let changed = !self.draft.is_empty() || self.effects.units.len() > *units;
        if changed && !told {
            let (what, workload, node) = (Arc::from(*what), workload.clone(), node.clone());
            self.happen(Happening::Asked { what, workload, node });
        }
        if changed {
            self.record_wish();
        }
        self.audit = None;
    }

    /// Puts the wish under way into the audit log, once.
    pub(super) fn record_wish(&mut self) {
        let Some(audit) = self.audit.as_mut().filter(|audit| !audit.recorded) else { return };
        audit.recorded = true;
        let (author, verb) = (Arc::clone(&audit.author), Arc::from(audit.what));
        let (object, before) = (Arc::clone(&audit.object), audit.before.clone());
        let workload = audit.workload.clone();
        let namespace = workload.as_ref().and_then(|id| self.namespace_of(id));
        let after = workload.and_then(|id| self.revision_of(&id));
        self.record(
            &author,
            AuditRecord {
                verb,
                object,
                allowed: true,
                rule: Arc::clone(&author.origin.rule),
                before: before.unwrap_or_default(),
                after: after.unwrap_or_default(),
                namespace: namespace.unwrap_or_else(|| Arc::clone(&author.origin.namespace)),
                ..AuditRecord::default()
            },
        );
    }

    /// Puts a refusal into the audit log: nothing else comes of it.
    pub(super) fn record_refusal(
        &mut self,
        author: &Author,
        verb: Arc<str>,
        rule: Arc<str>,
        left_out: u64,
    ) {
        let refusal = AuditRecord { verb, rule, left_out, ..AuditRecord::default() };
        self.record(author, refusal);
    }

    fn record(&mut self, author: &Author, record: AuditRecord) {
        let record = AuditRecord {
            seq: self.head.audit.seq.saturating_add(1),
            at: self.now.wall,
            who: Arc::clone(&author.who),
            why: Arc::clone(&author.why),
            source: Arc::clone(&author.origin.source),
            request: Arc::clone(&author.origin.request),
            previous: self.head.audit.hash,
            ..record
        };
        self.head.audit = record.head();
        self.draft.audit(record);
    }

    fn namespace_of(&self, id: &WorkloadId) -> Option<Arc<str>> {
        let slot = self.workloads.get(self.workload_by_id.get(id)?.0)?;
        Some(Arc::from(slot.workload.spec.namespace().as_str()))
    }

    fn revision_of(&self, id: &WorkloadId) -> Option<Arc<str>> {
        let slot = self.workloads.get(self.workload_by_id.get(id)?.0)?;
        Some(Arc::from(slot.workload.revision.as_str()))
    }
}
