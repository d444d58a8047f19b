//! Commands: tokens, idempotence, removal, adoption.

use persys_model::command::{Answer, Order, Refusal};
use persys_model::failure::{Failure, FailureReason};
use persys_model::inventory::State;
use persys_model::resources::Compute;
use persys_model::token::{Epoch, Session, Term};

use super::rig::{
    Rig, SESSION, TERM, accepted, apply, apply_spec, command, heard, id, plain, remove, rest, seen,
};
use crate::effects::Verb;
use crate::input::{Existing, Input, Observation, Outcome, Used};
use crate::ledger::{Goal, Ledger};
use crate::settings::AgentSettings;

#[test]
fn an_order_is_written_then_answered_then_carried_out() {
    let mut rig = Rig::alive(Ledger::default(), Vec::new());
    rig.slow_disk = true;
    let request = rig.order(apply(5, "a"));
    assert!(rig.verbs.is_empty() && rig.answer(request).is_none());
    assert!(rig.agent.inventory().held.is_empty(), "nothing is claimed that is not on disk");
    rig.flush();
    assert_eq!(rig.answer(request), Some(&Answer::Accepted));
    assert!(matches!(rig.verb().verb, Verb::Start { epoch: Epoch(5), not_after: None, .. }));
    assert_eq!(rig.state(), Some(State::Pending));
}

#[test]
fn the_same_order_many_times_is_once() {
    let mut rig = Rig::running(5, "a", &plain());
    for _ in 0..5 {
        let request = rig.order(apply(5, "a"));
        assert_eq!(rig.answer(request), Some(&Answer::Accepted));
        assert!(rig.verbs.is_empty() && rig.last.ledger.is_empty());
    }
    assert_eq!(rig.state(), Some(State::Running));
}

#[test]
fn each_stale_token_is_refused_by_name() {
    let mut rig = Rig::running(5, "a", &plain());
    let mut refusal = |command| {
        let request = rig.order(command);
        match rig.answer(request) {
            Some(Answer::Refused(refusal)) => *refusal,
            other => panic!("{other:?}"),
        }
    };
    let old_term = persys_model::command::Command { term: Term(2), ..apply(6, "b") };
    assert_eq!(refusal(old_term), Refusal::OldTerm { seen: TERM });
    let other_life = persys_model::command::Command { session: Session(6), ..remove(6) };
    assert_eq!(refusal(other_life), Refusal::OtherSession { present: Some(SESSION) });
    assert_eq!(refusal(apply(4, "b")), Refusal::OldEpoch { held: Epoch(5) });
    assert_eq!(refusal(remove(4)), Refusal::OldEpoch { held: Epoch(5) });
    assert!(rig.verbs.is_empty());
}

#[test]
fn a_higher_term_is_written_down() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.order(persys_model::command::Command { term: Term(9), ..apply(5, "a") });
    assert_eq!((rig.agent.term(), rig.disk.term), (Term(9), Term(9)));
}

#[test]
fn a_removal_is_answered_by_its_tombstone_and_cannot_be_undone_by_a_late_order() {
    let mut rig = Rig::running(5, "a", &plain());
    let request = rig.order(remove(6));
    assert_eq!(rig.answer(request), None);
    assert_eq!(rig.finish(Outcome::Done), Verb::remove(true));
    assert_eq!(rig.answer(request), Some(&Answer::Removed { epoch: Epoch(6) }));
    assert!(rig.disk.intents.is_empty());
    let late = rig.order(apply(5, "a"));
    let buried = Answer::Refused(Refusal::Buried { tombstone: Epoch(6) });
    assert_eq!(rig.answer(late), Some(&buried));
    let again = rig.order(remove(6));
    assert_eq!(rig.answer(again), Some(&Answer::Removed { epoch: Epoch(6) }));
    let anew = rig.order(apply(7, "a"));
    assert_eq!(rig.answer(anew), Some(&Answer::Accepted));
    assert!(matches!(rig.verb().verb, Verb::Start { epoch: Epoch(7), .. }));
}

#[test]
fn a_tombstone_is_told_until_it_is_heard() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.order(remove(6));
    rig.finish(Outcome::Done);
    rig.beats.clear();
    rig.wait(60);
    rig.wait(2_000);
    assert_eq!(rig.beats.len(), 2);
    assert!(rig.beats.iter().all(|beat| beat.removed.len() == 1));
    let first = rig.beats[0].seq;
    rig.step(Input::Heard(heard(first - 1)));
    rig.wait(2_000);
    assert_eq!(rig.beats[2].removed.len(), 1, "an answer to an earlier beat says nothing");
    rig.step(Input::Heard(heard(first)));
    rig.wait(2_000);
    assert!(rig.beats[3].removed.is_empty());
    assert_eq!(rig.agent.inventory().tombstones.len(), 1, "and is remembered");
}

