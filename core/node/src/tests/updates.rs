//! Updates: in place the new revision is brought over what runs; anything else is fetched first, and what
//! runs goes only then. What runs stays if that fails, and the scheduler is told which revision it is.

use persys_model::failure::{Failure, FailureReason};
use persys_model::fetched::Fetched;
use persys_model::id::RevisionId;
use persys_model::inventory::State;
use persys_model::token::Epoch;

use super::rig::{Rig, apply, apply_spec, in_place, plain, remove, seen};
use crate::effects::Verb;
use crate::input::{Existing, Input, Outcome};

fn starts(rig: &mut Rig, epoch: u64, revision: &str, outcome: Outcome) {
    let verb = rig.finish(outcome);
    let Verb::Start { epoch: of, revision: what, .. } = &verb else { panic!("{verb:?}") };
    assert_eq!((*of, what.as_str()), (Epoch(epoch), revision));
}

fn prepares(rig: &mut Rig, outcome: Outcome) {
    let verb = rig.finish(outcome);
    assert!(matches!(verb, Verb::Prepare { .. }), "{verb:?}");
}

/// The revision that runs beside a failure, as the scheduler is told.
fn runs(rig: &Rig) -> Option<RevisionId> {
    rig.agent.held(&super::rig::id("web")).and_then(|held| held.report.runs.clone())
}

fn hopeless() -> Failure {
    Failure::new(FailureReason::ImageNotFound, "no such image")
}

/// The part of the image that is there, as the scheduler is told.
fn fetched(rig: &Rig) -> Option<Fetched> {
    rig.agent.held(&super::rig::id("web")).and_then(|held| held.report.fetched)
}

#[test]
fn progress_of_a_pull_is_told_while_the_verb_is_under_way() {
    let mut rig = Rig::running(5, "a", &plain());
    let some = |bytes| Fetched { parts: 1, of_parts: 2, bytes, of_bytes: 100 };
    rig.step(Input::Progress(super::rig::id("web"), some(1)));
    assert_eq!(fetched(&rig), None, "nothing is under way");
    rig.order(apply(6, "b"));
    for bytes in [20, 60] {
        rig.step(Input::Progress(super::rig::id("web"), some(bytes)));
        assert_eq!(fetched(&rig), Some(some(bytes)));
    }
    prepares(&mut rig, Outcome::Done);
    assert_eq!(fetched(&rig), None, "the verb after it has fetched nothing");
}

#[test]
fn a_new_revision_is_started_over_the_old_one() {
    let mut rig = Rig::running(5, "a", &in_place());
    rig.order(apply_spec(6, "b", in_place()));
    assert_eq!(rig.state(), Some(State::Pending));
    starts(&mut rig, 6, "b", Outcome::Done);
    rig.observe(vec![seen(6, "b", Existing::Running)]);
    assert_eq!(rig.state(), Some(State::Running));
    assert!(rig.verbs.is_empty());
}

#[test]
fn what_rests_or_ended_in_another_revision_is_started_over_too() {
    for state in [Existing::Created, Existing::Exited { code: 1 }] {
        let mut rig = Rig::running(5, "a", &in_place());
        rig.order(apply_spec(6, "b", in_place()));
        rig.finish(Outcome::Unknown);
        rig.observe(vec![seen(5, "a", state)]);
        starts(&mut rig, 6, "b", Outcome::Done);
    }
}

#[test]
fn a_failed_update_leaves_what_runs_and_the_next_good_one_comes_over_it() {
    let mut rig = Rig::running(5, "a", &in_place());
    rig.order(apply_spec(6, "b", in_place()));
    starts(&mut rig, 6, "b", Outcome::Failed(hopeless()));
    assert_eq!(rig.state(), Some(State::Failed(hopeless())));
    for _ in 0..3 {
        rig.observe(vec![seen(5, "a", Existing::Running)]);
        rig.wait(60_000);
        assert!(rig.verbs.is_empty(), "it gave up and stops nothing");
    }
    assert_eq!(rig.state(), Some(State::Failed(hopeless())));
    rig.order(apply_spec(7, "c", in_place()));
    starts(&mut rig, 7, "c", Outcome::Done);
    rig.observe(vec![seen(7, "c", Existing::Running)]);
    assert_eq!(rig.state(), Some(State::Running));
}

