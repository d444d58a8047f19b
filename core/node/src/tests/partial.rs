//! One runtime of several does not answer: what it hides is unknown, what the others show is not.

use std::collections::BTreeSet;

use persys_model::inventory::State;
use persys_model::spec::container::RestartPolicy;
use persys_model::spec::{Class, WorkloadType};

use super::rig::{
    Rig, SESSION, TERM, accepted, apply, apply_spec, in_place, plain, remove, seen, spec,
};
use crate::effects::Verb;
use crate::input::{Existing, Observation, Outcome, Seen};
use crate::ledger::Ledger;
use crate::settings::AgentSettings;

impl Rig {
    /// The runtimes of some types do not answer; the others show these things.
    fn partly(&mut self, things: Vec<Seen>, blind: &[WorkloadType]) {
        let blind = blind.iter().copied().collect();
        self.say(Observation::Partial { seen: things, blind });
    }
}

fn running(epoch: u64, revision: &'static str) -> Seen {
    seen(epoch, revision, Existing::Running)
}

/// The next life of an agent that had this running.
fn again(rig: Rig, things: Vec<Seen>, blind: &[WorkloadType]) -> Rig {
    let mut next = Rig::begin(rig.disk, AgentSettings::default(), rig.now);
    next.partly(things, blind);
    next.step(accepted(TERM, SESSION));
    next
}

#[test]
fn a_container_goes_on_while_machines_cannot_be_seen() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.partly(vec![running(5, "a")], &[WorkloadType::Vm]);
    assert_eq!(rig.state(), Some(State::Running));
    assert_eq!(rig.agent.blind(), &BTreeSet::from([WorkloadType::Vm]));
    rig.wait(1_000);
    assert!(rig.last.observe.is_some(), "the other is asked again soon");
    rig.partly(vec![seen(5, "a", Existing::Exited { code: 1 })], &[WorkloadType::Vm]);
    rig.wait(10_000);
    assert!(matches!(rig.finish(Outcome::Done), Verb::Start { .. }), "it is healed");
    rig.partly(Vec::new(), &[WorkloadType::Vm]);
    rig.partly(Vec::new(), &[WorkloadType::Vm]);
    rig.wait(10_000);
    assert!(matches!(rig.finish(Outcome::Done), Verb::Start { .. }), "and when it vanishes");
    rig.observe(vec![running(5, "a")]);
    assert_eq!(rig.agent.blind(), &BTreeSet::new());
}

#[test]
fn a_machine_that_cannot_be_seen_is_unknown_and_left_alone() {
    let mut rig = Rig::running(5, "a", &in_place());
    rig.partly(Vec::new(), &[WorkloadType::Vm]);
    assert_eq!(rig.state(), Some(State::Unknown));
    rig.order(apply_spec(6, "b", in_place()));
    rig.wait(100);
    assert!(rig.verbs.is_empty());
    rig.observe(vec![running(5, "a")]);
    assert!(matches!(rig.verb().verb, Verb::Start { .. }), "now it is brought over");
}

#[test]
fn new_work_of_a_type_that_answers_is_begun_and_of_another_waits() {
    let blind = [WorkloadType::Vm];
    let fresh = || again(Rig::new(Ledger::default(), AgentSettings::default()), Vec::new(), &blind);
    let mut rig = fresh();
    rig.order(apply(5, "a"));
    assert!(matches!(rig.verb().verb, Verb::Start { .. }));
    let mut rig = fresh();
    rig.order(apply_spec(5, "a", in_place()));
    assert!(rig.verbs.is_empty());
    rig.observe(Vec::new());
    assert!(matches!(rig.verb().verb, Verb::Start { .. }));
}

#[test]
fn a_change_of_type_waits_until_the_old_one_can_be_seen() {
    let mut rig = Rig::running(5, "a", &in_place());
    rig.partly(Vec::new(), &[WorkloadType::Vm]);
    rig.order(apply(6, "b"));
    rig.partly(Vec::new(), &[WorkloadType::Vm]);
    rig.wait(100);
    assert!(rig.verbs.is_empty(), "the machine may still run");
    rig.observe(vec![running(5, "a")]);
    assert!(matches!(rig.finish(Outcome::Done), Verb::Prepare { .. }));
    assert_eq!(rig.finish(Outcome::Done), Verb::remove(false));
    assert!(matches!(rig.verb().verb, Verb::Start { .. }));
}

#[test]
fn exclusive_work_of_an_earlier_life_is_nowhere_only_when_all_have_said_so() {
    let alone = spec(RestartPolicy::Always, Class::Exclusive);
    let mut rig = again(Rig::running(5, "a", &alone), Vec::new(), &[WorkloadType::Vm]);
    assert_eq!(rig.state(), Some(State::Unknown));
    rig.observe(Vec::new());
    assert_ne!(rig.state(), Some(State::Unknown));
    rig.partly(Vec::new(), &[WorkloadType::Vm]);
    assert_ne!(rig.state(), Some(State::Unknown), "what it had then is known");
    // Of other work a second copy would be found, and removed.
    let rig = again(Rig::running(5, "a", &plain()), Vec::new(), &[WorkloadType::Vm]);
    assert_ne!(rig.state(), Some(State::Unknown));
}

#[test]
fn a_removal_is_carried_out_where_the_thing_can_be_seen() {
    let mut rig = Rig::running(5, "a", &plain());
    rig.partly(vec![running(5, "a")], &[WorkloadType::Vm]);
    rig.order(remove(6));
    assert_eq!(rig.finish(Outcome::Done), Verb::remove(true));
    assert_eq!(rig.agent.inventory().tombstones.len(), 1);
}
