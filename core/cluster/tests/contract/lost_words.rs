//! Orders that a contract agent refuses, forgets or gets late.

use persys_cluster::contract::{ContractAgents, Deed, OrderContext, Word};
use persys_cluster::input::Ask;
use persys_model::assignment::ReasonCode;
use persys_model::command::{Answer, Command, Order};
use persys_model::drift::DriftKind;
use persys_model::event::Happening;
use persys_model::id::RevisionId;
use persys_model::phase::Phase;
use persys_model::spec::container::RestartPolicy;
use persys_model::spec::volume::VolumeDriver;
use persys_model::spec::{Kind, Spec};
use persys_model::time::Millis;
use persys_model::token::{Epoch, Session, Term};
use persys_model::workload::Desired;

use super::fleet::Fleet;
use super::support::{container, node_id, volume, with_volume, workload_id};

fn revision(name: &str) -> RevisionId {
    RevisionId::new(name).unwrap()
}

fn job() -> Spec {
    let mut spec = container(500, 512);
    if let Kind::Container(body) = &mut spec.kind {
        body.restart = RestartPolicy::No;
    }
    spec
}

fn data() -> Spec {
    with_volume(volume(VolumeDriver::Local, "data", false))
}

/// An order to remove a workload and to leave its data.
fn removal(id: &str, epoch: Epoch) -> Command {
    let (term, session, workload) = (Term(1), Session(1), workload_id(id));
    Command { term, session, epoch, workload, order: Order::Remove { purge: false } }
}

#[test]
fn a_stop_that_the_agent_forgot_is_ordered_again() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    f.apply("web", "rev-2", container(500, 512), Desired::Stopped);
    // Its process died before it began.
    f.their(0).has.get_mut(&workload_id("web")).unwrap().task = None;
    f.run(100_000);
    assert_eq!(f.phase("web"), Some(Phase::Stopping), "it still runs");
    f.run(60_000);
    assert_eq!(f.phase("web"), Some(Phase::Stopped));
    assert_eq!(f.their(0).has[&workload_id("web")].revision, revision("rev-2"));
}

#[test]
fn a_refused_order_to_rest_is_not_waited_for() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-2", container(500, 512), Desired::Running);
    f.run(5_000);
    f.apply("web", "rev-2", container(500, 512), Desired::Stopped);
    f.run(5_000);
    assert_eq!(f.phase("web"), Some(Phase::Stopped));
    // Somebody starts another version by hand, and the agent has no time for the order.
    let one = f.their(0).has.get_mut(&workload_id("web")).unwrap();
    (one.revision, one.run, one.word) = (revision("rev-1"), true, Word::Running);
    f.their(0).refuses = Some("task queue is full");
    f.ask(Ask::CheckDrift(None));
    f.run(3_000);
    assert_eq!(f.drift_events(DriftKind::RevisionMismatch), 1);
    f.their(0).refuses = None;
    f.ask(Ask::CheckDrift(None));
    f.run(6_000);
    let one = &f.their(0).has[&workload_id("web")];
    assert_eq!((one.revision.clone(), one.run), (revision("rev-2"), false));
}

#[test]
fn heartbeats_of_another_version_do_not_end_a_drift() {
    let mut f = Fleet::new(1);
    f.apply("job", "rev-2", job(), Desired::Running);
    f.run(5_000);
    let one = f.their(0).has.get_mut(&workload_id("job")).unwrap();
    (one.word, one.exit_code) = (Word::Stopped, Some(0));
    f.ask(Ask::CheckDrift(None));
    f.run(10_000);
    assert_eq!(f.phase("job"), Some(Phase::Completed));
    f.their(0).has.get_mut(&workload_id("job")).unwrap().revision = revision("rev-1");
    for _ in 0..5 {
        f.ask(Ask::CheckDrift(None));
        f.run(8_000);
    }
    assert_eq!(f.drift_events(DriftKind::RevisionMismatch), 1, "it is found once and stays");
    assert_eq!(f.drifts(), [(workload_id("job"), DriftKind::RevisionMismatch)]);
}

