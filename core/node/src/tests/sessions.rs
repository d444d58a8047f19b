//! Lives, sessions, beats and the fence.

use std::sync::Arc;

use persys_model::inventory::State;
use persys_model::link::{BeatAnswer, RegistrationAnswer};
use persys_model::spec::Class;
use persys_model::spec::container::RestartPolicy;
use persys_model::time::Millis;
use persys_model::token::{Session, Term};

use super::rig::{Rig, SESSION, TERM, accepted, apply, apply_spec, heard, id, plain, seen, spec};
use crate::effects::Verb;
use crate::input::{Existing, Input, Observation, Outcome};
use crate::ledger::Ledger;
use crate::settings::AgentSettings;

#[test]
fn a_life_looks_before_it_speaks() {
    let mut rig = Rig::new(Ledger::default(), AgentSettings::default());
    assert!(rig.last.observe.is_some() && rig.registrations == 0);
    rig.observe(vec![seen(5, "a", Existing::Running)]);
    assert_eq!(rig.registrations, 1);
}

#[test]
fn a_blind_life_speaks_after_a_while_and_says_that_it_does_not_know() {
    let rig = Rig::running(5, "a", &plain());
    let mut rig = Rig::begin(rig.disk, AgentSettings::default(), rig.now);
    rig.say(Observation::Unknown);
    rig.wait(2_999);
    assert_eq!(rig.registrations, 0);
    rig.wait(1);
    assert_eq!(rig.registrations, 1);
    assert_eq!(rig.state(), Some(State::Unknown));
}

#[test]
fn registrations_are_repeated_with_growing_waits() {
    let mut rig = Rig::new(Ledger::default(), AgentSettings::default());
    rig.observe(Vec::new());
    for (tries, wait) in [(1, 500), (2, 1_000), (3, 2_000), (4, 4_000), (5, 5_000), (6, 5_000)] {
        assert_eq!(rig.registrations, tries);
        rig.step(Input::Unreachable);
        rig.wait(wait - 1);
        assert_eq!(rig.registrations, tries);
        rig.wait(1);
    }
    let refused =
        RegistrationAnswer::Refused { why: Arc::from("another node"), retry_after_ms: 70 };
    rig.step(Input::Registered(refused));
    rig.wait(70);
    assert_eq!(rig.registrations, 8);
}

#[test]
fn heartbeats_keep_the_interval_of_the_registration() {
    for (beat_ms, beats) in [(1_000, 12), (2_000, 6), (6_000, 2)] {
        let mut rig = Rig::new(Ledger::default(), AgentSettings::default());
        rig.observe(Vec::new());
        let (term, session, lease_ms) = (TERM, SESSION, 18_000);
        let accepted = RegistrationAnswer::Accepted { term, session, beat_ms, lease_ms };
        rig.step(Input::Registered(accepted));
        rig.beats.clear();
        for _ in 0..24 {
            rig.wait(500);
        }
        assert_eq!(rig.beats.len(), beats, "every {beat_ms} ms in 12 s");
    }
}

#[test]
fn a_leader_that_leads_no_more_is_not_believed() {
    let disk = Ledger { term: Term(5), ..Ledger::default() };
    let mut rig = Rig::alive(disk, Vec::new());
    assert_eq!(rig.agent.session(), None);
    rig.wait(500);
    assert_eq!(rig.registrations, 2);
    rig.step(accepted(Term(6), SESSION));
    assert_eq!((rig.agent.session(), rig.disk.term), (Some(SESSION), Term(6)));
}

#[test]
fn whoever_does_not_know_us_is_told_all_again() {
    let mut rig = Rig::running(5, "a", &plain());
    let before = rig.registrations;
    rig.step(Input::Heard(BeatAnswer::RegisterAgain { term: Term(0) }));
    assert_eq!(rig.agent.session(), None, "a wiped store counts its terms anew");
    assert_eq!(rig.registrations, before + 1);
    assert!(rig.verbs.is_empty());
}

#[test]
fn a_new_life_starts_nothing_before_the_verdict() {
    let rig = Rig::running(5, "a", &plain());
    let mut rig = rig.reborn(Vec::new());
    rig.wait(60_000);
    assert!(rig.verbs.is_empty());
    assert_eq!(rig.state(), Some(State::Stopped));
    rig.order(apply(5, "a"));
    assert!(matches!(rig.verb().verb, Verb::Start { .. }));
}

