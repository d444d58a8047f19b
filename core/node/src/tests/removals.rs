//! Removals that come with the answer to a heartbeat.

use persys_model::command::{Answer, Refusal};
use persys_model::inventory::Tombstone;
use persys_model::link::{BeatAnswer, Removal};
use persys_model::token::{Epoch, Session, Term};

use super::rig::{Rig, SESSION, TERM, apply, heard, id, plain, seen};
use crate::effects::Verb;
use crate::input::{Existing, Input, Outcome};
use crate::ledger::Ledger;

/// The answer to heartbeat `seq` with the removal of `web` up to `epoch`.
fn removal(seq: u64, epoch: u64) -> BeatAnswer {
    let mut answer = heard(seq);
    if let BeatAnswer::Heard { removals, .. } = &mut answer {
        removals.push(Removal { workload: id("web"), epoch: Epoch(epoch) });
    }
    answer
}

fn tombstone(epoch: u64) -> Tombstone {
    Tombstone { workload: id("web"), epoch: Epoch(epoch), purged: false }
}

/// The removals that the last heartbeat tells.
fn told(rig: &Rig) -> Vec<Tombstone> {
    let beat = rig.beats.last().unwrap();
    assert!(beat.takes_removals);
    beat.removed.clone()
}

#[test]
fn what_is_not_there_is_proved_at_once_and_a_late_order_refused() {
    let mut rig = Rig::alive(Ledger::default(), Vec::new());
    rig.step(Input::Heard(removal(1, 7)));
    assert_eq!(rig.finish(Outcome::Done), Verb::remove(false));
    rig.wait(100);
    assert_eq!(told(&rig), [tombstone(7)]);
    let late = rig.order(apply(5, "a"));
    let refusal = Refusal::Buried { tombstone: Epoch(7) };
    assert_eq!(rig.answer(late), Some(&Answer::Refused(refusal)));
    let newer = rig.order(apply(8, "a"));
    assert_eq!(rig.answer(newer), Some(&Answer::Accepted));
}

#[test]
fn what_runs_is_removed_before_it_is_proved() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.step(Input::Heard(removal(1, 7)));
    rig.wait(2_100);
    assert_eq!(told(&rig), [], "it may still run");
    assert_eq!(rig.finish(Outcome::Done), Verb::remove(false));
    rig.observe(Vec::new());
    rig.wait(100);
    assert_eq!(told(&rig), [tombstone(7)]);
}

#[test]
fn a_proof_that_the_scheduler_does_not_know_is_told_again() {
    let mut rig = Rig::alive(Ledger::default(), Vec::new());
    rig.step(Input::Heard(removal(1, 7)));
    rig.finish(Outcome::Done);
    rig.wait(100);
    let seq = rig.beats.last().unwrap().seq;
    rig.step(Input::Heard(heard(seq)));
    rig.wait(2_100);
    assert_eq!(told(&rig), [], "it was heard");
    let seq = rig.beats.last().unwrap().seq;
    rig.step(Input::Heard(removal(seq, 7)));
    rig.wait(100);
    assert_eq!(told(&rig), [tombstone(7)]);
    assert!(rig.verbs.is_empty());
}

#[test]
fn the_word_of_another_leadership_or_life_removes_nothing() {
    for (term, session) in [(Term(0), SESSION), (TERM, Session(99))] {
        let mut rig = Rig::running(5, "a", &plain());
        let mut answer = removal(1, 7);
        if let BeatAnswer::Heard { term: t, session: s, .. } = &mut answer {
            (*t, *s) = (term, session);
        }
        rig.step(Input::Heard(answer));
        assert!(rig.verbs.is_empty());
        rig.observe(vec![seen(5, "a", Existing::Running)]);
        assert_eq!(rig.agent.intents()[&id("web")].epoch, Epoch(5));
    }
}
