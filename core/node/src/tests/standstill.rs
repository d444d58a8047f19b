//! What is paused or stuck, by order and without one.

use std::sync::Arc;

use persys_model::command::{Apply, Command, Order};
use persys_model::id::RevisionId;
use persys_model::inventory::State;
use persys_model::spec::container::RestartPolicy;
use persys_model::spec::{Class, Spec};

use super::rig::{Rig, apply, apply_spec, command, id, in_place, plain, remove, rest, seen, spec};
use crate::effects::Verb;
use crate::input::{Existing, Input, Observation, Outcome};
use crate::ledger::Goal;
use crate::settings::{AgentSettings, PROBE_ANSWER_MS};

/// Longer than the grace and the longest wait before a repair.
const LONG_MS: u64 = 80_000;

fn pause(epoch: u64, revision: &'static str) -> Command {
    pause_spec(epoch, revision, plain())
}

fn pause_spec(epoch: u64, revision: &'static str, spec: Arc<Spec>) -> Command {
    let apply = Apply {
        revision: RevisionId::fixed(revision),
        run: true,
        pause: true,
        spec,
        secrets: Arc::default(),
    };
    command(epoch, Order::Apply(apply))
}

fn shows(rig: &mut Rig, epoch: u64, state: Existing) {
    // The first answer may be to a question from before the last verb.
    rig.observe(vec![seen(epoch, "a", state.clone())]);
    rig.observe(vec![seen(epoch, "a", state)]);
}

fn fault() -> Existing {
    Existing::Paused { fault: Some(Arc::from("I/O error")) }
}

fn stuck() -> Existing {
    Existing::Stuck { why: Arc::from("its main process is in state D") }
}

fn starts(rig: &mut Rig) {
    assert!(matches!(rig.finish(Outcome::Done), Verb::Start { .. }));
}

#[test]
fn what_somebody_paused_is_told_at_once_and_resumed_after_its_grace() {
    let mut rig = Rig::running(5, "a", &plain());
    shows(&mut rig, 5, Existing::PAUSED);
    assert_eq!(rig.state(), Some(State::Paused));
    assert_eq!(rig.trouble(), None);
    rig.wait(9_999);
    assert!(rig.verbs.is_empty(), "it may be paused for a moment, to copy it");
    rig.wait(1);
    starts(&mut rig);
    assert_eq!(rig.state(), Some(State::Running));
    assert_eq!(rig.disk.intents[&id("web")].restarts, 0, "that is no restart");
    // Somebody insists: each time it waits longer, and never gives up.
    for _ in 0..9 {
        shows(&mut rig, 5, Existing::PAUSED);
        rig.wait(LONG_MS);
        starts(&mut rig);
    }
}

#[test]
fn what_ended_while_it_was_paused_is_judged_by_its_policy() {
    let once = spec(RestartPolicy::No, Class::Default);
    let mut rig = Rig::running(5, "a", &once);
    shows(&mut rig, 5, Existing::PAUSED);
    rig.wait(LONG_MS);
    let reason = persys_model::failure::FailureReason::RuntimeError;
    let failure = persys_model::failure::Failure::new(reason, "it ended while it was paused");
    let verb = rig.finish(Outcome::Failed(failure));
    assert!(matches!(verb, Verb::Start { resume: true, .. }), "{verb:?}");
    shows(&mut rig, 5, Existing::Exited { code: 0 });
    rig.wait(LONG_MS);
    assert!(rig.verbs.is_empty(), "it runs once");
    assert_eq!(rig.state(), Some(State::Completed));
}

#[test]
fn a_pause_that_ends_by_itself_is_left_alone() {
    let mut rig = Rig::running(5, "a", &plain());
    shows(&mut rig, 5, Existing::PAUSED);
    rig.wait(5_000);
    shows(&mut rig, 5, Existing::Running);
    assert_eq!(rig.state(), Some(State::Running));
    rig.wait(LONG_MS);
    assert!(rig.verbs.is_empty());
}

#[test]
fn what_a_fault_paused_is_resumed_a_few_times_and_then_left_to_an_operator() {
    let mut rig = Rig::running(5, "a", &plain());
    for _ in 0..3 {
        shows(&mut rig, 5, fault());
        assert!(rig.trouble().unwrap().message.contains("I/O error"));
        rig.wait(LONG_MS);
        starts(&mut rig);
    }
    shows(&mut rig, 5, fault());
    rig.wait(10 * LONG_MS);
    assert!(rig.verbs.is_empty());
    assert_eq!(rig.state(), Some(State::Paused));
    assert!(rig.trouble().unwrap().message.contains("resumed 3 times"));
    // The operator says that it is to run: at once, and with all attempts.
    rig.order(apply(6, "a"));
    starts(&mut rig);
    for _ in 0..2 {
        shows(&mut rig, 5, fault());
        rig.wait(LONG_MS);
        starts(&mut rig);
    }
}

