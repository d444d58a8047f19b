//! When waiting is over: a function of what is seen and of the time.

use std::time::Duration;

use persys_proto::control::v1::WorkloadView;

/// How long it must have run before we say that it runs: what fails at once fails within this.
pub(crate) const STEADY: Duration = Duration::from_secs(1);
/// How long "no node takes it" must have held unchanged before we say so.
pub(crate) const SETTLED: Duration = Duration::from_secs(3);
/// Failures after which it is not healthy; the first may be a hiccup.
const FAILURES: u32 = 2;

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// It runs, or has run to its end.
    Running,
    /// It is paused.
    Paused,
    /// It is at rest.
    Stopped,
    /// It is gone.
    Gone,
}

/// What is to be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not yet.
    Wait,
    /// The goal is reached.
    Done,
    /// No node takes it, and that does not change by itself.
    NotPlaced,
    /// It does not become healthy.
    Unhealthy,
    /// Somebody deleted it meanwhile.
    Vanished,
    /// Somebody else wants something else of it.
    Overruled,
}

/// Whether an apply changed nothing: it runs `after` as it did `before`, and had for `age`. Then there
/// is nothing to wait for.
pub(crate) fn unmoved(before: &WorkloadView, after: &WorkloadView, age: Duration) -> bool {
    let steady = |view: &WorkloadView| {
        view.status == "Running"
            && view.desired_state == "Running"
            && view.running_revision_id.is_empty()
            && ["", "Healthy"].contains(&view.health.as_str())
            && !view.uncertain
    };
    steady(before)
        && steady(after)
        && (before.epoch, before.restarts) == (after.epoch, after.restarts)
        && before.revision_id == after.revision_id
        && before.last_updated == after.last_updated
        && age >= STEADY
}

/// Judges one workload over time.
#[derive(Debug, Clone)]
pub(crate) struct Judge {
    goal: Goal,
    /// Restarts it had before we began.
    restarts_before: Option<u32>,
    /// Since when it is as it is now, and what that was.
    held: Option<(String, Duration)>,
}

impl Judge {
    pub(crate) fn new(goal: Goal) -> Self {
        Self { goal, restarts_before: None, held: None }
    }

    /// What to say of what is seen now; `None` where there is no such workload.
    pub(crate) fn look(&mut self, view: Option<&WorkloadView>, now: Duration) -> Verdict {
        let Some(view) = view else {
            return if self.goal == Goal::Gone { Verdict::Done } else { Verdict::Vanished };
        };
        let held = self.held_for(view, now);
        match self.goal {
            Goal::Gone => Verdict::Wait,
            Goal::Paused if view.desired_state != "Paused" => Verdict::Overruled,
            Goal::Paused => match view.status.as_str() {
                "Paused" | "Completed" => Verdict::Done,
                "Failed" => Verdict::Unhealthy,
                "Pending" => settled(held),
                _ => Verdict::Wait,
            },
            Goal::Stopped if view.desired_state == "Running" => Verdict::Overruled,
            Goal::Stopped => {
                if ["Stopped", "Completed"].contains(&view.status.as_str()) {
                    Verdict::Done
                } else {
                    Verdict::Wait
                }
            }
            Goal::Running if view.desired_state != "Running" => Verdict::Overruled,
            Goal::Running => self.running(view, held),
        }
    }

    fn running(&mut self, view: &WorkloadView, held: Duration) -> Verdict {
        let before = *self.restarts_before.get_or_insert(view.restarts);
        // After an update the count begins anew.
        let restarts = view.restarts.checked_sub(before).unwrap_or(view.restarts);
        let other_runs =
            !view.running_revision_id.is_empty() && view.running_revision_id != view.revision_id;
        // Between two attempts of an update the earlier revision runs.
        let code = view.reason.as_ref().map_or("", |reason| reason.code.as_str());
        let tried = u32::try_from(view.retry_attempts).unwrap_or(u32::MAX);
        match view.status.as_str() {
            _ if view.update_state == "UpdateFailed" => Verdict::Unhealthy,
            _ if other_runs && code == "UpdateFailed" && tried >= FAILURES => Verdict::Unhealthy,
            _ if other_runs && code == "UpdateFailed" => Verdict::Wait,
            _ if other_runs => settled(held),
            "Completed" => Verdict::Done,
            "Failed" => Verdict::Unhealthy,
            "Running" if restarts >= FAILURES => Verdict::Unhealthy,
            "Running" if view.health == "Unhealthy" => Verdict::Unhealthy,
            "Running" if view.health == "Starting" => Verdict::Wait,
            "Running" if held >= STEADY => Verdict::Done,
            "Restarting" if restarts >= FAILURES => Verdict::Unhealthy,
            "RetryPending" if u32::try_from(view.retry_attempts).is_ok_and(|n| n >= FAILURES) => {
                Verdict::Unhealthy
            }
            "Pending" => settled(held),
            _ => Verdict::Wait,
        }
    }

    fn held_for(&mut self, view: &WorkloadView, now: Duration) -> Duration {
        let reason = view.reason.as_ref().map(|reason| reason.code.as_str()).unwrap_or_default();
        let present = format!("{} {reason} {} {}", view.status, view.restarts, view.epoch);
        match &self.held {
            Some((before, since)) if *before == present => now.saturating_sub(*since),
            Some(_) | None => {
                self.held = Some((present, now));
                Duration::ZERO
            }
        }
    }
}

