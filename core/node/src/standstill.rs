//! Workloads whose processes exist and do nothing: paused by somebody or by a fault, or stuck.
//!
//! ```text
//!   seen ── grace ──► repaired ── seen again ──► twice the wait ──► repaired ── ...
//!                                                 (by a fault: a few times, then left to an operator)
//! ```
//!
//! Tools pause a container for a moment to copy it, and a process may wait for a slow disk, so nothing is
//! repaired before its grace is over. By then the scheduler has heard of it.

use std::sync::Arc;

use persys_model::failure::{Failure, FailureReason};
use persys_model::time::Millis;

use crate::decide::Repair;
use crate::input::Existing;
use crate::settings::AgentSettings;
use crate::view::View;

/// A standstill of one workload, and the repairs in a row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Standstill {
    /// When it was first seen; `None` while it runs or rests.
    since: Option<Millis>,
    /// Moment of its repair.
    due: Option<Millis>,
    /// When it was last seen.
    seen: Option<Millis>,
    /// Repairs since it last ran long enough to count as well.
    repairs: u32,
    /// Since when it runs, as far as this life knows.
    runs_since: Option<Millis>,
}

impl Standstill {
    /// Takes in what is there now. `reset_ms` of running end a row of repairs.
    pub(crate) fn see(&mut self, view: &View, now: Millis, reset_ms: u64) {
        if view.runs() {
            self.runs_since.get_or_insert(now);
        } else if self.runs_since.take().is_some_and(|since| now.since(since) >= reset_ms) {
            self.repairs = 0;
        }
        match view {
            View::There { state: Existing::Paused { .. } | Existing::Stuck { .. }, .. } => {
                self.since.get_or_insert(now);
                self.seen = Some(now);
            }
            View::There {
                state: Existing::Created | Existing::Running | Existing::Exited { .. },
                ..
            }
            | View::Absent => {
                self.since = None;
                self.seen = None;
                self.due = None;
            }
            View::Unknown => {}
        }
    }

    /// A new decision: all repairs may be tried again. What `lasts` is repaired without a grace, since
    /// somebody has just asked for it to run.
    pub(crate) fn begin(&mut self, lasts: bool) {
        self.repairs = 0;
        self.due = self.since.filter(|_| lasts);
    }

    /// Notes a repair: the next one waits longer.
    pub(crate) fn repaired(&mut self) {
        self.repairs = self.repairs.saturating_add(1);
        self.since = None;
        self.seen = None;
        self.due = None;
    }

    /// Sets the moment of the repair, once.
    pub(crate) fn plan(&mut self, settings: &AgentSettings) {
        let Some(since) = self.since else { return };
        let wait = settings.standstill_ms.saturating_add(settings.restart_wait_ms(self.repairs));
        self.due.get_or_insert(since.plus(wait));
    }

    /// Moment of the repair, if one is planned.
    pub(crate) fn due(&self) -> Option<Millis> {
        self.due
    }

    /// The repair of what is there. Only what a fault paused is given up: what somebody paused, and what
    /// is stuck, is tried again for as long as it is wanted, each time after a longer wait.
    pub(crate) fn repair(&self, view: &View, now: Millis, settings: &AgentSettings) -> Repair {
        let (by_fault, stuck) = match view {
            View::There { state: Existing::Paused { fault }, .. } => (fault.is_some(), false),
            View::There { state: Existing::Stuck { .. }, .. } => (false, true),
            View::There { .. } | View::Unknown | View::Absent => (false, false),
        };
        if by_fault && self.repairs >= settings.resume_attempts {
            Repair::UsedUp
        } else if stuck && !self.is_confirmed() {
            Repair::Waits
        } else if self.is_due(now) {
            Repair::Due
        } else {
            Repair::Waits
        }
    }

    /// True if the moment of its repair has come.
    pub(crate) fn is_due(&self, now: Millis) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// True if it was seen again when its repair was due. What is stuck is ended then, so it must not have
    /// come to itself in the meantime.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.due.is_some_and(|due| self.seen >= Some(due))
    }

    /// The cause of a standstill, for the scheduler. What was paused by order has none.
    pub(crate) fn trouble(&self, view: &View, settings: &AgentSettings) -> Option<Failure> {
        let View::There { state, .. } = view else { return None };
        match state {
            Existing::Paused { fault: Some(fault) } if self.repairs >= settings.resume_attempts => {
                let text = format!(
                    "paused by a fault: {fault}; resumed {} times, and paused again each time",
                    self.repairs
                );
                Some(Failure::new(FailureReason::RuntimeError, &text))
            }
            Existing::Paused { fault: Some(fault) } => Some(Failure::new(
                FailureReason::RuntimeError,
                &format!("paused by a fault: {fault}"),
            )),
            Existing::Stuck { why } => Some(Failure::new(FailureReason::RuntimeError, why)),
            Existing::Paused { fault: None }
            | Existing::Created
            | Existing::Running
            | Existing::Exited { .. } => None,
        }
    }
}

/// Exit code of what was stuck and ended from outside.
pub(crate) const KILLED: i32 = 137;

/// The end of something stuck, as people read it.
pub(crate) fn end_of_stuck(view: &View) -> Arc<str> {
    let why = match view {
        View::There { state: Existing::Stuck { why }, .. } => why.as_ref(),
        View::There { .. } | View::Unknown | View::Absent => "it did not respond",
    };
    Arc::from(format!("was stopped because it did not respond: {why}"))
}