#[test]
fn removing_what_nobody_knows_asks_the_runtime_first() {
    let mut rig = Rig::alive(Ledger::default(), Vec::new());
    let request = rig.order(remove(6));
    assert_eq!(rig.answer(request), None);
    assert_eq!(rig.finish(Outcome::Unknown), Verb::remove(true));
    assert!(rig.verbs.is_empty(), "unknown is not gone");
    rig.observe(Vec::new());
    rig.finish(Outcome::Done);
    assert_eq!(rig.answer(request), Some(&Answer::Removed { epoch: Epoch(6) }));
}

#[test]
fn a_failing_removal_is_tried_again_with_growing_waits() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.order(remove(6));
    for wait in [1_000, 2_000, 4_000] {
        rig.finish(Outcome::Failed(Failure::new(FailureReason::StorageError, "busy")));
        rig.observe(vec![seen(5, "a", Existing::Running)]);
        rig.wait(wait - 1);
        assert!(rig.verbs.is_empty());
        rig.wait(1);
    }
    assert_eq!(rig.verb().verb, Verb::remove(true));
}

#[test]
fn why_a_removal_or_a_stop_is_tried_again_is_told_until_it_went_well() {
    let busy = Failure::new(FailureReason::StorageError, "busy");
    for (order, end) in [(remove(6), None), (rest(6, "a"), Some(Existing::Exited { code: 0 }))] {
        let mut rig = Rig::running(5, "a", &plain());
        assert_eq!(rig.trouble(), None);
        rig.order(order);
        for _ in 0..3 {
            rig.finish(Outcome::Failed(busy.clone()));
            // The first may answer what was asked before the removal failed.
            for _ in 0..2 {
                rig.observe(vec![seen(5, "a", Existing::Running)]);
            }
            assert_eq!(rig.state(), Some(State::Running), "it runs on");
            assert_eq!(rig.trouble(), Some(busy.clone()));
            rig.wait(600_000);
            assert_eq!(rig.trouble(), Some(busy.clone()), "also while it is tried");
        }
        rig.finish(Outcome::Done);
        rig.observe(end.map(|end| seen(5, "a", end)).into_iter().collect());
        assert_eq!(rig.trouble(), None);
    }
}

#[test]
fn what_went_well_after_all_and_what_is_wanted_otherwise_is_no_trouble() {
    let busy = Failure::new(FailureReason::StorageError, "busy");
    let mut rig = Rig::running(5, "a", &plain());
    rig.order(rest(6, "a"));
    rig.finish(Outcome::Failed(busy.clone()));
    assert_eq!(rig.trouble(), Some(busy.clone()));
    // It stopped by itself before it was tried again.
    rig.observe(vec![seen(5, "a", Existing::Exited { code: 0 })]);
    rig.wait(600_000);
    rig.observe(vec![seen(5, "a", Existing::Exited { code: 0 })]);
    assert_eq!((rig.state(), rig.trouble()), (Some(State::Stopped), None));

    let mut rig = Rig::running(5, "a", &plain());
    rig.order(rest(6, "a"));
    rig.finish(Outcome::Failed(busy));
    rig.order(apply(7, "a"));
    assert_eq!(rig.trouble(), None);
}

#[test]
fn a_newer_order_overtakes_a_removal_under_way() {
    let mut rig = Rig::running(5, "a", &plain());
    let removal = rig.order(remove(6));
    rig.order(apply(7, "a"));
    let overtaken = Answer::Refused(Refusal::OldEpoch { held: Epoch(7) });
    assert_eq!(rig.answer(removal), Some(&overtaken));
    assert!(matches!(rig.finish(Outcome::Done), Verb::Remove { .. }));
    assert!(rig.disk.tombstones.is_empty());
    assert!(matches!(rig.verb().verb, Verb::Start { epoch: Epoch(7), .. }));
}

#[test]
fn another_revision_is_made_room_for_and_data_is_kept() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.order(apply(6, "b"));
    assert!(matches!(rig.finish(Outcome::Done), Verb::Prepare { .. }));
    assert_eq!(rig.finish(Outcome::Done), Verb::remove(false));
    assert!(matches!(rig.finish(Outcome::Done), Verb::Start { epoch: Epoch(6), .. }));
    assert_eq!(rig.state(), Some(State::Running));
    assert_eq!(rig.agent.intents()[&id("web")].restarts, 0);
}

