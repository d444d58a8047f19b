//! Deadlines. An entry is a reason to look, not an order: whoever is woken checks for itself.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use persys_model::time::Millis;

use super::slots::WorkloadIndex;
use crate::placement::NodeIndex;

/// What to look at when the time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Whether a node's lease ran out, or a silent node is to be probed or declared lost.
    Liveness(NodeIndex),
    /// Whether orders to a node were not obeyed in time.
    Resend(NodeIndex),
    /// A ready node to which orders cannot be delivered is probed.
    Reach(NodeIndex),
    /// A workload whose time may have come: next attempt, fence, timeout, forgotten failures.
    Workload(WorkloadIndex),
    /// Ask all nodes for all they hold.
    DriftSweep,
    /// Step once more: a step left work for the next one.
    Look,
}

/// All deadlines, earliest first.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(Millis, Timer)>>);

impl Timers {
    pub(super) fn set(&mut self, at: Millis, timer: Timer) {
        self.0.push(Reverse((at, timer)));
    }

    /// The earliest deadline.
    pub(super) fn next(&self) -> Option<Millis> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    /// The next one that is due.
    pub(super) fn pop_due(&mut self, now: Millis) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.0.pop().map(|Reverse((_, timer))| timer)
    }
}
