//! What is paused by its user, what somebody else paused, and what is stuck.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test may stop"
)]

mod support;

use persys_cluster::effects::Reply;
use persys_cluster::input::Ask;
use persys_model::assignment::ReasonCode;
use persys_model::drift::DriftKind;
use persys_model::event::Happening;
use persys_model::failure::{Failure, FailureReason};
use persys_model::inventory::State;
use persys_model::node::NodeFacts;
use persys_model::phase::Phase;
use persys_model::spec::Class;
use persys_model::workload::Desired;

use support::{Cluster, container, facts, node_id, workload_id};

fn drifts(c: &Cluster) -> Vec<DriftKind> {
    c.store.snapshot.drifts.iter().map(|drift| drift.kind).collect()
}

fn refusal(reply: Reply) -> String {
    match reply {
        Reply::Refused { why, .. } => why.to_string(),
        other => panic!("{other:?}"),
    }
}

fn free(c: &Cluster, n: usize) -> u64 {
    c.world.node(&node_id(n)).unwrap().free.cpu_millicores
}

/// The last order for a workload, as its node keeps it: whether it is to run, and to be paused.
fn last_order(c: &Cluster, name: &str) -> (bool, bool) {
    let node = c.node_of(name).unwrap();
    let held = &c.agents[&node].held[&workload_id(name)];
    (held.run, held.pause)
}

#[test]
fn a_user_pauses_a_workload_which_keeps_what_it_reserves() {
    let mut c = Cluster::with_nodes(1, 1000, 1024);
    c.apply("web", container(400, 100), "r1");
    assert!(matches!(c.set_desired("web", Desired::Paused), Reply::Done { .. }));
    assert_eq!(c.phase("web"), Some(Phase::Paused));
    assert_eq!(last_order(&c, "web"), (true, true));
    let reason = c.assignment("web").reason;
    assert_eq!(reason.code, ReasonCode::Paused);
    assert!(reason.message.starts_with("paused by "), "{}", reason.message);
    assert_eq!(free(&c, 0), 600);
    c.pass(600_000);
    c.tell_all(&node_id(0));
    assert_eq!(c.phase("web"), Some(Phase::Paused), "nobody resumes it");
    assert_eq!(drifts(&c), []);
    c.reopen();
    c.pass(10_000);
    assert_eq!(c.phase("web"), Some(Phase::Paused), "another leader neither");
    assert!(matches!(c.ask(Ask::Resume(workload_id("web"))), Reply::Done { .. }));
    assert_eq!(c.phase("web"), Some(Phase::Running));
    assert_eq!(last_order(&c, "web"), (true, false));
}

#[test]
fn what_was_found_paused_is_shown_and_a_drift_until_it_runs_again() {
    let mut c = Cluster::with_nodes(1, 1000, 1024);
    c.apply("web", container(400, 100), "r1");
    c.say(&node_id(0), "web", State::Paused);
    let assignment = c.assignment("web");
    assert_eq!(
        (assignment.phase, assignment.reason.code),
        (Phase::Paused, ReasonCode::FoundPaused)
    );
    assert_eq!(drifts(&c), [DriftKind::StateMismatch]);
    let told = |event: &Happening| {
        matches!(
            event,
            Happening::Workload { to: Some(Phase::Paused), code: ReasonCode::FoundPaused, .. }
        )
    };
    assert!(c.store.events.iter().any(|event| told(&event.what)));
    c.tell_all(&node_id(0));
    assert_eq!(drifts(&c), [DriftKind::StateMismatch], "it stays as long as it is paused");
    assert_eq!(free(&c, 0), 600);
    c.say(&node_id(0), "web", State::Running);
    assert_eq!(c.phase("web"), Some(Phase::Running));
    assert_eq!(drifts(&c), []);
}

#[test]
fn a_user_may_pause_or_resume_what_was_found_paused() {
    let mut c = Cluster::with_nodes(1, 1000, 1024);
    c.apply("web", container(400, 100), "r1");
    c.say(&node_id(0), "web", State::Paused);
    let before = c.assignment("web").place.unwrap().epoch;
    c.ask(Ask::Resume(workload_id("web")));
    assert!(c.assignment("web").place.unwrap().epoch > before, "its agent may have given up");
    assert_eq!((c.phase("web"), drifts(&c)), (Some(Phase::Running), vec![]));
    c.say(&node_id(0), "web", State::Paused);
    c.set_desired("web", Desired::Paused);
    assert_eq!((c.phase("web"), drifts(&c)), (Some(Phase::Paused), vec![]));
}

