//! Whether nodes live: leases, probes, and the brake.
//!
//! ```text
//!   Ready ── lease runs out ──► NotReady ── grace passed, probe silent, brake off ──► Lost
//!     ▲                            │     └─ longer grace passed, probe refused, brake off ─┘│
//!     └──── beats again ───────────┘◄──────────────── registers anew ─────────────────────┘
//! ```
//! Silence alone moves nothing: an answered probe means that only the heartbeats are lost. A refused
//! connection means that the agent is down while its host lives. Its workloads may still run, so an
//! agent that is merely restarted gets a longer grace. After that the node counts as lost: default
//! work moves, exclusive work still needs its fence or an operator's confirmation.

use std::sync::Arc;

use persys_model::event::Happening;
use persys_model::id::NodeId;
use persys_model::node::Condition;
use persys_model::time::Millis;
use persys_model::token::Session;
use persys_model::zoo::Bug;

use super::World;
use super::slots::{NodeSlot, Probing};
use super::timers::Timer;
use crate::effects::{Mark, Outbound};
use crate::input::Probe;
use crate::placement::NodeIndex;

impl World {
    /// How often agents beat.
    pub(super) fn beat_ms(&self) -> u64 {
        self.settings.beat_ms_of(self.node_by_id.len())
    }

    /// How long a beat keeps a node ready.
    pub(super) fn lease_ms(&self) -> u64 {
        self.settings.lease_ms_of(self.beat_ms())
    }

    /// The time of a node may have come.
    pub(super) fn look_at_liveness(&mut self, at: NodeIndex) {
        let now = self.now.mono;
        let Some(slot) = self.nodes.get(at.0) else { return };
        match slot.node.condition {
            Condition::Ready if slot.expires_at > now => {
                let next = slot.expires_at;
                self.timers.set(next, Timer::Liveness(at));
            }
            Condition::Ready => {
                self.fall_silent(at);
                self.watch_silence(at);
            }
            Condition::NotReady => self.watch_silence(at),
            Condition::Lost => {}
        }
    }

    fn fall_silent(&mut self, at: NodeIndex) {
        self.mark(Mark::LeaseExpired);
        let why = format!("no beat for {} ms", self.lease_ms());
        self.change_condition(at, Condition::NotReady, &why);
        self.look_at_brake();
        // What waited for this node because of its data may be told not to wait for lost ones.
        self.room_changed = true;
        self.mark_assigned_dirty(at);
    }

    fn mark_assigned_dirty(&mut self, at: NodeIndex) {
        let assigned = self.nodes.get(at.0).map(|slot| slot.assigned.clone()).unwrap_or_default();
        for workload in assigned {
            self.mark_dirty(workload);
        }
    }

    /// Probes a silent node, and declares it lost when two signs agree and the brake allows it.
    fn watch_silence(&mut self, at: NodeIndex) {
        let now = self.now.mono;
        self.look_at_brake();
        let Some(slot) = self.nodes.get(at.0) else { return };
        let grace_over = now >= slot.expires_at.plus(self.settings.failover_grace_ms);
        let found = slot.probe.and_then(|probing| probing.found);
        let agent_down_over = now >= slot.expires_at.plus(self.settings.agent_down_failover_ms);
        let silent = matches!(found, Some((_, Probe::Silent)))
            || self.settings.zoo.has(Bug::FailoverWithoutProbe);
        let agent_down = matches!(found, Some((_, Probe::Refused)));
        let (asked, session) = (slot.probe.map(|probing| probing.asked), slot.node.session);
        let id = slot.node.facts.id.clone();
        if grace_over && silent && !self.brake {
            return self.declare_lost(at, "no heartbeat and no answer to a probe");
        }
        if agent_down_over && agent_down && !self.brake {
            self.mark(Mark::AgentDown);
            let why = format!(
                "no agent on its host for {} s: the connection is refused",
                self.settings.agent_down_failover_ms / 1_000
            );
            return self.declare_lost(at, &why);
        }
        let due = asked.is_none_or(|asked| now >= asked.plus(self.settings.probe_interval_ms));
        if due {
            if let Some(slot) = self.nodes.get_mut(at.0) {
                slot.probe = Some(Probing { asked: now, found });
            }
            self.at_once(Outbound::Probe(id, session, now));
        }
        self.timers.set(now.plus(self.settings.probe_interval_ms), Timer::Liveness(at));
    }