#[test]
fn a_lost_session_puts_everything_in_doubt() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.step(Input::Heard(BeatAnswer::RegisterAgain { term: TERM }));
    assert_eq!((rig.agent.session(), rig.registrations), (None, 2));
    rig.observe(vec![seen(5, "a", Existing::Exited { code: 1 })]);
    rig.step(accepted(TERM, SESSION.next()));
    rig.wait(1_000);
    assert!(rig.verbs.is_empty());
    let late = rig.order(apply(5, "a"));
    assert!(rig.verbs.is_empty(), "an order for the earlier session is refused: {late:?}");
    let command = persys_model::command::Command { session: SESSION.next(), ..apply(5, "a") };
    rig.order(command);
    assert!(matches!(rig.verb().verb, Verb::Start { .. }));
    rig.step(accepted(TERM, SESSION));
    assert_eq!(rig.agent.session(), Some(Session(8)), "an older session never comes back");
}

#[test]
fn news_goes_at_once_but_not_in_a_flurry_and_until_it_is_heard() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.wait(2_000);
    rig.beats.clear();
    rig.wait(60);
    rig.observe(vec![seen(5, "a", Existing::Exited { code: 1 })]);
    let sent = rig.beats.len();
    assert!(sent >= 1);
    rig.step(Input::Tick);
    assert_eq!(rig.beats.len(), sent, "the gap is kept");
    rig.wait(2_000);
    let last = rig.beats.last().unwrap().clone();
    assert_eq!(last.reports.len(), 1, "not heard yet: told again");
    rig.step(Input::Heard(heard(last.seq)));
    rig.wait(2_000);
    assert!(rig.beats.last().unwrap().reports.is_empty());
    rig.step(Input::Heard(heard(last.seq - 1)));
    rig.wait(2_000);
    assert!(rig.beats.last().unwrap().reports.is_empty(), "what is heard stays heard");
    let numbers: Vec<_> = rig.beats.iter().map(|beat| beat.seq).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1));
}

#[test]
fn all_that_is_held_is_sent_when_it_is_asked_for() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.wait(2_000);
    let seq = rig.beats.last().unwrap().seq;
    let want = BeatAnswer::Heard {
        term: TERM,
        session: SESSION,
        seq,
        renewed: true,
        hold: false,
        drain: false,
        want_inventory: true,
        beat_ms: 0,
        removals: Vec::new(),
        mark: None,
    };
    rig.step(Input::Heard(want));
    rig.wait(50);
    let beat = rig.beats.last().unwrap().clone();
    assert_eq!(beat.inventory.map(|inventory| inventory.held.len()), Some(1));
    rig.step(Input::Heard(heard(beat.seq)));
    rig.wait(2_000);
    assert_eq!(rig.beats.last().unwrap().inventory, None);
}

fn exclusive() -> Arc<persys_model::spec::Spec> {
    spec(RestartPolicy::No, Class::Exclusive)
}

#[test]
fn exclusive_work_starts_within_its_lease_only() {
    // Registered at 1 000: the lease ends at 13 000, and nothing starts after 11 000.
    let mut rig = Rig::alive(Ledger::default(), Vec::new());
    assert_eq!(rig.agent.fence_at(), Some(Millis(13_000)));
    rig.order(apply_spec(5, "a", exclusive()));
    let Verb::Start { not_after, .. } = rig.verb().verb else { panic!("no start") };
    assert_eq!(not_after, Some(Millis(11_000)));

    let mut late = Rig::alive(Ledger::default(), Vec::new());
    late.wait(10_000);
    late.order(apply_spec(5, "a", exclusive()));
    assert!(late.verbs.is_empty(), "too little of the lease is left");
    let seq = late.beats.last().unwrap().seq;
    late.step(Input::Heard(heard(seq)));
    assert_eq!(late.last.fence_at, Some(Millis(23_000)), "counted from the sending of the beat");
    assert!(matches!(late.verb().verb, Verb::Start { .. }));
}

#[test]
fn past_its_lease_exclusive_work_is_stopped_and_comes_back_with_the_lease() {
    let mut rig = Rig::running(5, "a", &exclusive());
    rig.wait(11_999);
    assert!(rig.verbs.is_empty());
    assert_eq!(rig.last.wake_at, Some(Millis(13_000)));
    rig.wait(1);
    assert_eq!(rig.finish(Outcome::Done), Verb::Stop { within_ms: Some(10_000) });
    rig.observe(vec![seen(5, "a", Existing::Exited { code: 137 })]);
    rig.wait(5_000);
    assert!(rig.verbs.is_empty());
    assert_eq!(rig.disk.intents[&id("web")].gave_up, None, "the fence is not its failure");
    let seq = rig.beats.last().unwrap().seq;
    rig.step(Input::Heard(heard(seq)));
    assert!(matches!(rig.finish(Outcome::Done), Verb::Start { .. }));
    assert_eq!(rig.disk.intents[&id("web")].restarts, 0);
}

