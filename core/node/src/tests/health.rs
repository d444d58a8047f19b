//! Health checks: those a runtime runs, and those the agent runs.

use std::sync::Arc;

use persys_model::health::{Health, HealthState};
use persys_model::spec::Spec;
use persys_model::spec::health::{Check, HealthChecks, Probe, Ready};

use super::rig::{Rig, apply_spec, plain, rest, seen};
use crate::effects::{Probing, Verb};
use crate::input::{Existing, ImageHealth, Input, Outcome, ProbeOutcome, Seen};
use crate::ledger::Ledger;

fn checked(retries: u32) -> Arc<Spec> {
    let check = Check {
        probe: Probe::Tcp { port: 80 },
        interval_ms: 5_000,
        timeout_ms: 2_000,
        start_period_ms: 20_000,
        retries,
    };
    let health = HealthChecks { ready: Some(Ready::Check(Arc::new(check))) };
    Arc::new(Spec { health, ..(*plain()).clone() })
}

fn told(rig: &Rig) -> Option<Health> {
    rig.agent.inventory().held.into_iter().find_map(|held| held.report.health)
}

fn state(rig: &Rig) -> Option<HealthState> {
    told(rig).map(|health| health.state)
}

/// The probe that the last step asked for.
fn probing(rig: &mut Rig) -> Option<Probing> {
    rig.last.probes.pop()
}

/// Waits for the next probe and answers it so; gives the time it came after.
fn answer(rig: &mut Rig, outcome: ProbeOutcome) -> u64 {
    let began = rig.now;
    for _ in 0..200 {
        if let Some(Probing { id, workload, .. }) = probing(rig) {
            let waited = rig.now - began;
            rig.step(Input::Probed { probe: id, workload, outcome });
            return waited;
        }
        rig.wait(250);
    }
    panic!("no probe in 50 s");
}

fn no(why: &str) -> ProbeOutcome {
    ProbeOutcome::Failed(Arc::from(why))
}

/// A workload with a check, just started.
fn started(retries: u32) -> Rig {
    let mut rig = Rig::alive(Ledger::default(), Vec::new());
    rig.order(apply_spec(5, "a", checked(retries)));
    assert!(matches!(rig.finish(Outcome::Started(None)), Verb::Start { .. }));
    rig
}

#[test]
fn a_check_is_run_at_once_and_its_first_success_makes_it_healthy() {
    let mut rig = started(3);
    assert_eq!(state(&rig), Some(HealthState::Starting), "with the first word that it runs");
    assert_eq!(answer(&mut rig, no("refused")), 0);
    assert_eq!(state(&rig), Some(HealthState::Starting));
    let again = answer(&mut rig, ProbeOutcome::Passed);
    assert!(again <= 1_250, "it is asked each second while it starts: {again}");
    assert_eq!(told(&rig), Some(Health::healthy()));
    let next = answer(&mut rig, ProbeOutcome::Passed);
    assert!((5_000..=5_500).contains(&next), "and each interval from then on: {next}");
}

#[test]
fn failures_count_after_the_start_period_and_in_a_row() {
    let mut rig = started(3);
    let began = rig.now;
    while rig.now < began + 20_000 {
        answer(&mut rig, no("refused"));
        assert_eq!(state(&rig), Some(HealthState::Starting));
    }
    answer(&mut rig, no("refused"));
    answer(&mut rig, ProbeOutcome::Unknown);
    assert_eq!(state(&rig), Some(HealthState::Starting), "who gives no answer counts not");
    answer(&mut rig, no("status 503"));
    assert_eq!(told(&rig), Some(Health::unhealthy("status 503")));
    answer(&mut rig, no("status 504"));
    assert_eq!(told(&rig), Some(Health::unhealthy("status 503")), "a verdict is told once");
    answer(&mut rig, ProbeOutcome::Passed);
    assert_eq!(told(&rig), Some(Health::healthy()));
    for why in ["a", "b"] {
        answer(&mut rig, no(why));
        assert_eq!(told(&rig), Some(Health::healthy()), "two of three");
    }
    answer(&mut rig, ProbeOutcome::Passed);
    for why in ["a", "b"] {
        answer(&mut rig, no(why));
        assert_eq!(told(&rig), Some(Health::healthy()), "they count in a row");
    }
    answer(&mut rig, no("c"));
    assert_eq!(told(&rig), Some(Health::unhealthy("c")));
    assert!(rig.verbs.is_empty(), "nothing is restarted for it");
}

#[test]
fn a_success_ends_the_start_period() {
    let mut rig = started(1);
    answer(&mut rig, ProbeOutcome::Passed);
    answer(&mut rig, no("refused"));
    assert_eq!(state(&rig), Some(HealthState::Unhealthy));
}