#[test]
fn what_ran_long_between_two_faults_begins_anew() {
    let mut rig = Rig::running(5, "a", &plain());
    for _ in 0..5 {
        rig.wait(60_000);
        shows(&mut rig, 5, fault());
        rig.wait(LONG_MS);
        starts(&mut rig);
    }
}

#[test]
fn a_user_pauses_and_resumes() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.order(pause(6, "a"));
    assert_eq!(rig.finish(Outcome::Done), Verb::Pause);
    assert_eq!(rig.state(), Some(State::Paused));
    assert_eq!(rig.disk.intents[&id("web")].goal, Goal::Pause);
    rig.wait(LONG_MS);
    shows(&mut rig, 5, Existing::PAUSED);
    rig.wait(LONG_MS);
    assert!(rig.verbs.is_empty(), "nobody resumes what its user paused");
    rig.order(apply(7, "a"));
    starts(&mut rig);
    assert_eq!(rig.state(), Some(State::Running));
}

#[test]
fn what_is_to_be_paused_is_started_first_and_paused_again_when_somebody_resumes_it() {
    let mut rig = Rig::alive(crate::ledger::Ledger::default(), Vec::new());
    rig.order(pause(5, "a"));
    starts(&mut rig);
    assert_eq!(rig.finish(Outcome::Done), Verb::Pause);
    shows(&mut rig, 5, Existing::Running);
    assert_eq!(rig.finish(Outcome::Done), Verb::Pause, "somebody resumed it by hand");
    shows(&mut rig, 5, Existing::Exited { code: 137 });
    starts(&mut rig);
    assert_eq!(rig.finish(Outcome::Done), Verb::Pause, "its machine was rebooted");
}

#[test]
fn a_pause_outlives_the_agent() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.order(pause(6, "a"));
    rig.finish(Outcome::Done);
    let mut rig = rig.reborn(vec![seen(5, "a", Existing::PAUSED)]);
    rig.order(pause(6, "a"));
    rig.wait(LONG_MS);
    assert!(rig.verbs.is_empty());
    assert_eq!(rig.state(), Some(State::Paused));
}

#[test]
fn a_failed_pause_or_resume_is_tried_again_and_told() {
    let failure = || {
        let reason = persys_model::failure::FailureReason::RuntimeError;
        Outcome::Failed(persys_model::failure::Failure::new(reason, "no"))
    };
    let mut rig = Rig::running(5, "a", &plain());
    rig.order(pause(6, "a"));
    rig.finish(failure());
    shows(&mut rig, 5, Existing::Running);
    assert!(rig.trouble().is_some());
    rig.wait(LONG_MS);
    assert_eq!(rig.finish(Outcome::Done), Verb::Pause);
    rig.order(apply(7, "a"));
    rig.finish(failure());
    shows(&mut rig, 5, Existing::PAUSED);
    assert_eq!(
        rig.state(),
        Some(State::Paused),
        "the decision is not given up: it holds its memory"
    );
    rig.wait(LONG_MS);
    starts(&mut rig);
}

#[test]
fn what_is_paused_can_be_stopped_and_removed() {
    for order in [rest(6, "a"), remove(6)] {
        let mut rig = Rig::running(5, "a", &plain());
        shows(&mut rig, 5, Existing::PAUSED);
        rig.order(order);
        assert!(matches!(rig.finish(Outcome::Done), Verb::Stop { .. } | Verb::Remove { .. }));
    }
}

#[test]
fn what_is_stuck_is_ended_and_started_again_by_its_policy() {
    let mut rig = Rig::running(5, "a", &plain());
    shows(&mut rig, 5, stuck());
    assert_eq!(rig.state(), Some(State::Unresponsive));
    assert!(rig.trouble().unwrap().message.contains("state D"));
    rig.wait(9_999);
    shows(&mut rig, 5, stuck());
    assert!(rig.verbs.is_empty());
    rig.wait(1);
    assert!(rig.verbs.is_empty(), "it may have come to itself since it was last seen");
    shows(&mut rig, 5, stuck());
    assert_eq!(rig.finish(Outcome::Done), Verb::STOP);
    assert_eq!(rig.disk.intents[&id("web")].restarts, 1);
    starts(&mut rig);
    let mut once = Rig::running(5, "a", &spec(RestartPolicy::No, Class::Default));
    shows(&mut once, 5, stuck());
    once.wait(LONG_MS);
    shows(&mut once, 5, stuck());
    assert_eq!(once.finish(Outcome::Done), Verb::STOP);
    let Some(State::Failed(failure)) = once.state() else { panic!("{:?}", once.state()) };
    assert!(failure.message.contains("did not respond"), "{failure:?}");
    assert!(once.verbs.is_empty());
}