#[test]
fn what_is_to_rest_and_is_not_there_is_left_alone() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    f.apply("web", "rev-1", container(500, 512), Desired::Stopped);
    f.run(5_000);
    f.register(0);
    f.their(0).has.clear();
    f.their(0).refuses = Some("task queue is full");
    f.run(12_000);
    f.their(0).refuses = None;
    let before = f.their(0).applied.len();
    for _ in 0..5 {
        f.ask(Ask::CheckDrift(None));
        f.run(8_000);
    }
    assert_eq!(f.their(0).applied.len(), before, "nothing is there, so it rests");
    assert_eq!(f.phase("web"), Some(Phase::Stopped));
}

#[test]
fn a_new_workload_waits_until_the_deletion_of_its_name_is_confirmed() {
    let mut f = Fleet::new(1);
    f.apply("db", "rev-1", data(), Desired::Running);
    f.run(5_000);
    f.their(0).away = true;
    f.run(60_000);
    f.ask(Ask::Delete(workload_id("db")));
    f.apply("db", "rev-2", data(), Desired::Running);
    f.run(5_000);
    let waits = f.assignment("db").unwrap();
    assert_eq!((waits.phase, waits.place.clone()), (Phase::Pending, None));
    f.their(0).away = false;
    f.register(0);
    f.run(60_000);
    assert_eq!(f.phase("db"), Some(Phase::Running), "{:?}", f.assignment("db"));
    assert_eq!(f.their(0).deleted, [workload_id("db")], "once, and before the new one began");
    assert_eq!(f.their(0).has[&workload_id("db")].revision, revision("rev-2"));
}

#[test]
fn a_copy_that_outlives_its_workload_can_still_be_stopped() {
    let mut f = Fleet::new(1);
    f.apply("db", "rev-1", data(), Desired::Running);
    f.run(5_000);
    f.their(0).away = true;
    f.run(60_000);
    f.ask(Ask::Delete(workload_id("db")));
    assert_eq!(f.phase("db"), None);
    let [grave] = f.c.store.snapshot.graves.as_slice() else { panic!("one copy is left behind") };
    let command = removal("db", grave.epoch);
    let context = f.c.world.context_of(&node_id(0), &command);
    let mut agents = ContractAgents::new(1_000);
    let Deed::StopInstead(apply) = agents.order(&node_id(0), &command, &context, Millis(0)) else {
        panic!("its data stays, so it is stopped: {context:?}")
    };
    assert_eq!((apply.revision, apply.run), (revision("rev-1"), false));
}

#[test]
fn nothing_is_taken_for_removed_that_nobody_knows() {
    let mut agents = ContractAgents::new(1_000);
    agents.registered(&node_id(0), true, Millis(0));
    let command = removal("db", Epoch(3));
    let deed = agents.order(&node_id(0), &command, &OrderContext::default(), Millis(0));
    assert_eq!(deed, Deed::Nothing(Answer::Accepted));
    let due = agents.due(Millis(1_000));
    assert_eq!(due.questions.len(), 2, "the list, and its status: {due:?}");
}

#[test]
fn a_failed_attempt_keeps_its_room_because_the_agent_may_start_it_by_itself() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(3_000, 512), Desired::Running);
    f.run(5_000);
    f.apply("web", "rev-2", container(8_000, 512), Desired::Running);
    assert_eq!(f.assignment("web").unwrap().reason.code, ReasonCode::UpdateWaits);
    let one = f.their(0).has.get_mut(&workload_id("web")).unwrap();
    (one.word, one.message) = (Word::Failed, "this time it did not work");
    f.run(4_000);
    f.apply("big", "rev-1", container(3_000, 512), Desired::Running);
    assert_eq!(f.place("big"), None, "its room is not free: {:?}", f.assignment("web"));
    let one = f.their(0).has.get_mut(&workload_id("web")).unwrap();
    (one.word, one.message) = (Word::Running, "");
    f.run(20_000);
    assert_eq!(f.phase("web"), Some(Phase::Running), "nothing runs unseen");
}

