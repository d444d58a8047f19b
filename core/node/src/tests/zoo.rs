//! Each known bug of the agent really changes what it does, so that the simulator tests something.

use persys_model::command::{Answer, Command};
use persys_model::spec::Class;
use persys_model::spec::container::RestartPolicy;
use persys_model::token::{Session, Term};
use persys_model::zoo::{Bug, Zoo};

use super::rig::{Rig, SESSION, TERM, accepted, apply, apply_spec, plain, seen, spec};
use crate::effects::Verb;
use crate::input::{Existing, Input, Observation, Outcome, Seen};
use crate::ledger::Ledger;
use crate::settings::AgentSettings;

fn sick(bug: Bug, disk: Ledger, things: Vec<Seen>) -> Rig {
    let settings = AgentSettings { zoo: Zoo::only(bug), ..AgentSettings::default() };
    let mut rig = Rig::new(disk, settings);
    rig.observe(things);
    rig.step(accepted(TERM, SESSION));
    rig
}

fn disk() -> Ledger {
    Rig::running(5, "a", &plain()).disk
}

#[test]
fn act_before_verdict_starts_what_nobody_confirmed() {
    let mut rig = sick(Bug::ActBeforeVerdict, disk(), Vec::new());
    assert!(matches!(rig.verb().verb, Verb::Start { .. }));
}

#[test]
fn orphan_collected_removes_what_nobody_named() {
    let mut rig = sick(Bug::OrphanCollected, disk(), vec![seen(5, "a", Existing::Running)]);
    rig.wait(4_999);
    assert!(rig.verbs.is_empty());
    rig.wait(1);
    assert_eq!(rig.verb().verb, Verb::remove(false));
}

#[test]
fn outage_is_gone_starts_what_may_still_run() {
    let mut rig = sick(Bug::OutageIsGone, disk(), vec![seen(5, "a", Existing::Running)]);
    rig.order(apply(5, "a"));
    rig.say(Observation::Unknown);
    assert!(matches!(rig.verb().verb, Verb::Start { .. }));
}

#[test]
fn late_look_believed_ends_the_version_that_was_just_started() {
    let old = vec![seen(5, "a", Existing::Running)];
    let mut rig = sick(Bug::LateLookBelieved, disk(), old.clone());
    rig.order(apply(5, "a"));
    rig.wait(30_000);
    let first = rig.asked;
    rig.wait(10_000);
    rig.order(apply(6, "b"));
    // It is prepared, the old one goes, it starts.
    for _ in 0..3 {
        rig.finish(Outcome::Done);
    }
    for _ in 0..2 {
        rig.observe(vec![seen(6, "b", Existing::Running)]);
    }
    rig.step(Input::Observed(first, Observation::Complete(old)));
    assert_eq!(rig.verb().verb, Verb::remove(false));
}

#[test]
fn effect_before_intent_does_not_wait_for_the_disk() {
    let mut rig = sick(Bug::EffectBeforeIntent, Ledger::default(), Vec::new());
    rig.slow_disk = true;
    let request = rig.order(apply(5, "a"));
    assert_eq!(rig.answer(request), Some(&Answer::Accepted));
    assert!(matches!(rig.verb().verb, Verb::Start { .. }));
}

#[test]
fn tokens_that_are_not_looked_at_let_old_orders_through() {
    let mut rig = sick(Bug::NoTermInApply, Ledger::default(), Vec::new());
    let request = rig.order(Command { term: Term(1), ..apply(5, "a") });
    assert_eq!(rig.answer(request), Some(&Answer::Accepted));
    let mut rig = sick(Bug::NoSessionInApply, Ledger::default(), Vec::new());
    let request = rig.order(Command { session: Session(1), ..apply(5, "a") });
    assert_eq!(rig.answer(request), Some(&Answer::Accepted));
}

#[test]
fn without_a_fence_exclusive_work_never_stops() {
    let mut rig = sick(Bug::NoFence, Ledger::default(), Vec::new());
    rig.order(apply_spec(5, "a", spec(RestartPolicy::Always, Class::Exclusive)));
    let Verb::Start { not_after, .. } = rig.finish(Outcome::Done) else { panic!("no start") };
    assert_eq!(not_after, None);
    rig.wait(60_000);
    assert!(rig.verbs.is_empty());
}

#[test]
fn killed_unasked_leaves_no_grace() {
    let mut rig = sick(Bug::KilledUnasked, disk(), vec![seen(5, "a", Existing::Running)]);
    rig.order(apply(6, "b"));
    let prepared = rig.finish(Outcome::Done);
    assert!(matches!(prepared, Verb::Prepare { .. }), "{prepared:?}");
    let ended = Verb::Remove { purge: false, within_ms: Some(0) };
    assert_eq!(rig.verb().verb, ended);
}