#[test]
fn what_does_not_respond_is_shown_with_its_cause_and_is_a_drift() {
    let mut c = Cluster::with_nodes(1, 1000, 1024);
    c.apply("web", container(400, 100), "r1");
    let held = c.agents.get_mut(&node_id(0)).unwrap().held.get_mut(&workload_id("web")).unwrap();
    let cause = Failure::new(FailureReason::RuntimeError, "its main process is in state D");
    held.report.trouble = Some(cause);
    c.say(&node_id(0), "web", State::Unresponsive);
    let reason = c.assignment("web").reason;
    assert_eq!(c.phase("web"), Some(Phase::Unresponsive));
    assert_eq!(
        (reason.code, &*reason.message),
        (ReasonCode::NotResponding, "its main process is in state D")
    );
    assert_eq!(drifts(&c), [DriftKind::StateMismatch]);
    let epoch = c.assignment("web").place.unwrap().epoch;
    c.pass(600_000);
    assert_eq!(c.assignment("web").place.unwrap().epoch, epoch, "it is its agent's to repair");
    let failure =
        Failure::new(FailureReason::RuntimeError, "was stopped because it did not respond");
    c.say(&node_id(0), "web", State::Restarting(failure));
    assert_eq!(c.phase("web"), Some(Phase::Restarting));
    c.say(&node_id(0), "web", State::Running);
    assert_eq!((c.phase("web"), drifts(&c)), (Some(Phase::Running), vec![]));
}

#[test]
fn only_what_runs_can_be_paused_and_only_what_is_paused_resumed() {
    let mut c = Cluster::with_nodes(1, 1000, 1024);
    c.apply("web", container(400, 100), "r1");
    assert!(matches!(c.ask(Ask::Resume(workload_id("web"))), Reply::Done { .. }), "it runs");
    c.set_desired("web", Desired::Stopped);
    assert!(refusal(c.set_desired("web", Desired::Paused)).contains("is stopped"));
    assert!(refusal(c.ask(Ask::Resume(workload_id("web")))).contains("persys start web"));
    assert!(refusal(c.ask(Ask::Resume(workload_id("gone")))).contains("no workload"));
    assert_eq!(c.phase("web"), Some(Phase::Stopped));
}

#[test]
fn what_is_paused_is_stopped_updated_and_deleted_as_if_it_ran() {
    let mut c = Cluster::with_nodes(1, 1000, 1024);
    for name in ["a", "b", "c"] {
        c.apply(name, container(100, 100), "r1");
        c.set_desired(name, Desired::Paused);
    }
    c.set_desired("a", Desired::Stopped);
    assert_eq!(c.phase("a"), Some(Phase::Stopped));
    c.apply("b", container(200, 100), "r2");
    assert_eq!(c.phase("b"), Some(Phase::Running), "an apply resumes it");
    c.ask(Ask::Delete(workload_id("c")));
    assert_eq!(c.phase("c"), None);
    assert_eq!(free(&c, 0), 800);
}

#[test]
fn what_is_paused_moves_with_its_node_and_stays_paused() {
    let mut c = Cluster::with_nodes(2, 1000, 1024);
    c.apply("web", container(400, 100), "r1");
    c.set_desired("web", Desired::Paused);
    let home = c.node_of("web").unwrap();
    c.ask(Ask::Drain(home.clone(), "maintenance".into()));
    assert_ne!(c.node_of("web"), Some(home.clone()));
    assert_eq!((c.phase("web"), last_order(&c, "web")), (Some(Phase::Paused), (true, true)));
    c.ask(Ask::Undrain(home.clone()));
    c.deaf.push(c.node_of("web").unwrap());
    c.pass(60_000);
    assert_eq!((c.phase("web"), c.node_of("web")), (Some(Phase::Paused), Some(home)));
}

#[test]
fn a_paused_copy_of_exclusive_work_holds_up_every_other() {
    let mut c = Cluster::with_nodes(2, 1000, 1024);
    let mut spec = container(400, 100);
    spec.placement.class = Class::Exclusive;
    c.apply("db", spec, "r1");
    c.set_desired("db", Desired::Paused);
    let home = c.node_of("db").unwrap();
    c.deaf.push(home.clone());
    c.pass(20_000);
    assert_eq!(c.node_of("db"), Some(home), "its fence has not fallen yet");
}

#[test]
fn an_agent_that_cannot_pause_is_never_told_to() {
    let mut c = Cluster::with_nodes(0, 0, 0);
    let old = |n| NodeFacts { pauses: false, ..facts(&node_id(n), 1000, 1024) };
    c.join(old(0));
    c.apply("web", container(400, 100), "r1");
    let why = refusal(c.set_desired("web", Desired::Paused));
    assert!(why.contains("node n0 runs an agent that cannot pause"), "{why}");
    assert_eq!(c.phase("web"), Some(Phase::Running));
    // One that can; then only the other is left.
    c.join(facts(&node_id(1), 1000, 1024));
    c.ask(Ask::Drain(node_id(0), "upgrade".into()));
    assert_eq!(c.node_of("web"), Some(node_id(1)));
    c.set_desired("web", Desired::Paused);
    c.ask(Ask::Undrain(node_id(0)));
    c.ask(Ask::Drain(node_id(1), "upgrade".into()));
    assert_eq!((c.phase("web"), c.node_of("web")), (Some(Phase::Paused), Some(node_id(1))));
    let judged = c.world.judge(&workload_id("web"), 5).unwrap();
    let old = judged.verdicts.iter().find(|verdict| verdict.node == node_id(0)).unwrap();
    assert_eq!(old.faults, ["runs an agent that cannot pause"]);
}
