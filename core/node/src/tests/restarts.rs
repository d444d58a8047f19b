//! What ends and what is started again.

use persys_model::failure::{Failure, FailureReason, FailureStage};
use persys_model::inventory::State;
use persys_model::spec::Class;
use persys_model::spec::container::RestartPolicy;
use persys_model::token::Epoch;

use super::rig::{Rig, apply, apply_spec, id, in_place, plain, seen, spec};
use crate::effects::Verb;
use crate::input::{Existing, Input, Outcome, Seen, ServiceEnds};
use crate::restart::ended;

fn dies(rig: &mut Rig, code: i32) {
    rig.observe(vec![seen(5, "a", Existing::Exited { code })]);
}

fn lives(rig: &mut Rig) {
    assert!(matches!(rig.finish(Outcome::Done), Verb::Start { .. }));
    rig.observe(vec![seen(5, "a", Existing::Running)]);
}

#[test]
fn the_first_restart_is_at_once_and_the_next_ones_wait() {
    let mut rig = Rig::running(5, "a", &plain());
    dies(&mut rig, 1);
    lives(&mut rig);
    for (restarts, wait) in [(1, 1_000), (2, 2_000), (3, 4_000)] {
        dies(&mut rig, 1);
        assert_eq!(rig.state(), Some(State::Restarting(ended(1))));
        assert_eq!(rig.disk.intents[&id("web")].restarts, restarts);
        rig.wait(wait - 1);
        assert!(rig.verbs.is_empty());
        rig.wait(1);
        assert_eq!(rig.disk.intents[&id("web")].restarts, restarts + 1);
        lives(&mut rig);
    }
    assert_eq!(rig.state(), Some(State::Running));
}

#[test]
fn a_restart_is_counted_on_disk_before_it_happens() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.slow_disk = true;
    dies(&mut rig, 1);
    assert!(rig.verbs.is_empty());
    rig.flush();
    assert_eq!(rig.disk.intents[&id("web")].restarts, 1);
    assert!(matches!(rig.verb().verb, Verb::Start { .. }));
}

#[test]
fn long_health_begins_a_new_row_but_the_count_stays() {
    let mut rig = Rig::running(5, "a", &plain());
    for _ in 0..3 {
        rig.wait(60_000);
        dies(&mut rig, 1);
        lives(&mut rig);
    }
    assert_eq!(rig.disk.intents[&id("web")].restarts, 3);
}

#[test]
fn waiting_for_a_restart_is_not_health() {
    let mut rig = Rig::running(5, "a", &plain());
    for _ in 0..8 {
        dies(&mut rig, 1);
        rig.wait(60_000);
        lives(&mut rig);
    }
    dies(&mut rig, 1);
    rig.wait(59_999);
    assert!(rig.verbs.is_empty());
}

#[test]
fn a_job_that_ends_well_is_complete_and_stays_so_in_the_next_life() {
    for policy in [RestartPolicy::No, RestartPolicy::OnFailure { max_retries: 1 }] {
        let mut rig = Rig::running(5, "a", &spec(policy, Class::Default));
        dies(&mut rig, 0);
        assert_eq!(rig.state(), Some(State::Completed));
        let mut next = rig.reborn(vec![seen(5, "a", Existing::Exited { code: 0 })]);
        next.order(apply(5, "a"));
        assert_eq!(next.state(), Some(State::Completed));
        assert!(next.verbs.is_empty());
    }
}

#[test]
fn a_job_that_ends_badly_has_failed() {
    let mut rig = Rig::running(5, "a", &spec(RestartPolicy::No, Class::Default));
    dies(&mut rig, 3);
    assert_eq!(rig.state(), Some(State::Failed(ended(3))));
}

#[test]
fn every_restart_counts_for_a_job_however_long_it_ran() {
    let policy = RestartPolicy::OnFailure { max_retries: 2 };
    let mut rig = Rig::running(5, "a", &spec(policy, Class::Default));
    for _ in 0..2 {
        rig.wait(3_600_000);
        dies(&mut rig, 1);
        lives(&mut rig);
    }
    rig.wait(3_600_000);
    dies(&mut rig, 1);
    assert_eq!(rig.state(), Some(State::Failed(ended(1))), "three runs");
    assert_eq!(rig.ends, [FailureReason::RuntimeError; 3]);
}

#[test]
fn a_service_with_a_limit_is_given_up_only_by_restarts_in_a_row() {
    let policy = RestartPolicy::AlwaysUpTo { max_retries: 1 };
    let mut rig = Rig::running(5, "a", &spec(policy, Class::Default));
    for _ in 0..3 {
        rig.wait(60_000);
        dies(&mut rig, 1);
        lives(&mut rig);
    }
    dies(&mut rig, 1);
    assert_eq!(rig.state(), Some(State::Failed(ended(1))));
}

