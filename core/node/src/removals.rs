//! Removals that come with the answer to a heartbeat, because the node cannot be called.
//!
//! They are judged like any other order and proved like any other removal: with a tombstone in the next
//! heartbeat. Nobody waits for an answer.

use persys_model::command::{Command, Order};
use persys_model::link::Removal;
use persys_model::token::{Session, Term};

use crate::admit::Verdict;
use crate::agent::{Agent, Grave};
use crate::effects::Effects;
use crate::slot::Heard;

impl Agent {
    pub(crate) fn obey_removals(
        &mut self,
        (term, session): (Term, Session),
        removals: &[Removal],
        effects: &mut Effects,
    ) {
        for Removal { workload, epoch } in removals {
            let order = Order::Remove { purge: false };
            let command =
                Command { term, session, epoch: *epoch, workload: workload.clone(), order };
            match self.obey(command, effects) {
                // The scheduler does not know of the tombstone: it is told again.
                Verdict::Gone(_) => self.prove_again(workload),
                Verdict::Refuse(_) | Verdict::Confirm | Verdict::FillIn | Verdict::Take => {}
            }
        }
    }

    fn prove_again(&mut self, workload: &persys_model::id::WorkloadId) {
        let Some(buried) = self.journal.ledger().tombstones.get(workload) else { return };
        let (epoch, purged, written) = (buried.epoch, buried.purged, self.journal.made());
        let grave = Grave { epoch, purged, written, heard: Heard::Unsent };
        self.graves.entry(workload.clone()).or_insert(grave);
    }
}
