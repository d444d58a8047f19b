//! Health of one workload: when its check is run, and the verdict after each run.
//!
//! ```text
//!   runs ──► Starting, a probe each second ── passes ──► Healthy, a probe each interval
//!                │ start period over, then                   │ `retries` failures in a row
//!                │ `retries` failures in a row               ▼
//!                └──────────────────────────────────► Unhealthy ── passes ──► Healthy
//! ```
//!
//! A check inside, of the image or of the spec, is run by the runtime; its verdict comes with an
//! observation. A check of the spec from outside takes its place and is run from here. Neither starts or
//! stops anything.
//!
//! A verdict is told once: while it stays, the output of later failures is not news.

use std::sync::Arc;

use persys_model::health::{Health, HealthState};
use persys_model::id::{RevisionId, WorkloadId};
use persys_model::inventory::State;
use persys_model::spec::health::Check;
use persys_model::time::{Millis, Now};

use crate::agent::Agent;
use crate::effects::{Effects, Probing};
use crate::input::{Existing, ImageHealth, ProbeId, ProbeOutcome};
use crate::ledger::{Goal, Intent};
use crate::slot::Slot;
use crate::view::View;

/// Time between probes while it starts: whoever waits for it waits no longer than needed.
const START_INTERVAL_MS: u64 = 1_000;
/// Probes begin at multiples of this, so that many checks share one step.
const GRID_MS: u64 = 250;

/// Health of one workload in this life.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct HealthWatch {
    /// Verdict of the image's own check, as its runtime last said.
    image: Option<ImageHealth>,
    /// The check of the spec, while what it is about runs.
    own: Option<OwnCheck>,
}

/// One run of a workload: its revision, and the moment since which it runs.
type Run = (RevisionId, Millis);

/// A check of the spec and how it went so far.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OwnCheck {
    check: Arc<Check>,
    /// The run it is about.
    run: Run,
    verdict: Health,
    /// Failures in a row that count.
    failures: u32,
    /// Failures count from here on.
    counts_from: Millis,
    /// The next probe, unless one is under way.
    next: Millis,
    /// The probe under way, and the moment after which its answer is no longer waited for.
    flight: Option<(ProbeId, Millis)>,
}

impl HealthWatch {
    /// Takes in what a runtime says of the image's check.
    pub(crate) fn see_image(&mut self, seen: Option<ImageHealth>) {
        if !self.knows(seen.as_ref()) {
            self.image = seen;
        }
    }