#[test]
fn rest_and_run_again_is_no_restart() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.order(rest(6, "a"));
    assert_eq!(rig.finish(Outcome::Done), Verb::STOP);
    assert_eq!(rig.state(), Some(State::Stopped));
    rig.observe(vec![seen(5, "a", Existing::Exited { code: 143 })]);
    rig.order(apply(7, "a"));
    assert!(matches!(rig.finish(Outcome::Done), Verb::Start { .. }));
    assert_eq!(rig.agent.intents()[&id("web")].restarts, 0);
}

#[test]
fn what_is_found_is_adopted_and_left_alone_until_somebody_says_what_it_is() {
    let mut rig = Rig::alive(Ledger::default(), vec![seen(5, "a", Existing::Running)]);
    let held = rig.agent.inventory().held;
    assert_eq!((held.len(), held[0].spec.clone(), held[0].run), (1, None, true));
    assert_eq!(rig.disk.intents[&id("web")].epoch, Epoch(5));
    rig.wait(60_000);
    rig.observe(vec![seen(5, "a", Existing::Exited { code: 1 })]);
    rig.wait(60_000);
    assert!(rig.verbs.is_empty());
    assert_eq!((rig.agent.collected().cleared, rig.agent.collected().found), (0, 1));
    rig.order(apply(5, "a"));
    assert!(rig.disk.intents[&id("web")].spec.is_some());
    assert!(matches!(rig.verb().verb, Verb::Start { .. }));
}

#[test]
fn what_is_found_goes_on_a_fresh_order() {
    let mut rig = Rig::alive(Ledger::default(), vec![seen(5, "a", Existing::Running)]);
    let request = rig.order(remove(9));
    rig.finish(Outcome::Done);
    assert_eq!(rig.answer(request), Some(&Answer::Removed { epoch: Epoch(9) }));
}

#[test]
fn a_thing_found_late_makes_the_agent_tell_all() {
    let mut rig = Rig::alive(Ledger::default(), Vec::new());
    rig.wait(100);
    rig.observe(vec![seen(5, "a", Existing::Running)]);
    rig.wait(100);
    let inventory = rig.beats.last().unwrap().inventory.clone();
    assert_eq!(inventory.map(|inventory| inventory.held.len()), Some(1));
}

#[test]
fn leftovers_of_an_ordered_removal_are_cleared() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.order(remove(6));
    rig.finish(Outcome::Done);
    rig.observe(Vec::new());
    rig.observe(vec![seen(5, "a", Existing::Exited { code: 0 })]);
    assert_eq!(rig.finish(Outcome::Done), Verb::remove(false));
    assert_eq!((rig.agent.collected().cleared, rig.agent.collected().found), (1, 0));
    assert!(rig.agent.intents().is_empty());
}

#[test]
fn holding_takes_nothing_new_stops_nothing_and_confirms() {
    let mut rig = Rig::running(5, "a", &plain());
    let hold = persys_model::link::BeatAnswer::Heard {
        term: TERM,
        session: SESSION,
        seq: 1,
        renewed: false,
        hold: true,
        drain: false,
        want_inventory: false,
        beat_ms: 0,
        removals: Vec::new(),
        mark: None,
    };
    rig.step(Input::Heard(hold));
    assert!(rig.agent.holding());
    for command in [apply(6, "b"), remove(6), rest(6, "a")] {
        let request = rig.order(command);
        assert_eq!(rig.answer(request), Some(&Answer::Refused(Refusal::Holding)));
    }
    let request = rig.order(apply(5, "a"));
    assert_eq!(rig.answer(request), Some(&Answer::Accepted));
    assert!(rig.verbs.is_empty());
    rig.observe(vec![seen(5, "a", Existing::Exited { code: 1 })]);
    assert!(matches!(rig.verb().verb, Verb::Start { .. }), "confirmed work is still restarted");
}

#[test]
fn a_disk_that_refuses_makes_the_agent_hold_until_everything_is_written() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.slow_disk = true;
    let waits = rig.order(apply(6, "a"));
    rig.disk_fails();
    let refused = rig.order(apply(7, "a"));
    assert_eq!(rig.answer(refused), Some(&Answer::Refused(Refusal::Holding)));
    assert_eq!(rig.answer(waits), None);
    rig.wait(1_000);
    rig.flush();
    assert_eq!(rig.answer(waits), Some(&Answer::Accepted));
    assert!(!rig.agent.holding());
    assert_eq!(rig.disk.intents[&id("web")].epoch, Epoch(6));
}

