//! Who asked for a change: every change somebody asked for has an event that names them.
//!
//! Most changes have an event anyway, and it carries the author. A change that shows in none, such
//! as a new version of what still waits, gets one of its own.

use std::sync::Arc;

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
    /// Whether an event names the author already.
    pub(super) told: bool,
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
            workload: workload.cloned(),
            node: node.cloned(),
            told: false,
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
        self.audit = None;
    }
}
