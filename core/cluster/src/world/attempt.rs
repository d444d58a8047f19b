//! One attempt to have a workload on its node: which of its orders may have arrived, and the time of its
//! last progress.

use std::sync::Arc;

use persys_model::phase::Phase;
use persys_model::spec::Spec;
use persys_model::time::Millis;
use persys_model::token::Epoch;

/// Orders on their way that are told apart; with more, arrival is assumed.
const MOST_IN_FLIGHT: usize = 16;

/// The present attempt to have a workload on its node. Kept in memory only: a new leader assumes that
/// orders arrived.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attempt {
    /// Decisions whose orders were neither answered nor known to be undelivered.
    pub(super) in_flight: Vec<Epoch>,
    /// An order may have reached the node, or an earlier copy may be there.
    pub(super) may_exist: bool,
    /// Time of the last sign of progress.
    pub(super) progress_at: Millis,
    /// The last progress count the node reported.
    pub(super) progress: u64,
    /// Time the copy that this attempt makes has to end by itself when it is stopped.
    pub(super) grace_ms: u64,
    /// The part of the attempt that is a copy ending by itself: no time without progress.
    pub(super) stop_ms: u64,
    /// The time for which a timer is set.
    pub(super) armed: Option<Millis>,
    /// The time at which the agent was asked for its last actions.
    pub(super) asked: Option<Millis>,
    /// The last actions of the agent, once they came or the wait for them ended.
    pub(super) actions: Option<Arc<str>>,
}

impl Attempt {
    /// An attempt on a node. `may_exist` tells whether an earlier copy may be there, `grace_ms` the
    /// time a copy has to end by itself.
    pub(crate) fn new(may_exist: bool, grace_ms: u64, now: Millis) -> Self {
        let stop_ms = if may_exist { grace_ms } else { 0 };
        Self { may_exist, grace_ms, stop_ms, progress_at: now, ..Self::default() }
    }

    /// An attempt that an earlier leader began: its orders may have arrived.
    pub(crate) fn resumed(spec: &Spec, phase: Phase, now: Millis) -> Self {
        // The file of a stack is read only where an attempt goes on.
        let goes_on = matches!(phase, Phase::Starting | Phase::Stopping | Phase::Deleting);
        Self::new(true, if goes_on { spec.stop_grace_ms() } else { 0 }, now)
    }

    /// A new decision on the same node: what the one before made there is stopped first, or was to be.
    pub(crate) fn begin_anew(&mut self, grace_ms: u64, now: Millis) {
        self.stop_ms = if self.never_arrived() { 0 } else { self.grace_ms.max(grace_ms) };
        self.grace_ms = grace_ms;
        self.progress_at = now;
        self.progress = 0;
        self.asked = None;
        self.actions = None;
    }

    /// True if no order can have reached the node and no earlier copy is there.
    pub(crate) fn never_arrived(&self) -> bool {
        self.in_flight.is_empty() && !self.may_exist
    }

    /// True while the outcome of an order is open.
    pub(crate) fn is_open(&self) -> bool {
        !self.in_flight.is_empty()
    }

    pub(crate) fn sent(&mut self, epoch: Epoch) {
        if self.in_flight.len() >= MOST_IN_FLIGHT {
            self.in_flight.clear();
            self.may_exist = true;
        }
        self.in_flight.push(epoch);
    }

    /// The order with this decision is no longer on its way.
    pub(super) fn ended(&mut self, epoch: Epoch, may_exist: bool) {
        if let Some(at) = self.in_flight.iter().position(|one| *one == epoch) {
            self.in_flight.swap_remove(at);
        }
        self.may_exist |= may_exist;
    }

    /// The node spoke of its copy.
    pub(crate) fn heard(&mut self, progress: u64, changed: bool, now: Millis) {
        self.may_exist = true;
        if changed || progress != self.progress {
            self.progress = progress;
            self.moved(now);
        }
    }

    /// Something went on.
    pub(crate) fn moved(&mut self, now: Millis) {
        self.progress_at = now;
        self.asked = None;
        self.actions = None;
    }
}