#[test]
fn after_a_failed_update_the_old_revision_can_be_asked_for_again() {
    let mut rig = Rig::running(5, "a", &in_place());
    rig.order(apply_spec(6, "b", in_place()));
    starts(&mut rig, 6, "b", Outcome::Failed(hopeless()));
    rig.observe(vec![seen(5, "a", Existing::Running)]);
    rig.order(apply_spec(7, "a", in_place()));
    assert!(rig.verbs.is_empty(), "it runs already");
    assert_eq!(rig.state(), Some(State::Running));
    // And from then on it is kept running.
    rig.observe(vec![seen(5, "a", Existing::Exited { code: 1 })]);
    starts(&mut rig, 7, "a", Outcome::Done);
}

#[test]
fn the_next_decision_tries_again_over_what_runs() {
    let mut rig = Rig::running(5, "a", &in_place());
    let failure = Failure::new(FailureReason::NetworkError, "port taken");
    for epoch in [6, 7] {
        rig.order(apply_spec(epoch, "b", in_place()));
        starts(&mut rig, epoch, "b", Outcome::Failed(failure.clone()));
        rig.observe(vec![seen(5, "a", Existing::Running)]);
        assert_eq!(rig.state(), Some(State::Failed(failure.clone())));
    }
    rig.order(remove(8));
    assert_eq!(rig.finish(Outcome::Done), Verb::remove(true));
}

/// A start of the earlier revision hung, and took effect after the later one was given up.
#[test]
fn what_an_earlier_revision_left_running_goes_though_the_later_one_was_given_up() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.order(apply(6, "b"));
    prepares(&mut rig, Outcome::Done);
    assert_eq!(rig.finish(Outcome::Done), Verb::remove(false));
    rig.observe(Vec::new());
    starts(&mut rig, 6, "b", Outcome::Failed(hopeless()));
    // The first answers what was asked before the start failed.
    for _ in 0..2 {
        rig.observe(vec![seen(5, "a", Existing::Running)]);
    }
    assert_eq!(rig.state(), Some(State::Failed(hopeless())));
    // Nobody else can do it, so it is tried again, later each time.
    let stuck = Failure::new(FailureReason::RuntimeError, "it is busy");
    for _ in 0..8 {
        assert_eq!(rig.finish(Outcome::Failed(stuck.clone())), Verb::remove(false));
        // The first may answer what was asked before the removal failed.
        for _ in 0..2 {
            rig.observe(vec![seen(5, "a", Existing::Running)]);
        }
        assert!(rig.verbs.is_empty(), "not at once");
        rig.wait(300_000);
    }
    assert_eq!(rig.finish(Outcome::Done), Verb::remove(false));
    for _ in 0..2 {
        rig.observe(Vec::new());
    }
    assert!(rig.verbs.is_empty(), "and what was given up is not started");
    assert_eq!(rig.state(), Some(State::Failed(hopeless())), "the reason stays the first one");
}

#[test]
fn a_container_runs_on_when_its_new_image_cannot_be_fetched() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.order(apply(6, "b"));
    assert_eq!(runs(&rig), None, "nothing failed yet");
    prepares(&mut rig, Outcome::Failed(hopeless()));
    assert_eq!(rig.state(), Some(State::Failed(hopeless())));
    assert_eq!(runs(&rig), Some(RevisionId::fixed("a")), "told with the failure itself");
    for _ in 0..3 {
        rig.observe(vec![seen(5, "a", Existing::Running)]);
        rig.wait(60_000);
        assert!(rig.verbs.is_empty(), "what was left alone is not removed");
    }
    // Asked for again, it is what runs already.
    rig.order(apply(7, "a"));
    assert!(rig.verbs.is_empty());
    assert_eq!((rig.state(), runs(&rig)), (Some(State::Running), None));
}

#[test]
fn an_agent_that_starts_anew_remembers_that_it_left_the_old_revision_alone() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.order(apply(6, "b"));
    prepares(&mut rig, Outcome::Failed(hopeless()));
    let mut rig = rig.reborn(vec![seen(5, "a", Existing::Running)]);
    rig.order(apply(6, "b"));
    rig.observe(vec![seen(5, "a", Existing::Running)]);
    assert!(rig.verbs.is_empty(), "what was left alone is not removed");
    assert_eq!(runs(&rig), Some(RevisionId::fixed("a")));
}

#[test]
fn a_failure_in_place_tells_at_once_what_runs_on() {
    let mut rig = Rig::running(5, "a", &in_place());
    rig.order(apply_spec(6, "b", in_place()));
    let there = Box::new(seen(5, "a", Existing::Running));
    starts(&mut rig, 6, "b", Outcome::Kept(hopeless(), there));
    assert_eq!(rig.state(), Some(State::Failed(hopeless())));
    assert_eq!(runs(&rig), Some(RevisionId::fixed("a")));
    rig.observe(vec![seen(5, "a", Existing::Exited { code: 1 })]);
    assert_eq!(runs(&rig), None, "it does not run any more");
}