#[test]
fn a_limited_policy_gives_up_and_counts_across_lives() {
    let mut rig =
        Rig::running(5, "a", &spec(RestartPolicy::OnFailure { max_retries: 2 }, Class::Default));
    dies(&mut rig, 1);
    lives(&mut rig);
    let mut rig = rig.reborn(vec![seen(5, "a", Existing::Running)]);
    rig.order(apply(5, "a"));
    dies(&mut rig, 1);
    rig.wait(1_000);
    lives(&mut rig);
    assert_eq!(rig.disk.intents[&id("web")].restarts, 2, "the count goes on");
    dies(&mut rig, 1);
    assert_eq!(rig.state(), Some(State::Failed(ended(1))));
}

#[test]
fn what_ended_while_the_agent_was_away_is_judged_by_the_policy_once_confirmed() {
    let rig = Rig::running(5, "a", &spec(RestartPolicy::No, Class::Default));
    let mut rig = rig.reborn(vec![seen(5, "a", Existing::Exited { code: 4 })]);
    assert_eq!(rig.state(), Some(State::Stopped), "nobody has confirmed it");
    rig.order(apply(5, "a"));
    assert_eq!(rig.state(), Some(State::Failed(ended(4))));
}

#[test]
fn an_end_under_a_later_decision_is_judged_though_its_labels_are_of_the_earlier_one() {
    let job = spec(RestartPolicy::No, Class::Default);
    let mut rig = Rig::running(5, "a", &job);
    dies(&mut rig, 3);
    // Somebody retries it by hand: the same container is started again under another decision.
    rig.order(apply_spec(6, "a", job));
    lives(&mut rig);
    let mut rig = rig.reborn(vec![seen(5, "a", Existing::Exited { code: 4 })]);
    rig.order(apply(6, "a"));
    assert_eq!(rig.state(), Some(State::Failed(ended(4))));
    assert!(rig.verbs.is_empty());
}

#[test]
fn what_vanishes_is_made_again() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.observe(Vec::new());
    assert!(matches!(rig.finish(Outcome::Done), Verb::Start { .. }));
    rig.observe(Vec::new());
    assert!(rig.verbs.is_empty(), "the second time it waits");
    rig.wait(1_000);
    assert!(matches!(rig.verb().verb, Verb::Start { .. }));
}

#[test]
fn a_start_of_unknown_outcome_waits_for_a_look() {
    let mut rig = Rig::running(5, "a", &plain());
    dies(&mut rig, 1);
    rig.finish(Outcome::Unknown);
    assert_eq!(rig.state(), Some(State::Unknown));
    assert!(rig.verbs.is_empty());
    rig.observe(vec![seen(5, "a", Existing::Running)]);
    assert_eq!(rig.state(), Some(State::Running));
}

fn left(rig: &mut Rig, code: i32, text: &str) {
    let (workload, epoch) = (id("web"), Epoch(5));
    rig.step(Input::Ended { workload, epoch, code, text: text.into() });
}

#[test]
fn a_machine_that_ends_badly_did_not_come_up() {
    let mut rig = Rig::running(5, "a", &in_place());
    dies(&mut rig, 1);
    lives(&mut rig);
    left(&mut rig, 1, "exited with code 1: the guest crashed");
    dies(&mut rig, 1);
    let told = Failure::new(FailureReason::VmBootFailed, "exited with code 1: the guest crashed");
    assert_eq!(rig.state(), Some(State::Restarting(told.in_stage(FailureStage::Run))));
}

#[test]
fn a_machine_whose_boots_fail_is_given_up_and_the_ends_are_counted() {
    let mut rig = Rig::running(5, "a", &in_place());
    for wait in [0, 1_000] {
        dies(&mut rig, 1);
        rig.wait(wait);
        lives(&mut rig);
    }
    dies(&mut rig, 1);
    let told = ended(1);
    let failure = Failure { reason: FailureReason::VmBootFailed, ..told };
    assert_eq!(rig.state(), Some(State::Failed(failure)));
    assert_eq!(rig.ends, [FailureReason::VmBootFailed; 3]);
    assert_eq!(rig.disk.intents[&id("web")].restarts, 2, "three boots");
}

#[test]
fn a_machine_that_ran_for_long_or_was_ended_from_outside_is_started_again() {
    let mut rig = Rig::running(5, "a", &in_place());
    for _ in 0..6 {
        rig.wait(300_000);
        dies(&mut rig, 1);
        assert_eq!(rig.verbs.len(), 1, "a crash after the boot window");
        lives(&mut rig);
    }
    for wait in [1_000, 2_000, 4_000, 8_000, 16_000] {
        dies(&mut rig, 137);
        rig.wait(wait);
        lives(&mut rig);
    }
    assert_eq!(rig.ends, [FailureReason::RuntimeError; 11]);
    let mut rig = rig.reborn(vec![seen(5, "a", Existing::Running)]);
    rig.order(apply(5, "a"));
    dies(&mut rig, 1);
    assert!(
        matches!(rig.state(), Some(State::Restarting(_))),
        "restarts of an earlier life are no failed boots of this one"
    );
}

