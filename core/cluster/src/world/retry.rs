//! After a failure: try again while it can help, each time later, and say when.

use std::sync::Arc;

use persys_model::assignment::ReasonCode;
use persys_model::failure::{Failure, FailureReason, FailureStage};
use persys_model::id::WorkloadId;
use persys_model::phase::Phase;
use persys_model::retry::Retry;
use persys_model::spec::WorkloadType;
use persys_model::time::WallMillis;
use persys_model::zoo::Bug;

use super::World;
use super::slots::WorkloadIndex;
use super::timers::Timer;
use super::update::earlier_runs;
use crate::effects::Mark;
use crate::settings::Settings;

impl World {
    /// The node gave up on the present decision.
    pub(super) fn attempt_failed(&mut self, at: WorkloadIndex) {
        let unexplained = || Failure::new(FailureReason::RuntimeError, "the node gave no reason");
        let failure = self.seen_failure(at).unwrap_or_else(unexplained);
        let avoid = failure.reason == FailureReason::InsufficientResources;
        self.end_attempt(at, failure, avoid);
    }

    /// The present decision made no progress. Its copy may still come to run: once nothing more is
    /// tried it is removed, and what must not run twice stays with its node.
    pub(super) fn attempt_timed_out(&mut self, at: WorkloadIndex) {
        let Some(failure) = self.timeout_failure(at) else { return };
        let Some(slot) = self.workloads.get(at.0) else { return };
        let avoid = !self.at_most_once(&slot.workload.spec);
        self.end_attempt(at, failure, avoid);
        if self.workloads.get(at.0).is_some_and(|slot| slot.assignment.phase == Phase::Failed) {
            self.retire(at);
        }
    }

    fn end_attempt(&mut self, at: WorkloadIndex, failure: Failure, avoid: bool) {
        let Some(slot) = self.workloads.get(at.0) else { return };
        let id = slot.workload.id.clone();
        let node = slot.assignment.place.as_ref().map(|place| place.node.clone());
        let mut retry = slot.retry.as_deref().cloned().unwrap_or(Retry {
            workload: id.clone(),
            attempts: 0,
            max_attempts: 0,
            next_at: None,
            avoid: Vec::new(),
        });
        retry.max_attempts = self.settings.retry_attempts;
        let endless = self.settings.zoo.has(Bug::RetryForever);
        let retryable = failure.retryable() || self.retries_ended_program(&failure);
        if !endless {
            retry.attempts = retry.attempts.saturating_add(1);
        }
        if avoid
            && let Some(node) = node
            && !retry.avoid.contains(&node)
        {
            retry.avoid.push(node);
        }
        let again = endless || (retryable && retry.attempts < self.settings.retry_attempts);
        if self.workloads.get(at.0).is_some_and(earlier_runs) {
            let wait = again.then(|| backoff_ms(&self.settings, &id, retry.attempts));
            retry.next_at = wait.map(|wait| WallMillis(self.now.wall.0.saturating_add(wait)));
            self.update_attempt_failed(at, retry, failure, wait);
        } else if again {
            self.plan_attempt(at, retry, failure, &id);
        } else {
            self.give_up(at, retry, failure);
        }
    }

    /// Known bug: the retry budget starts a program again that its restart policy has given up.
    fn retries_ended_program(&self, failure: &Failure) -> bool {
        self.settings.zoo.has(Bug::RetryAfterProgramEnd) && failure.reason.retryable()
    }

    fn plan_attempt(
        &mut self,
        at: WorkloadIndex,
        mut retry: Retry,
        failure: Failure,
        id: &WorkloadId,
    ) {
        self.mark(Mark::RetryPlanned);
        let wait = backoff_ms(&self.settings, id, retry.attempts);
        retry.next_at = Some(WallMillis(self.now.wall.0.saturating_add(wait)));
        let due = self.now.mono.plus(wait);
        self.note_update_failure(at, &failure, false);
        let (what, evidence) = failure.parts();
        let mut message = format!(
            "attempt {} of {} failed: {what}; next in {} s",
            retry.attempts,
            self.settings.retry_attempts,
            wait.div_ceil(1000)
        );
        if let Some(evidence) = evidence {
            message = format!("{message}\n{evidence}");
        }
        self.keep_retry(at, Some(retry));
        if let Some(slot) = self.workloads.get_mut(at.0) {
            slot.retry_due = Some(due);
            slot.healthy_since = None;
        }
        self.timers.set(due, Timer::Workload(at));
        self.set_phase(at, Phase::Backoff, ReasonCode::AttemptFailed, &message, Some(failure));
    }

