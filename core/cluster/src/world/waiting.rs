//! The waiting room: workloads that want room, grouped by what they ask for.
//!
//! When room may have appeared, one of each group is tried; if it does not fit, neither do its
//! like. The oldest group goes first. The cost follows the number of different shapes that wait,
//! not the number of workloads.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_model::id::{DriverName, NodeId, WorkloadId};
use persys_model::resources::Resources;
use persys_model::spec::{HostPort, Placement, WorkloadType};
use persys_model::workload::Desired;

use super::World;
use super::slots::{Slab, WorkloadIndex, WorkloadSlot};
use crate::decide::Action;

/// Most workloads placed from the waiting room in one step; the rest follow in the next.
const MOST_PER_STEP: usize = 512;

/// Most shapes whose reason is worked out for one list.
const MOST_EXPLAINED: usize = 64;

/// What a workload asks of a node. Equal shapes fit on the same nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    resources: Resources,
    ports: Vec<HostPort>,
    workload_type: WorkloadType,
    placement: Placement,
    pauses: bool,
    drivers: Vec<DriverName>,
    homes: Vec<NodeId>,
    /// One that has a place differs from its like: it can take its own room with it.
    placed: Option<NodeId>,
}

/// Workloads that want room.
#[derive(Debug, Default)]
pub(super) struct WaitingRoom {
    /// By shape, then in order of arrival.
    groups: BTreeMap<Arc<Shape>, BTreeMap<u64, WorkloadIndex>>,
    /// The shape of each, by its ticket.
    shapes: BTreeMap<u64, Arc<Shape>>,
    next_ticket: u64,
}

impl WaitingRoom {
    pub(super) fn len(&self) -> usize {
        self.shapes.len()
    }

    /// Takes a workload out; harmless if it is not in.
    pub(super) fn leave(&mut self, at: WorkloadIndex, workloads: &mut Slab<WorkloadSlot>) {
        let Some(ticket) = workloads.get_mut(at.0).and_then(|slot| slot.waits.take()) else {
            return;
        };
        let Some(shape) = self.shapes.remove(&ticket) else { return };
        if let Some(group) = self.groups.get_mut(&shape) {
            group.remove(&ticket);
            if group.is_empty() {
                self.groups.remove(&shape);
            }
        }
    }

    fn join(&mut self, at: WorkloadIndex, shape: Shape) -> u64 {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        let shape = self
            .groups
            .get_key_value(&shape)
            .map_or_else(|| Arc::new(shape), |(known, _)| Arc::clone(known));
        self.groups.entry(Arc::clone(&shape)).or_default().insert(ticket, at);
        self.shapes.insert(ticket, shape);
        ticket
    }

    /// The shapes that wait, the longest waiting first.
    fn by_age(&self) -> Vec<Arc<Shape>> {
        let mut oldest: Vec<_> = self
            .groups
            .iter()
            .filter_map(|(shape, group)| Some((*group.first_key_value()?.0, Arc::clone(shape))))
            .collect();
        oldest.sort_unstable_by_key(|(ticket, _)| *ticket);
        oldest.into_iter().map(|(_, shape)| shape).collect()
    }

    fn first_of(&self, shape: &Arc<Shape>) -> Option<WorkloadIndex> {
        self.groups.get(shape)?.first_key_value().map(|(_, at)| *at)
    }
}

impl World {
    /// Has a workload looked at again when room may have appeared. Its turn stays its turn while
    /// it asks for the same; tells whether it is new here or asks for something else.
    pub(super) fn join_waiting(&mut self, at: WorkloadIndex) -> bool {
        let Some(slot) = self.workloads.get(at.0) else { return false };
        let spec = &slot.workload.spec;
        let shape = Shape {
            resources: spec.resources.clone(),
            ports: self.ports_of(spec),
            workload_type: spec.workload_type(),
            placement: spec.placement.clone(),
            pauses: slot.workload.desired == Desired::Paused,
            drivers: spec.drivers(),
            homes: self.homes(slot).into_keys().collect(),
            placed: slot.assignment.place.as_ref().map(|place| place.node.clone()),
        };
        if let Some(ticket) = slot.waits {
            if self.waiting.shapes.get(&ticket).is_some_and(|waiting| **waiting == shape) {
                return false;
            }
            self.waiting.leave(at, &mut self.workloads);
        }
        let ticket = self.waiting.join(at, shape);
        if let Some(slot) = self.workloads.get_mut(at.0) {
            slot.waits = Some(ticket);
        }
        true
    }

    /// A workload that no longer wants room leaves the waiting room.
    pub(super) fn leave_waiting_if_content(&mut self, at: WorkloadIndex) {
        if self.workloads.get(at.0).is_none_or(|slot| slot.waits.is_none()) {
            return;
        }
        if !self.wants_room(at) {
            self.waiting.leave(at, &mut self.workloads);
        }
    }

    fn wants_room(&self, at: WorkloadIndex) -> bool {
        match self.first_action(at) {
            Some(Action::Place | Action::Reissue | Action::TryMove | Action::Redispatch) => true,
            Some(
                Action::Rest
                | Action::AwaitFormers
                | Action::Repause
                | Action::StartAgain
                | Action::GoBack
                | Action::EndLeftover
                | Action::Refresh
                | Action::Order
                | Action::ReportOverdue
                | Action::TimeOut
                | Action::Believe(_)
                | Action::MoveOff(_)
                | Action::Release
                | Action::Stay(_)
                | Action::Finish
                | Action::BuryAndFinish,
            )
            | None => false,
        }
    }

    /// The reason each waiting workload has no room *now*, worked out once for all of a shape. The recorded
    /// reason tells how things stood when the waiting began. Beyond [`MOST_EXPLAINED`] shapes the recorded
    /// one has to do.
    pub fn reasons_now(&self) -> BTreeMap<WorkloadId, Arc<str>> {
        let mut reasons = BTreeMap::new();
        for shape in self.waiting.by_age().iter().take(MOST_EXPLAINED) {
            let Some(group) = self.waiting.groups.get(shape) else { continue };
            let Some(first) = self.waiting.first_of(shape) else { continue };
            let why: Arc<str> = Arc::from(self.why_no_node(first));
            for at in group.values() {
                if let Some(slot) = self.workloads.get(at.0) {
                    reasons.insert(slot.workload.id.clone(), Arc::clone(&why));
                }
            }
        }
        reasons
    }

    /// Tries those that wait, if room may have appeared.
    pub(super) fn place_waiting(&mut self) {
        if !std::mem::take(&mut self.room_changed) || self.waiting.len() == 0 {
            return;
        }
        let mut placed = 0;
        for shape in self.waiting.by_age() {
            while let Some(at) = self.waiting.first_of(&shape) {
                self.settle(at);
                self.close_unit();
                if self.waiting.first_of(&shape) == Some(at) {
                    break;
                }
                placed += 1;
                if placed >= MOST_PER_STEP {
                    self.room_changed = true;
                    self.timers.set(self.now.mono, super::timers::Timer::Look);
                    return;
                }
            }
        }
        // Settling may give room back (a move frees a place): look again in the next step.
        if self.room_changed {
            self.timers.set(self.now.mono, super::timers::Timer::Look);
        }
        self.settle_dirty();
    }
}