#[test]
fn a_busy_machine_takes_nothing_new_until_it_is_well_below_the_limit() {
    let mut rig = Rig::alive(Ledger::default(), Vec::new());
    let mut tried = |used, epoch| {
        rig.step(Input::Usage(Used {
            compute: Compute::new(used, 0),
            disk_permille: 0,
            ..Used::default()
        }));
        rig.order(apply(epoch, "a"));
        let state = rig.state();
        rig.verbs.clear();
        state
    };
    assert!(
        matches!(tried(800, 5), Some(State::Failed(f)) if f.reason.code() == "INSUFFICIENT_RESOURCES")
    );
    assert!(matches!(tried(760, 6), Some(State::Failed(_))));
    assert_eq!(tried(749, 7), Some(State::Pending));
}

#[test]
fn a_busy_machine_says_so_and_leaves_what_runs_alone() {
    let mut rig = Rig::running(5, "a", &plain());
    let used = |disk_permille| {
        Input::Usage(Used { compute: Compute::ZERO, disk_permille, ..Used::default() })
    };
    rig.step(used(950));
    assert!(rig.agent.too_busy().is_some_and(|why| why.contains("95 % of its disk")));
    rig.observe(vec![seen(5, "a", Existing::Running)]);
    rig.wait(60_000);
    assert!(rig.verbs.is_empty(), "what runs goes on: {:?}", rig.verbs);
    // A new version of what runs already is in what was measured.
    rig.order(apply(6, "b"));
    assert!(!matches!(rig.state(), Some(State::Failed(_))), "{:?}", rig.state());
    rig.step(used(849));
    assert_eq!(rig.agent.too_busy(), None);
}

#[test]
fn a_failed_start_is_the_decisions_failure_and_the_next_decision_starts_anew() {
    let mut rig = Rig::alive(Ledger::default(), Vec::new());
    rig.order(apply(5, "a"));
    let failure = Failure::new(FailureReason::ImagePullFailed, "no route to registry");
    rig.finish(Outcome::Failed(failure.clone()));
    assert_eq!(rig.state(), Some(State::Failed(failure.clone())));
    assert_eq!(rig.disk.intents[&id("web")].gave_up, Some(failure));
    rig.observe(Vec::new());
    rig.wait(600_000);
    assert!(rig.verbs.is_empty(), "no hidden retries");
    rig.order(apply(6, "a"));
    assert!(matches!(rig.verb().verb, Verb::Start { epoch: Epoch(6), .. }));
}

#[test]
fn a_failure_of_an_overtaken_start_is_nobodys() {
    let mut rig = Rig::alive(Ledger::default(), Vec::new());
    rig.order(apply(5, "a"));
    rig.order(apply(6, "b"));
    rig.finish(Outcome::Failed(Failure::new(FailureReason::ImageNotFound, "a")));
    assert_eq!(rig.disk.intents[&id("web")].gave_up, None);
    rig.observe(Vec::new());
    assert!(matches!(rig.verb().verb, Verb::Start { epoch: Epoch(6), .. }));
}

#[test]
fn old_tombstones_are_forgotten_once_heard_and_the_oldest_first_when_there_are_too_many() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.order(remove(6));
    rig.finish(Outcome::Done);
    rig.observe(Vec::new());
    rig.wait(7 * 24 * 3_600_000);
    rig.observe(Vec::new());
    assert_eq!(rig.disk.tombstones.len(), 1, "nobody has heard of it yet");
    let seq = rig.beats.last().unwrap().seq;
    rig.step(Input::Heard(heard(seq)));
    rig.observe(Vec::new());
    assert!(rig.disk.tombstones.is_empty());

    let mut disk = Ledger::default();
    for (name, epoch) in [("x", 3), ("y", 1), ("z", 2)] {
        let (epoch, at) = (Epoch(epoch), persys_model::time::WallMillis(0));
        disk.tombstones.insert(id(name), crate::ledger::Buried { epoch, at, purged: true });
    }
    let settings = AgentSettings { tombstone_limit: 1, ..AgentSettings::default() };
    let mut rig = Rig::new(disk, settings);
    rig.observe(Vec::new());
    assert_eq!(rig.disk.tombstones.keys().collect::<Vec<_>>(), [&id("x")]);
}