    /// True if an observation says what is known already.
    pub(crate) fn knows(&self, seen: Option<&ImageHealth>) -> bool {
        match (&self.image, seen) {
            (Some(known), Some(seen)) => known.state == seen.state && known.blamed == seen.blamed,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// The verdict for the scheduler. A check in the spec takes the place of the image's.
    pub(crate) fn verdict(&self, intent: &Intent) -> Option<Health> {
        let silenced = intent.spec.as_ref().is_some_and(|spec| spec.health.silences_runtime());
        match (&self.own, &self.image) {
            (Some(own), _) => Some(own.verdict.clone()),
            (None, _) if silenced => None,
            (None, Some(image)) => Some(image.told()),
            (None, None) => None,
        }
    }

    /// Moment of the next probe, or of giving up on the one under way.
    pub(crate) fn due(&self) -> Option<Millis> {
        self.own.as_ref().map(|own| own.flight.map_or(own.next, |(_, until)| until))
    }

    /// Begins, goes on with or ends the check of `run`, which is to be checked so.
    fn follow(&mut self, check: Option<&Arc<Check>>, run: Run, (found, now): (bool, Millis)) {
        let goes_on = self.own.as_ref().zip(check).is_some_and(|(own, check)| {
            own.run == run && (Arc::ptr_eq(&own.check, check) || own.check == *check)
        });
        if goes_on {
            return;
        }
        self.own = check.map(|check| {
            // What ran before this life has had its time to start.
            let start = if found { 0 } else { check.start_period_ms };
            OwnCheck {
                check: Arc::clone(check),
                counts_from: now.plus(start),
                next: now,
                run,
                verdict: Health::starting(),
                failures: 0,
                flight: None,
            }
        });
    }

    /// Nothing runs that could be checked.
    fn end(&mut self) {
        self.own = None;
    }
}

impl OwnCheck {
    /// The check to run now, if one is due.
    fn begin(&mut self, now: Millis, answer_wait_ms: u64, id: ProbeId) -> Option<Arc<Check>> {
        if let Some((_, until)) = self.flight
            && until <= now
        {
            self.flight = None;
            self.failed("the check did not come to an end", now);
        }
        if self.flight.is_some() || now < self.next {
            return None;
        }
        let until = now.plus(self.check.timeout_ms.saturating_add(answer_wait_ms));
        self.flight = Some((id, until));
        Some(Arc::clone(&self.check))
    }

    fn passed(&mut self, now: Millis) {
        self.failures = 0;
        self.verdict = Health::healthy();
        // The first success ends the start period.
        self.counts_from = now;
        self.plan(now);
    }

    fn failed(&mut self, why: &str, now: Millis) {
        if now >= self.counts_from {
            self.failures = self.failures.saturating_add(1);
        }
        if self.failures >= self.check.retries && self.verdict.state != HealthState::Unhealthy {
            self.verdict = Health::unhealthy(why);
        }
        self.plan(now);
    }

    fn plan(&mut self, now: Millis) {
        let in_start = self.verdict.state == HealthState::Starting && now < self.counts_from;
        let interval = self.check.interval_ms;
        let wait = if in_start { interval.min(START_INTERVAL_MS) } else { interval };
        let at = now.plus(wait).0;
        self.next = Millis(at.next_multiple_of(GRID_MS));
    }
}

impl Slot {
    /// Verdict of its checks, while it runs as it should.
    pub(crate) fn health(&self, intent: &Intent, state: &State) -> Option<Health> {
        (*state == State::Running).then(|| self.health.verdict(intent)).flatten()
    }
}

impl Agent {
    /// Has the check of a workload run if it is due.
    pub(crate) fn check_health(&mut self, workload: &WorkloadId, now: Now, effects: &mut Effects) {
        let Some(slot) = self.slots.get_mut(workload) else { return };
        let intent = self.journal.ledger().intents.get(workload);
        let runs = match (&slot.view, slot.running_since) {
            (View::There { revision, state: Existing::Running, .. }, Some(since)) => {
                Some((revision.clone(), since))
            }
            (View::There { .. } | View::Absent, _) => None,
            // Nobody knows whether it runs: what is known of its health stays.
            (View::Unknown, _) => return,
        };
        let wanted = intent.filter(|intent| intent.goal == Goal::Run);
        let spec = wanted.and_then(|intent| intent.spec.as_deref().map(|spec| (intent, spec)));
        let (Some(run), Some((intent, spec))) = (runs, spec) else { return slot.health.end() };
        if run.0 != intent.revision {
            return slot.health.end();
        }
        slot.health.follow(spec.health.asked_from_outside(), run, (slot.found, now.mono));
        let Some(own) = &mut slot.health.own else { return };
        let id = ProbeId(self.last_probe.0.saturating_add(1));
        if let Some(check) = own.begin(now.mono, self.settings.answer_wait_ms, id) {
            self.last_probe = id;
            effects.probes.push(Probing { id, workload: workload.clone(), check });
        }
    }

    /// Takes in how a probe went.
    pub(crate) fn probed(
        &mut self,
        id: ProbeId,
        workload: WorkloadId,
        outcome: ProbeOutcome,
        now: Now,
    ) {
        let Some(slot) = self.slots.get_mut(&workload) else { return };
        let Some(own) = &mut slot.health.own else { return };
        if own.flight.take_if(|(flight, _)| *flight == id).is_none() {
            return;
        }
        match outcome {
            ProbeOutcome::Passed => own.passed(now.mono),
            ProbeOutcome::Failed(why) => own.failed(&why, now.mono),
            // The runtime did not answer: that says nothing of the workload.
            ProbeOutcome::Unknown => own.plan(now.mono),
        }
        self.touched.insert(workload);
    }
}