#[test]
fn what_cannot_be_ended_is_tried_again_and_never_started_beside_itself() {
    let mut rig = Rig::running(5, "a", &plain());
    for outcome in [Outcome::Unknown, Outcome::Unknown, Outcome::Unknown] {
        shows(&mut rig, 5, stuck());
        rig.wait(5_000);
        assert!(rig.verbs.is_empty(), "not before its grace, each time anew");
        rig.wait(LONG_MS);
        shows(&mut rig, 5, stuck());
        assert_eq!(rig.finish(outcome), Verb::STOP);
        assert!(rig.verbs.is_empty());
    }
    shows(&mut rig, 5, Existing::Running);
    assert_eq!(rig.state(), Some(State::Running), "its disk answers again");
}

#[test]
fn a_failed_update_of_what_is_paused_is_the_failure_of_its_decision() {
    let mut rig = Rig::running(5, "a", &in_place());
    rig.order(pause_spec(6, "a", in_place()));
    assert_eq!(rig.finish(Outcome::Done), Verb::Pause);
    rig.order(apply_spec(7, "b", in_place()));
    let reason = persys_model::failure::FailureReason::RuntimeError;
    let failure = persys_model::failure::Failure::new(reason, "no");
    assert!(matches!(rig.finish(Outcome::Failed(failure.clone())), Verb::Start { .. }));
    assert_eq!(rig.state(), Some(State::Failed(failure)));
}

/// Time within which something stuck is shown (requirement 004).
const SHOWN_WITHIN_MS: u64 = 30_000;

/// A look is under way when the probe is due, both take all the time they have, and the beat follows.
#[test]
fn by_the_settings_what_is_stuck_is_told_within_thirty_seconds() {
    let settings = AgentSettings::default();
    let told = settings.probe_interval_ms() + 2 * PROBE_ANSWER_MS + settings.min_beat_gap_ms;
    assert!(told + 1_000 < SHOWN_WITHIN_MS, "{told} ms, and a second for the way to the scheduler");
    assert!(PROBE_ANSWER_MS < settings.answer_wait_ms, "a probe is not asked twice");
    let seldom = AgentSettings { observe_ms: 300_000, ..settings };
    assert_eq!(seldom.probe_interval_ms(), 300_000, "somebody wants few questions");
}

/// It gets stuck just after a probe asked about it. Hints at any moment make the agent look in between, and
/// such a look does not delay the next probe.
#[test]
fn what_is_stuck_is_told_in_time_whatever_else_happens() {
    for hint_every in (500..30_000).step_by(500) {
        let mut rig = Rig::running(5, "a", &plain());
        rig.observe(vec![seen(5, "a", Existing::Running)]);
        rig.wait(40_000);
        let (mut told, mut probed) = (None, 0_u32);
        let (begun, mut open) = (rig.now, rig.last.observe.map(|look| (look, rig.now)));
        assert!(open.is_some_and(|(look, _)| look.probe), "this probe is the one before");
        while told.is_none() && rig.now - begun < 60_000 {
            if let Some((look, asked)) = open.filter(|(_, at)| rig.now - at >= PROBE_ANSWER_MS) {
                // Only a probe after the first one can tell.
                let new = look.probe && asked > begun;
                probed += u32::from(new);
                let state = if new { stuck() } else { Existing::Running };
                let list = vec![seen(5, "a", state)];
                rig.step(Input::Observed(look.id, Observation::Complete(list)));
                open = rig.last.observe.map(|look| (look, rig.now));
                told = (rig.state() == Some(State::Unresponsive)).then(|| rig.now - begun);
            }
            rig.wait(100);
            open = rig.last.observe.map(|look| (look, rig.now)).or(open);
            if (rig.now - begun).is_multiple_of(hint_every) {
                rig.step(Input::Stirred(None));
                open = rig.last.observe.map(|look| (look, rig.now)).or(open);
            }
        }
        let told = told.unwrap_or_else(|| panic!("never, with a hint every {hint_every} ms"));
        assert!(told < SHOWN_WITHIN_MS - 1_000, "{told} ms, with a hint every {hint_every} ms");
        assert_eq!(probed, 1);
    }
}