    fn give_up(&mut self, at: WorkloadIndex, mut retry: Retry, failure: Failure) {
        self.mark(Mark::GaveUp);
        self.note_update_failure(at, &failure, true);
        retry.next_at = None;
        let message = match failure.stage {
            FailureStage::Run => self.says_over(at, &failure),
            FailureStage::Start if failure.retryable() => {
                format!("gave up after {} attempts: {}", retry.attempts, failure.message)
            }
            FailureStage::Start => format!("trying again will not help: {}", failure.message),
        };
        // What gave up may be the version before the one that is wanted: that one begins anew.
        let slot = self.workloads.get(at.0);
        let wanted = slot.is_some_and(|slot| {
            let place = slot.assignment.place.as_ref();
            place.is_none_or(|place| place.generation == slot.workload.generation)
        });
        self.keep_retry(at, wanted.then_some(retry));
        if let Some(slot) = self.workloads.get_mut(at.0) {
            slot.retry_due = None;
            slot.healthy_since = None;
        }
        self.set_phase(at, Phase::Failed, ReasonCode::GaveUp, &message, Some(failure));
        // What is updated in place may run on in its last good revision: its room stays taken.
        let slot = self.workloads.get(at.0);
        if !slot.is_some_and(|slot| slot.workload.spec.kind.updates_in_place()) {
            self.rest(at);
        }
    }

    /// The message for a program that ended and is not started again: its end in the first line, then
    /// its evidence.
    fn says_over(&self, at: WorkloadIndex, failure: &Failure) -> String {
        let slot = self.workloads.get(at.0);
        let restarts = slot.and_then(|slot| slot.seen.as_ref()).map_or(0, |seen| seen.restarts);
        let (what, evidence) = failure.parts();
        let machine =
            slot.is_some_and(|slot| slot.workload.spec.workload_type() == WorkloadType::Vm);
        let rule = match (machine, restarts) {
            (true, _) => {
                format!("the machine did not boot in {} attempts", restarts.saturating_add(1))
            }
            (false, 0) => "its restart policy does not start it again".to_owned(),
            (false, 1) => "its restart policy allows no more than this 1 restart".to_owned(),
            (false, more) => {
                format!("its restart policy allows no more than these {more} restarts")
            }
        };
        let message = format!("{what}; {rule}");
        match evidence {
            Some(evidence) => format!("{message}\n{evidence}"),
            None => message,
        }
    }

    /// Begins a fresh incident budget: somebody changed or asked something.
    pub(super) fn forget_failures(&mut self, at: WorkloadIndex) {
        if let Some(slot) = self.workloads.get_mut(at.0) {
            slot.retry_due = None;
            slot.healthy_since = None;
        }
        self.keep_retry(at, None);
    }

    /// Forgets the failures of a workload that has been healthy long enough.
    pub(super) fn forget_after_health(&mut self, at: WorkloadIndex) {
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        let long_enough = slot
            .healthy_since
            .is_some_and(|since| self.now.mono.since(since) >= self.settings.retry_refill_ms);
        if long_enough
            && slot.assignment.phase == Phase::Running
            && slot.assignment.update.is_none()
        {
            slot.healthy_since = None;
            self.mark(Mark::RetryForgotten);
            self.keep_retry(at, None);
        }
    }

    pub(super) fn keep_retry(&mut self, at: WorkloadIndex, retry: Option<Retry>) {
        let Some(slot) = self.workloads.get_mut(at.0) else { return };
        if slot.retry.is_none() && retry.is_none() {
            return;
        }
        slot.retry = retry.map(Arc::new);
        self.touch_retry(at);
    }
}

/// How long to wait after this many failures: doubling, capped, and spread by up to a fifth so
/// that workloads that failed together do not try again together. The spread is taken from the
/// name, not from chance.
fn backoff_ms(settings: &Settings, id: &WorkloadId, attempts: u32) -> u64 {
    if settings.zoo.has(Bug::RetryForever) {
        return 0;
    }
    let doublings = attempts.saturating_sub(1).min(20);
    let wait = settings.retry_base_ms.saturating_mul(1 << doublings).min(settings.retry_cap_ms);
    let hash = id.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    wait - (wait / 5).min(hash.wrapping_add(u64::from(attempts)) % (wait / 5).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap() {
        let settings = Settings::default();
        let id = WorkloadId::new("web").unwrap();
        let waits: Vec<_> = (1..=8).map(|n| backoff_ms(&settings, &id, n)).collect();
        for (n, wait) in waits.iter().enumerate() {
            let full = (5_000_u64 << n).min(120_000);
            assert!(*wait <= full && *wait >= full - full / 5, "attempt {n}: {wait} of {full}");
        }
    }

    #[test]
    fn many_workloads_do_not_wait_in_step() {
        let settings = Settings::default();
        let wait = |n: u32| {
            let id = WorkloadId::new(&format!("web-{n}")).unwrap();
            backoff_ms(&settings, &id, 4)
        };
        let waits: std::collections::BTreeSet<_> = (0..100).map(wait).collect();
        assert!(waits.len() > 50, "{} different waits of 100", waits.len());
    }
}