#[test]
fn a_runtime_that_does_not_answer_is_unknown_and_nothing_is_done() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.say(Observation::Unknown);
    assert_eq!(rig.state(), Some(State::Unknown));
    rig.order(apply(6, "b"));
    rig.wait(100);
    assert!(rig.verbs.is_empty());
    rig.wait(1_000);
    assert!(rig.last.observe.is_some(), "it is asked again soon");
    rig.observe(vec![seen(5, "a", Existing::Running)]);
    assert!(matches!(rig.finish(Outcome::Done), Verb::Prepare { .. }));
    assert_eq!(rig.verb().verb, Verb::remove(false));
}

#[test]
fn an_observation_from_before_a_verb_says_nothing_about_it() {
    let mut rig = Rig::alive(Ledger::default(), Vec::new());
    rig.wait(30_000);
    assert!(rig.last.observe.is_some());
    rig.order(apply_spec(5, "a", plain()));
    rig.finish(Outcome::Done);
    assert!(rig.last.observe.is_none(), "one question at a time");
    rig.observe(Vec::new());
    assert!(rig.verbs.is_empty(), "the list was taken before it was started");
    assert_eq!(rig.state(), Some(State::Running));
    assert!(rig.last.observe.is_some());
    rig.observe(Vec::new());
    assert!(matches!(rig.verb().verb, Verb::Start { .. }), "now it is really gone");
    assert_eq!(rig.disk.intents[&id("web")].restarts, 1);
}

/// The runtimes may keep one question waiting so long that it is asked again, and then answer both.
#[test]
fn a_hint_about_a_verb_under_way_is_left_to_the_look_after_it() {
    let mut rig = Rig::alive(Ledger::default(), Vec::new());
    rig.order(apply(5, "a"));
    rig.step(Input::Stirred(Some(id("web"))));
    assert_eq!(rig.last.observe, None);
    rig.step(Input::Stirred(Some(id("other"))));
    assert!(rig.last.observe.is_some(), "it may be about anything");
    rig.observe(Vec::new());
    rig.finish(Outcome::Done);
    assert!(rig.last.observe.is_some());
    rig.observe(vec![seen(5, "a", Existing::Running)]);
    rig.step(Input::Stirred(Some(id("web"))));
    assert!(rig.last.observe.is_some(), "it ended, for all we know");
}

#[test]
fn an_answer_that_comes_after_the_answer_to_a_later_question_is_old() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.wait(30_000);
    let first = rig.asked;
    rig.wait(10_000);
    assert!(rig.asked > first, "the patience for the first ended");
    rig.order(apply(6, "b"));
    assert!(matches!(rig.finish(Outcome::Done), Verb::Prepare { .. }));
    assert_eq!(rig.finish(Outcome::Done), Verb::remove(false));
    assert!(matches!(rig.finish(Outcome::Done), Verb::Start { .. }));
    let before = Observation::Complete(vec![seen(5, "a", Existing::Running)]);
    rig.step(Input::Observed(first, before.clone()));
    assert!(rig.verbs.is_empty(), "the list was taken before the change");
    for _ in 0..2 {
        rig.observe(vec![seen(6, "b", Existing::Running)]);
    }
    rig.step(Input::Observed(first, before));
    assert!(rig.verbs.is_empty(), "nobody ordered that the new version ends");
    assert_eq!(rig.state(), Some(State::Running));
}

#[test]
fn a_removal_tells_whether_the_data_went_too() {
    for purge in [false, true] {
        let mut rig = Rig::running(5, "a", &plain());
        rig.order(command(6, Order::Remove { purge }));
        rig.finish(Outcome::Done);
        let tombstones = rig.agent.inventory().tombstones;
        assert_eq!(tombstones.iter().map(|one| one.purged).collect::<Vec<_>>(), [purge]);
        assert_eq!(rig.disk.tombstones[&id("web")].purged, purge, "also in the next life");
    }
}

#[test]
fn a_removal_goes_on_in_the_next_life_without_a_new_word() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.order(remove(6));
    assert_eq!(rig.disk.intents[&id("web")].goal, Goal::Gone { purge: true });
    let mut next = Rig::begin(rig.disk, AgentSettings::default(), rig.now);
    next.observe(vec![seen(5, "a", Existing::Running)]);
    assert_eq!(next.finish(Outcome::Done), Verb::remove(true));
    next.step(accepted(TERM, SESSION));
    assert_eq!(next.agent.inventory().tombstones.len(), 1);
}
