//! Records for operators that follow from others: leases of nodes, outcomes of reconciliation.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop")]

mod support;

use persys_cluster::input::Ask;
use persys_cluster::record::Snapshot;
use persys_model::failure::{Failure, FailureReason};
use persys_model::inventory::State;
use persys_model::lease::LeaseState;
use persys_model::phase::Phase;
use persys_model::reconciliation::Action;
use persys_model::token::Session;
use persys_model::workload::Desired;

use support::{Cluster, container, node_id, workload_id};

fn lease(c: &Cluster, n: usize) -> Option<(Session, LeaseState)> {
    let leases = &c.store.snapshot.leases;
    leases.iter().find(|l| l.node == node_id(n)).map(|l| (l.session, l.state))
}

fn session(c: &Cluster, n: usize) -> Session {
    let nodes = &c.store.snapshot.nodes;
    nodes.iter().find(|node| node.facts.id == node_id(n)).unwrap().session
}

fn outcome(c: &Cluster, name: &str) -> Option<(Action, bool, String)> {
    let found = c.store.outcomes.get(&workload_id(name))?;
    Some((found.action, found.success, found.reason.to_string()))
}

#[test]
fn a_lease_follows_the_condition_of_its_node_and_heartbeats_write_nothing() {
    let mut c = Cluster::with_nodes(3, 4000, 8192);
    let first = session(&c, 0);
    assert_eq!(lease(&c, 0), Some((first, LeaseState::Held)));
    let writes = c.store.writes;
    for _ in 0..10 {
        c.now.mono = c.now.mono.plus(1_000);
        for n in 0..3 {
            c.beat(&node_id(n));
        }
    }
    assert_eq!(c.store.writes, writes, "no heartbeat writes");

    c.deaf.push(node_id(0));
    c.pass(8_000);
    assert_eq!(lease(&c, 0), Some((first, LeaseState::Expired)));
    c.pass(20_000);
    let lost = session(&c, 0);
    assert!(lost > first);
    assert_eq!(lease(&c, 0), Some((lost, LeaseState::Ended)));
    c.deaf.clear();
    c.pass(1_000);
    assert_eq!(lease(&c, 0), Some((session(&c, 0), LeaseState::Held)));
    assert!(session(&c, 0) > lost);
}

#[test]
fn the_store_of_an_earlier_release_gets_its_leases_with_the_first_heartbeats() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    let without = Snapshot { leases: Vec::new(), ..c.store.snapshot.clone() };
    c.store.snapshot = without;
    c.reopen();
    assert!(lease(&c, 0).is_none());
    let writes = c.store.writes;
    c.beat(&node_id(0));
    assert_eq!(lease(&c, 0), Some((session(&c, 0), LeaseState::Held)));
    c.beat(&node_id(0));
    assert_eq!(c.store.writes, writes + 1, "the lease, once");
}

#[test]
fn a_removed_node_leaves_no_lease() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    c.ask(Ask::Drain(node_id(1), "gone".into()));
    c.ask(Ask::RemoveNode(node_id(1)));
    assert!(lease(&c, 1).is_none() && lease(&c, 0).is_some());
}

#[test]
fn the_last_outcome_of_each_workload_is_recorded_until_it_is_deleted() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    assert_eq!(outcome(&c, "web"), Some((Action::Apply, true, "Running".into())));

    // An agent that restarts it by itself is no action of the scheduler.
    let failure = Failure::new(FailureReason::RuntimeError, "exit code 3");
    let set = |c: &mut Cluster, state: State| {
        let held = &mut c.agents.get_mut(&node_id(0)).unwrap().held;
        held.get_mut(&workload_id("web")).unwrap().report.state = state;
        c.beat(&node_id(0));
    };
    let at = c.store.outcomes[&workload_id("web")].attempted_at;
    c.now.wall.0 += 5_000;
    set(&mut c, State::Restarting(failure.clone()));
    set(&mut c, State::Running);
    assert_eq!(c.store.outcomes[&workload_id("web")].attempted_at, at);

    set(&mut c, State::Failed(failure));
    assert_eq!(c.phase("web"), Some(Phase::Backoff));
    let (action, success, reason) = outcome(&c, "web").unwrap();
    assert_eq!((action, success), (Action::Apply, false));
    assert!(reason.contains("exit code 3"), "{reason}");

    c.set_desired("web", Desired::Stopped);
    c.pass(1_000);
    assert_eq!(outcome(&c, "web").unwrap().0, Action::Stop);
    c.ask(Ask::Delete(workload_id("web")));
    c.pass(5_000);
    assert_eq!(outcome(&c, "web"), None, "gone with its workload");
}