#[test]
fn at_rest_is_believed_only_once_an_earlier_order_to_run_was_carried_out() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    f.apply("web", "rev-1", container(500, 512), Desired::Stopped);
    f.run(5_000);
    assert_eq!(f.phase("web"), Some(Phase::Stopped));
    // It takes the start in and comes to it late; it says Stopped until then.
    f.their(0).apply_ms = 6_000;
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.apply("web", "rev-1", container(500, 512), Desired::Stopped);
    f.run(4_000);
    assert_eq!(f.phase("web"), Some(Phase::Stopping), "it may yet be started");
    f.run(70_000);
    assert_eq!(f.phase("web"), Some(Phase::Stopped));
}

#[test]
fn what_the_agent_keeps_running_is_told_again_to_rest() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    f.apply("web", "rev-1", container(500, 512), Desired::Stopped);
    f.run(5_000);
    // A recovery forgot that it was started again meanwhile.
    let one = f.their(0).has.get_mut(&workload_id("web")).unwrap();
    (one.run, one.word) = (true, Word::Running);
    f.contract.forget(&node_id(0));
    f.ask(Ask::CheckDrift(None));
    f.run(10_000);
    assert!(!f.their(0).has[&workload_id("web")].run);
    assert_eq!(f.phase("web"), Some(Phase::Stopped));
}

#[test]
fn a_version_that_gave_up_leaves_the_next_one_all_its_attempts() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(3_000, 512), Desired::Running);
    f.run(5_000);
    f.apply("web", "rev-2", container(8_000, 512), Desired::Running);
    f.their(0).ends_as = (Word::Failed, "this time it did not work");
    let one = f.their(0).has.get_mut(&workload_id("web")).unwrap();
    (one.word, one.message) = (Word::Failed, "this time it did not work");
    f.run(300_000);
    assert_eq!(f.phase("web"), Some(Phase::Pending), "{:?}", f.assignment("web"));
    assert!(f.c.store.snapshot.retries.is_empty(), "none of them was rev-2's");
}

#[test]
fn a_failure_that_only_a_heartbeat_told_does_not_count_for_the_next_attempt() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    // Another process speaks with the agent from now on, and has ordered nothing.
    f.register(0);
    f.run(5_000);
    let one = f.their(0).has.get_mut(&workload_id("web")).unwrap();
    (one.word, one.message, one.exit_code) = (Word::Failed, "exited with code 1", Some(1));
    f.their(0).apply_ms = 3_000;
    while f.phase("web") != Some(Phase::Backoff) {
        f.run(100);
    }
    f.run(60_000);
    assert_eq!(f.phase("web"), Some(Phase::Running), "{:?}", f.assignment("web"));
    let failed = |what: &Happening| {
        matches!(what, Happening::Workload { code: ReasonCode::AttemptFailed, .. })
    };
    let failures = f.c.store.events.iter().filter(|event| failed(&event.what)).count();
    assert_eq!(failures, 1, "the second attempt worked");
}

#[test]
fn a_list_from_before_the_next_attempt_began_does_not_end_it() {
    let mut f = Fleet::new(1);
    f.their(0).ends_as = (Word::Failed, "pull timed out");
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    while f.phase("web") != Some(Phase::Backoff) {
        f.run(100);
    }
    f.their(0).ends_as = (Word::Running, "");
    f.their(0).apply_ms = 3_000;
    while f.phase("web") != Some(Phase::Starting) {
        f.run(100);
    }
    f.ask(Ask::CheckDrift(None));
    f.run(2_500);
    assert_eq!(f.phase("web"), Some(Phase::Starting), "it has not begun");
    f.run(30_000);
    assert_eq!(f.phase("web"), Some(Phase::Running));
}