#[test]
fn work_stopped_by_the_watchdog_has_not_failed() {
    let mut rig = Rig::running(5, "a", &exclusive());
    rig.now += 12_000;
    rig.observe(vec![seen(5, "a", Existing::Exited { code: 137 })]);
    let seq = rig.beats.last().unwrap().seq;
    rig.step(Input::Heard(heard(seq)));
    assert!(matches!(rig.verb().verb, Verb::Start { .. }));
}

#[test]
fn an_answer_without_renewal_renews_nothing() {
    let mut rig = Rig::running(5, "a", &exclusive());
    rig.wait(5_000);
    let seq = rig.beats.last().unwrap().seq;
    let unsure = BeatAnswer::Heard {
        term: TERM,
        session: SESSION,
        seq,
        renewed: false,
        hold: true,
        drain: false,
        want_inventory: false,
        beat_ms: 0,
        removals: Vec::new(),
        mark: None,
    };
    rig.step(Input::Heard(unsure));
    assert_eq!(rig.agent.fence_at(), Some(Millis(13_000)));
    rig.wait(7_000);
    assert_eq!(
        rig.verb().verb,
        Verb::Stop { within_ms: Some(10_000) },
        "holding does not hold back the fence"
    );
}

#[test]
fn a_registration_renews_from_the_oldest_question_it_may_answer() {
    let mut rig = Rig::new(Ledger::default(), AgentSettings::default());
    rig.observe(Vec::new());
    rig.step(Input::Unreachable);
    rig.wait(500);
    assert_eq!(rig.registrations, 2);
    rig.wait(1_000);
    rig.step(accepted(TERM, SESSION));
    assert_eq!(rig.agent.fence_at(), Some(Millis(13_000)));
}

#[test]
fn a_start_that_came_too_late_for_its_lease_is_tried_again_with_the_next() {
    let mut rig = Rig::alive(Ledger::default(), Vec::new());
    rig.order(apply_spec(5, "a", exclusive()));
    rig.wait(10_500);
    let late = persys_model::failure::Failure::new(
        persys_model::failure::FailureReason::RuntimeError,
        "too late",
    );
    rig.finish(Outcome::Failed(late));
    assert_eq!(rig.disk.intents[&id("web")].gave_up, None);
    rig.observe(Vec::new());
    let seq = rig.beats.last().unwrap().seq;
    rig.step(Input::Heard(heard(seq)));
    assert!(matches!(rig.verb().verb, Verb::Start { .. }));
}

#[test]
fn a_large_fleet_is_told_to_beat_less_often_but_not_where_exclusive_work_is() {
    for (spec, beats) in [(plain(), 2), (exclusive(), 10)] {
        let mut rig = Rig::running(5, "a", &spec);
        rig.wait(2_000);
        let seq = rig.beats.last().unwrap().seq;
        let slower = BeatAnswer::Heard {
            term: TERM,
            session: SESSION,
            seq,
            renewed: true,
            hold: false,
            drain: false,
            want_inventory: false,
            beat_ms: 10_000,
            removals: Vec::new(),
            mark: None,
        };
        rig.step(Input::Heard(slower));
        rig.beats.clear();
        for _ in 0..20 {
            rig.wait(1_000);
        }
        assert_eq!(rig.beats.len(), beats, "{spec:?}");
    }
}

/// Looks that an agent asks for by itself within ten minutes in which nothing happens.
fn quiet_looks(settings: AgentSettings) -> u32 {
    let mut rig = Rig::new(Ledger::default(), settings);
    rig.observe(Vec::new());
    rig.step(accepted(TERM, SESSION));
    let mut looks = 0;
    for _ in 0..600 {
        rig.wait(1_000);
        if rig.last.observe.is_some() {
            looks += 1;
            rig.observe(Vec::new());
        }
    }
    looks
}

#[test]
fn the_runtime_is_asked_periodically_unless_that_is_off() {
    assert_eq!(quiet_looks(AgentSettings::default()), 20);
    let off = AgentSettings { observe_periodically: false, ..AgentSettings::default() };
    assert_eq!(quiet_looks(off.clone()), 0);
    // A hint, and a runtime that does not answer, are looked into all the same.
    let mut rig = Rig::new(Ledger::default(), off);
    rig.observe(Vec::new());
    rig.step(Input::Stirred(None));
    assert!(rig.last.observe.is_some());
    rig.say(Observation::Unknown);
    rig.wait(1_000);
    assert!(rig.last.observe.is_some());
}