#[test]
fn what_was_left_of_an_end_is_told_and_kept() {
    let exited = |code| vec![seen(5, "a", Existing::Exited { code })];
    let failure =
        |text: &str| Failure::new(FailureReason::RuntimeError, text).in_stage(FailureStage::Run);
    let mut rig = Rig::running(5, "a", &spec(RestartPolicy::No, Class::Default));
    assert_eq!(rig.agent.fresh_ends(&exited(3)), [(id("web"), Epoch(5), 3)]);
    left(&mut rig, 3, "exited with code 3\nlast lines:\nno config");
    dies(&mut rig, 3);
    let told = failure("exited with code 3\nlast lines:\nno config");
    assert_eq!(rig.state(), Some(State::Failed(told.clone())));
    assert_eq!(rig.disk.intents[&id("web")].gave_up, Some(told));
    assert!(rig.agent.fresh_ends(&exited(3)).is_empty(), "it is judged already");

    let mut rig = Rig::running(5, "a", &plain());
    dies(&mut rig, 1);
    lives(&mut rig);
    left(&mut rig, 2, "exited with code 2 for a reason");
    dies(&mut rig, 2);
    assert_eq!(rig.state(), Some(State::Restarting(failure("exited with code 2 for a reason"))));
    assert!(rig.agent.fresh_ends(&exited(2)).is_empty(), "it was looked at already");
    rig.wait(1_000);
    lives(&mut rig);
    // What is known of one end says nothing of the next.
    dies(&mut rig, 2);
    assert_eq!(rig.state(), Some(State::Restarting(ended(2))));
}

#[test]
fn nothing_is_looked_up_while_nothing_failed() {
    let rig = Rig::running(5, "a", &plain());
    for state in [Existing::Running, Existing::Created, Existing::Exited { code: 0 }] {
        assert!(rig.agent.fresh_ends(&[seen(5, "a", state)]).is_empty());
    }
    assert!(rig.agent.fresh_ends(&[]).is_empty());
}

#[test]
fn a_job_that_ended_before_its_start_was_answered_is_not_started_again() {
    let job = spec(RestartPolicy::No, Class::Default);
    let mut rig = Rig::alive(crate::ledger::Ledger::default(), Vec::new());
    rig.order(apply_spec(5, "a", job));
    assert!(matches!(rig.finish(Outcome::Unknown), Verb::Start { .. }));
    rig.observe(vec![seen(5, "a", Existing::Exited { code: 0 })]);
    assert_eq!(rig.state(), Some(State::Completed));
    assert!(rig.verbs.is_empty(), "it ran once, and that is all it may");
}

#[test]
fn what_an_unanswered_start_only_made_is_started() {
    let job = spec(RestartPolicy::No, Class::Default);
    let mut rig = Rig::alive(crate::ledger::Ledger::default(), Vec::new());
    rig.order(apply_spec(5, "a", job));
    assert!(matches!(rig.finish(Outcome::Unknown), Verb::Start { .. }));
    rig.observe(vec![seen(5, "a", Existing::Created)]);
    assert!(matches!(rig.finish(Outcome::Done), Verb::Start { .. }));
}

#[test]
fn a_stack_of_which_nothing_is_started_again_is_over_whatever_its_policy() {
    for (code, wanted) in [(0, State::Completed), (3, State::Failed(ended(3)))] {
        let mut rig = Rig::running(5, "a", &plain());
        let services = ServiceEnds { over: true, failed: None };
        rig.observe(vec![Seen { services, ..seen(5, "a", Existing::Exited { code }) }]);
        assert!(rig.verbs.is_empty(), "{:?}", rig.verbs);
        assert_eq!(rig.state(), Some(wanted));
    }
}

#[test]
fn a_service_that_failed_for_good_is_told_while_the_others_run() {
    let mut rig = Rig::running(5, "a", &plain());
    let failed = Some(std::sync::Arc::from("service job exited with code 3"));
    let services = ServiceEnds { over: false, failed };
    rig.observe(vec![Seen { services, ..seen(5, "a", Existing::Running) }]);
    assert_eq!(rig.state(), Some(State::Running));
    assert_eq!(&*rig.trouble().unwrap().message, "service job exited with code 3");
    rig.observe(vec![seen(5, "a", Existing::Running)]);
    assert_eq!(rig.trouble(), None, "a new look says otherwise");
    assert!(rig.verbs.is_empty());
}
