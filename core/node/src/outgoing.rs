//! Registrations and heartbeats of an agent: when they are due, and what they say.

use std::sync::Arc;

use persys_model::inventory::Tombstone;
use persys_model::link::{Beat, Registration};
use persys_model::time::{Millis, Now};
use persys_model::token::Session;

use crate::agent::Agent;
use crate::effects::{Effects, Upward};
use crate::slot::Heard;

impl Agent {
    /// Says what is due, and when the next beat is.
    pub(crate) fn speak(&mut self, now: Now, effects: &mut Effects) -> Option<Millis> {
        if self.line.register(&self.settings, now.mono) {
            let inventory = self.inventory();
            let (facts, term) = (self.facts.clone(), self.term());
            effects.send = Some(Upward::Register(Registration { facts, term, inventory }));
            return self.beat_at();
        }
        let due = self.beat_at();
        let Some(session) = self.session().filter(|_| due.is_some_and(|due| due <= now.mono))
        else {
            return due;
        };
        effects.send = Some(Upward::Beat(self.beat(session, now.mono)));
        self.beat_at()
    }

    /// When the next beat is due. Exclusive work lives by beats that are heard: with any of it here
    /// they are as frequent as they were before the fleet grew large.
    pub(crate) fn beat_at(&self) -> Option<Millis> {
        let exclusive = !self.journal.exclusive().is_empty();
        let most = if exclusive { self.settings.beat_ms } else { u64::MAX };
        self.line.beat_at(self.has_news(), most, &self.settings)
    }

    fn beat(&mut self, session: Session, now: Millis) -> Beat {
        let (seq, full) = self.line.beat(now);
        let mut reports = Vec::new();
        for workload in self.due.unheard() {
            let slot = self.slots.get_mut(&workload);
            if let Some(told) = slot.and_then(|slot| slot.told.as_mut()) {
                told.heard.send(seq);
                reports.push(told.held.report.clone());
            }
            self.note(&workload);
        }
        let mut removed = Vec::new();
        for (workload, grave) in &mut self.graves {
            if self.journal.covers(grave.written) {
                grave.heard.send(seq);
                let (workload, epoch, purged) = (workload.clone(), grave.epoch, grave.purged);
                removed.push(Tombstone { workload, epoch, purged });
            }
        }
        let inventory = full.then(|| self.inventory());
        let node = self.facts.id.clone();
        let (usage, busy) = (self.usage(), self.load.busy().map(Arc::from));
        let limits = self.load.limits().clone();
        // The shell knows its actions, and adds them.
        let tasks = Vec::new();
        let down = self.watch.down(&self.facts.types);
        let takes_removals = true;
        Beat {
            node,
            session,
            seq,
            reports,
            removed,
            inventory,
            tasks,
            usage,
            limits,
            busy,
            down,
            takes_removals,
        }
    }

    /// Whether there is something that should not wait for the next beat.
    fn has_news(&self) -> bool {
        self.due.is_urgent()
            || self
                .graves
                .values()
                .any(|grave| grave.heard == Heard::Unsent && self.journal.covers(grave.written))
    }
}