    /// A probe came back. Silence takes longer to notice than an answer takes to come: a probe that
    /// was asked before the one heard of last, or before the node fell silent, says nothing now.
    pub(super) fn probed(&mut self, node: &NodeId, session: Session, asked: Millis, found: Probe) {
        let Some(at) = self.node_at(node) else { return };
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        if slot.node.session != session {
            return;
        }
        let ready = slot.node.condition == Condition::Ready;
        if ready && found == Probe::Answered && slot.orders.is_empty() {
            // With orders open, only an answered order shows that they arrive.
            return self.reached(at);
        }
        if slot.node.condition != Condition::NotReady {
            return;
        }
        let Some(probing) = &mut slot.probe else { return };
        let overtaken = probing.found.is_some_and(|(heard_of, _)| asked < heard_of);
        if overtaken || asked < slot.expires_at {
            return;
        }
        probing.found = Some((asked, found));
        match found {
            Probe::Answered => self.mark(Mark::ProbeAnswered),
            Probe::Refused => self.mark(Mark::ProbeRefused),
            Probe::Silent => {}
        }
    }

    /// Its life is over: whatever was meant for it will be refused, and its work may move.
    pub(super) fn declare_lost(&mut self, at: NodeIndex, why: &str) {
        self.mark(Mark::NodeLost);
        let floor = self.first_session();
        let now = self.now.mono;
        if let Some(slot) = self.nodes.get_mut(at.0) {
            let node = Arc::make_mut(&mut slot.node);
            node.session = node.session.next().max(floor);
            slot.lost_at = Some(now);
            slot.orders.clear();
        }
        self.change_condition(at, Condition::Lost, why);
        self.look_at_brake();
        self.mark_assigned_dirty(at);
    }

    fn change_condition(&mut self, at: NodeIndex, to: Condition, why: &str) {
        let wall = self.now.wall;
        let Some(slot) = self.nodes.get_mut(at.0) else { return };
        let from = slot.node.condition;
        let node = Arc::make_mut(&mut slot.node);
        node.condition = to;
        node.since = wall;
        let id = node.facts.id.clone();
        self.silent.insert(at);
        self.index.set_open(at, to == Condition::Ready && self.is_open(at));
        self.happen(Happening::NodeCondition { id, from, to, why: Arc::from(why) });
        self.touch_node(at);
        self.close_unit();
    }

    pub(super) fn is_open(&self, at: NodeIndex) -> bool {
        let isolated = |slot: &NodeSlot| self.witness.isolated(&slot.node.facts.id).is_some();
        self.nodes.get(at.0).is_some_and(|slot| slot.is_open() && !isolated(slot))
    }

    /// Puts the brake on when too many nodes are silent together, and off when they are back.
    pub(super) fn look_at_brake(&mut self) {
        let total = self.node_by_id.len();
        let silent = self.silent_nodes();
        let too_many = silent >= 2 && silent * 100 > total * self.settings.brake_percent;
        if !too_many {
            self.brake_released = false;
        }
        let on = too_many && !self.brake_released && !self.settings.zoo.has(Bug::NoBrake);
        if on == self.brake {
            return;
        }
        self.brake = on;
        self.mark(if on { Mark::BrakeOn } else { Mark::BrakeOff });
        self.happen(Happening::MassFailureBrake { silent, total, on });
        self.close_unit();
    }

    /// Nodes that are silent now, or were given up only lately.
    fn silent_nodes(&self) -> usize {
        let now = self.now.mono;
        let lately =
            |at: Option<Millis>| at.is_some_and(|at| now.since(at) < self.settings.brake_window_ms);
        self.silent
            .iter()
            .filter_map(|at| self.nodes.get(at.0))
            .filter(|slot| match slot.node.condition {
                Condition::Ready => false,
                Condition::NotReady => true,
                Condition::Lost => lately(slot.lost_at),
            })
            .count()
    }
}
