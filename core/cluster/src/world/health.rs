//! Health of workloads: the verdicts that nodes tell are stored, so that every scheduler shows them.
//!
//! A verdict belongs to what runs. It is written in the unit of the settlement that follows the report, with
//! an event when it turns to healthy or unhealthy. Nothing is moved or stopped because of it.

use std::sync::Arc;

use persys_model::event::Happening;
use persys_model::health::{HealthRecord, HealthState};
use persys_model::id::WorkloadId;
use persys_model::inventory::State;
use persys_model::phase::Phase;

use super::World;
use super::slots::{WorkloadIndex, WorkloadSlot};
use crate::effects::Mark;

impl World {
    /// Stores the health that the node of a workload last told, if it is another one.
    pub(super) fn follow_health(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let known = slot.assignment.health.as_deref();
        if known.is_none() && slot.seen.as_ref().is_none_or(|seen| seen.health.is_none()) {
            return;
        }
        let mut told = told(slot);
        if let (Some(told), Some(known)) = (&mut told, known) {
            let same = told.health.state == known.health.state;
            told.since = if same { known.since } else { self.now.wall };
        } else if let Some(told) = &mut told {
            told.since = self.now.wall;
        }
        if told.as_ref() == known {
            return;
        }
        let before = known.map(|known| known.health.state);
        let after = told.as_ref().map(|told| told.health.clone());
        let (id, place) = (slot.workload.id.clone(), slot.assignment.place.as_ref());
        let node = place.map(|place| place.node.clone());
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        Arc::make_mut(&mut slot.assignment).health = told.map(Box::new);
        self.touch_decision(at);
        let (Some(after), Some(node)) = (after, node) else { return };
        if before == Some(after.state) || after.state == HealthState::Starting {
            return;
        }
        self.mark(match after.state {
            HealthState::Unhealthy => Mark::FoundUnhealthy,
            HealthState::Healthy | HealthState::Starting => Mark::FoundHealthy,
        });
        let (to, message) = (after.state, after.detail);
        self.happen(Happening::Health { id, node, to, message });
    }

    /// The reason the check that a spec asks for is not run, if so.
    pub fn unchecked(&self, id: &WorkloadId) -> Option<String> {
        let slot = self.workloads.get(self.workload_by_id.get(id)?.0)?;
        let place = slot.assignment.place.as_ref()?;
        let (_, spec) = slot.ordered(place);
        spec.health.check()?;
        let facts = &self.nodes.get(self.node_at(&place.node)?.0)?.node.facts;
        (!facts.checks_health).then(|| {
            format!(
                "health is not checked: the agent of node {} is too old; upgrade it",
                place.node
            )
        })
    }
}

/// The health that its node last told of what it runs now; `since` is left to the caller. What is known stays
/// until the node has spoken.
fn told(slot: &WorkloadSlot) -> Option<HealthRecord> {
    let known = slot.assignment.health.as_deref();
    let place = slot.assignment.place.as_ref()?;
    if slot.assignment.phase != Phase::Running {
        return None;
    }
    let Some(seen) = slot.seen.as_ref().filter(|seen| seen.epoch == place.epoch) else {
        return known.cloned();
    };
    match seen.state {
        State::Running => {}
        // Nobody knows how it is: what was known stays.
        State::Unknown => return known.cloned(),
        State::Pending
        | State::Paused
        | State::Unresponsive
        | State::Restarting(_)
        | State::Stopped
        | State::Completed
        | State::Failed(_) => return None,
    }
    let health = seen.health.clone()?;
    let same_run =
        known.filter(|known| known.epoch == place.epoch && known.restarts == seen.restarts);
    // An agent that was restarted begins its checks anew; the verdict before holds until the next.
    if let Some(known) = same_run
        && health.state == HealthState::Starting
    {
        return Some(known.clone());
    }
    let since = known.map(|known| known.since).unwrap_or_default();
    Some(HealthRecord { health, since, epoch: place.epoch, restarts: seen.restarts })
}