#[test]
fn what_ran_before_this_life_has_no_start_period() {
    let mut rig = started(2);
    answer(&mut rig, ProbeOutcome::Passed);
    rig.observe(vec![seen(5, "a", Existing::Running)]);
    let mut rig = rig.reborn(vec![seen(5, "a", Existing::Running)]);
    rig.order(apply_spec(5, "a", checked(2)));
    assert_eq!(state(&rig), Some(HealthState::Starting));
    answer(&mut rig, no("refused"));
    answer(&mut rig, no("refused"));
    assert_eq!(state(&rig), Some(HealthState::Unhealthy));
}

#[test]
fn a_restart_begins_anew_and_an_old_answer_means_nothing() {
    let mut rig = started(1);
    answer(&mut rig, ProbeOutcome::Passed);
    rig.wait(6_000);
    let old = probing(&mut rig).unwrap();
    rig.observe(vec![seen(5, "a", Existing::Running)]);
    rig.observe(vec![seen(5, "a", Existing::Exited { code: 1 })]);
    assert_eq!(told(&rig), None, "what does not run has no health");
    rig.finish(Outcome::Started(None));
    assert_eq!(state(&rig), Some(HealthState::Starting));
    rig.step(Input::Probed { probe: old.id, workload: old.workload, outcome: no("late") });
    assert_eq!(state(&rig), Some(HealthState::Starting));
}

#[test]
fn a_probe_that_never_ends_is_a_failure() {
    let mut rig = started(1);
    answer(&mut rig, ProbeOutcome::Passed);
    rig.wait(6_000);
    assert!(probing(&mut rig).is_some());
    rig.wait(11_999);
    assert_eq!(state(&rig), Some(HealthState::Healthy));
    rig.wait(1);
    assert_eq!(told(&rig), Some(Health::unhealthy("the check did not come to an end")));
}

#[test]
fn nothing_is_asked_of_what_rests() {
    let mut rig = started(1);
    answer(&mut rig, ProbeOutcome::Passed);
    rig.order(rest(6, "a"));
    rig.finish(Outcome::Done);
    assert_eq!(told(&rig), None);
    for _ in 0..100 {
        rig.wait(250);
        assert_eq!(probing(&mut rig), None);
    }
}

fn with_verdict(state: HealthState, detail: &str) -> Vec<Seen> {
    let health = Some(ImageHealth::of_one(state, detail));
    vec![Seen { health, ..seen(5, "a", Existing::Running) }]
}

#[test]
fn the_verdict_of_an_image_is_told_from_the_start_on_and_when_it_changes() {
    let mut rig = Rig::alive(Ledger::default(), Vec::new());
    rig.order(apply_spec(5, "a", plain()));
    let first = ImageHealth::of_one(HealthState::Starting, "");
    rig.finish(Outcome::Started(Some(first)));
    assert_eq!(state(&rig), Some(HealthState::Starting));
    rig.observe(with_verdict(HealthState::Starting, ""));
    rig.observe(with_verdict(HealthState::Healthy, ""));
    assert_eq!(told(&rig), Some(Health::healthy()));
    rig.observe(with_verdict(HealthState::Unhealthy, "exit code 1 at 10:00"));
    assert_eq!(told(&rig), Some(Health::unhealthy("exit code 1 at 10:00")));
    rig.observe(with_verdict(HealthState::Unhealthy, "exit code 1 at 10:01"));
    assert_eq!(told(&rig), Some(Health::unhealthy("exit code 1 at 10:00")), "told once");
    rig.observe(vec![seen(5, "a", Existing::Running)]);
    assert_eq!(told(&rig), None, "it has no check any more");
}

#[test]
fn another_service_of_a_stack_is_another_verdict() {
    let of = |blamed: &str| {
        let mut list = with_verdict(HealthState::Unhealthy, "exit code 1");
        list[0].health.as_mut().unwrap().blamed = Arc::from(blamed);
        list
    };
    let mut rig = Rig::running(5, "a", &plain());
    rig.observe(of("db"));
    rig.observe(of("db"));
    assert_eq!(told(&rig), Some(Health::unhealthy("service db: exit code 1")));
    rig.observe(of("db, web"));
    assert_eq!(told(&rig), Some(Health::unhealthy("service db, web: exit code 1")));
}

#[test]
fn a_check_of_the_spec_takes_the_place_of_the_image_s() {
    let mut rig = started(1);
    rig.observe(with_verdict(HealthState::Unhealthy, "of the image"));
    rig.observe(with_verdict(HealthState::Unhealthy, "of the image"));
    assert_eq!(state(&rig), Some(HealthState::Starting));
    let health = HealthChecks { ready: Some(Ready::Disabled) };
    let mut rig = Rig::running(5, "a", &Arc::new(Spec { health, ..(*plain()).clone() }));
    rig.observe(with_verdict(HealthState::Unhealthy, "of the image"));
    assert_eq!(told(&rig), None, "no check at all was asked for");
}