fn settled(held: Duration) -> Verdict {
    if held >= SETTLED { Verdict::NotPlaced } else { Verdict::Wait }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(status: &str) -> WorkloadView {
        WorkloadView {
            status: status.to_owned(),
            desired_state: "Running".to_owned(),
            ..WorkloadView::default()
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn running_counts_once_it_is_steady() {
        let mut judge = Judge::new(Goal::Running);
        assert_eq!(judge.look(Some(&view("Scheduled")), at(0)), Verdict::Wait);
        assert_eq!(judge.look(Some(&view("Running")), at(1)), Verdict::Wait);
        assert_eq!(judge.look(Some(&view("Restarting")), at(2)), Verdict::Wait);
        assert_eq!(judge.look(Some(&view("Running")), at(3)), Verdict::Wait);
        assert_eq!(judge.look(Some(&view("Running")), at(4)), Verdict::Done);
    }

    #[test]
    fn what_an_apply_did_not_change_is_not_waited_for() {
        let before = WorkloadView { epoch: 7, revision_id: "r1".to_owned(), ..view("Running") };
        assert!(unmoved(&before, &before, at(1)));
        assert!(!unmoved(&before, &before, Duration::from_millis(999)), "it has only begun");
        for after in [
            WorkloadView { epoch: 8, ..before.clone() },
            WorkloadView { restarts: 1, ..before.clone() },
            WorkloadView { revision_id: "r2".to_owned(), ..before.clone() },
            WorkloadView { running_revision_id: "r0".to_owned(), ..before.clone() },
            WorkloadView {
                last_updated: Some(prost_types::Timestamp::default()),
                ..before.clone()
            },
            WorkloadView { status: "Restarting".to_owned(), ..before.clone() },
            WorkloadView { desired_state: "Stopped".to_owned(), ..before.clone() },
            WorkloadView { uncertain: true, ..before.clone() },
            WorkloadView { health: "Unhealthy".to_owned(), ..before.clone() },
        ] {
            assert!(!unmoved(&before, &after, at(9)), "{after:?}");
        }
    }

    #[test]
    fn what_no_node_takes_is_told_once_it_settled() {
        let mut judge = Judge::new(Goal::Running);
        assert_eq!(judge.look(Some(&view("Pending")), at(0)), Verdict::Wait);
        assert_eq!(judge.look(Some(&view("Pending")), at(2)), Verdict::Wait);
        assert_eq!(judge.look(Some(&view("Scheduled")), at(2)), Verdict::Wait);
        assert_eq!(judge.look(Some(&view("Pending")), at(3)), Verdict::Wait);
        assert_eq!(judge.look(Some(&view("Pending")), at(6)), Verdict::NotPlaced);
        let update = WorkloadView {
            revision_id: "r2".to_owned(),
            running_revision_id: "r1".to_owned(),
            ..view("Running")
        };
        let mut judge = Judge::new(Goal::Running);
        assert_eq!(judge.look(Some(&update), at(0)), Verdict::Wait);
        assert_eq!(judge.look(Some(&update), at(9)), Verdict::NotPlaced);
    }

    #[test]
    fn what_fails_again_and_again_is_not_healthy() {
        let restarts = |number, status| WorkloadView { restarts: number, ..view(status) };
        let mut judge = Judge::new(Goal::Running);
        assert_eq!(judge.look(Some(&restarts(0, "Running")), at(0)), Verdict::Wait);
        assert_eq!(judge.look(Some(&restarts(1, "Restarting")), at(0)), Verdict::Wait);
        assert_eq!(judge.look(Some(&restarts(2, "Restarting")), at(0)), Verdict::Unhealthy);
        let mut judge = Judge::new(Goal::Running);
        assert_eq!(judge.look(Some(&restarts(7, "Running")), at(0)), Verdict::Wait, "long ago");
        assert_eq!(judge.look(Some(&restarts(7, "Running")), at(1)), Verdict::Done);
        assert_eq!(
            Judge::new(Goal::Running).look(Some(&view("Failed")), at(0)),
            Verdict::Unhealthy
        );
        let tried = WorkloadView { retry_attempts: 2, ..view("RetryPending") };
        assert_eq!(Judge::new(Goal::Running).look(Some(&tried), at(0)), Verdict::Unhealthy);
    }

    #[test]
    fn what_is_checked_has_to_pass() {
        let health = |word: &str| WorkloadView { health: word.to_owned(), ..view("Running") };
        let mut judge = Judge::new(Goal::Running);
        for seconds in [0, 1, 60] {
            assert_eq!(judge.look(Some(&health("Starting")), at(seconds)), Verdict::Wait);
        }
        assert_eq!(judge.clone().look(Some(&health("Healthy")), at(61)), Verdict::Done);
        assert_eq!(judge.look(Some(&health("Unhealthy")), at(61)), Verdict::Unhealthy);
    }

    #[test]
    fn other_goals_have_their_ends() {
        assert_eq!(Judge::new(Goal::Gone).look(Some(&view("Deleting")), at(0)), Verdict::Wait);
        assert_eq!(Judge::new(Goal::Gone).look(None, at(0)), Verdict::Done);
        assert_eq!(Judge::new(Goal::Running).look(None, at(0)), Verdict::Vanished);
        let stopped = WorkloadView { desired_state: "Stopped".to_owned(), ..view("Stopped") };
        assert_eq!(Judge::new(Goal::Stopped).look(Some(&stopped), at(0)), Verdict::Done);
        assert_eq!(Judge::new(Goal::Running).look(Some(&stopped), at(0)), Verdict::Overruled);
    }
}
