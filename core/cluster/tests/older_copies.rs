//! What a node runs by an earlier decision than the recorded one is never left to run unseen.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop")]

mod support;

use std::sync::Arc;

use persys_cluster::effects::Reply;
use persys_cluster::input::{Ask, Input, Recovery};
use persys_cluster::record::Snapshot;
use persys_model::event::Author;
use persys_model::failure::{Failure, FailureReason};
use persys_model::inventory::{Held, State};
use persys_model::phase::Phase;
use persys_model::spec::vm::CloudInit;
use persys_model::spec::{Kind, Spec, VmSpec};
use persys_model::workload::Desired;

use support::{Cluster, container, node_id, put_back, workload_id};

fn failed() -> State {
    State::Failed(Failure::new(FailureReason::ImageNotFound, "no such image"))
}

/// Something that runs on in its last good version when an update fails.
fn machine() -> Spec {
    let machine = VmSpec {
        name: None,
        vcpus: 1,
        memory_mib: 512,
        disks: Vec::new(),
        networks: Vec::new(),
        cloud_init: CloudInit::default(),
        os_image: None,
        managed_volumes: Vec::new(),
        metadata: std::collections::BTreeMap::new(),
    };
    Spec { kind: Kind::Vm(machine), ..container(500, 512) }
}

fn held(c: &Cluster, name: &str) -> Held {
    c.agents[&node_id(0)].held[&workload_id(name)].clone()
}

/// The node has the decision that is recorded.
fn agree(c: &Cluster, name: &str) {
    let (record, held) = (c.assignment(name).place.unwrap(), held(c, name));
    assert_eq!((record.node, record.epoch), (node_id(0), held.report.epoch), "{name}");
}

/// In the copy the workload is over in its first version; then a second one runs.
fn over_then_runs(spec: &Spec, end: State) -> (Cluster, Snapshot) {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", spec.clone(), "r1");
    c.say(&node_id(0), "web", end);
    let copy = c.store.snapshot.clone();
    c.apply("web", spec.clone(), "r2");
    assert_eq!(c.phase("web"), Some(Phase::Running));
    (c, copy)
}

#[test]
fn a_snapshot_in_which_it_is_over_goes_out_to_the_node_that_runs_it() {
    for end in [failed(), State::Completed] {
        let (mut c, copy) = over_then_runs(&container(500, 512), end);
        put_back(&mut c, copy.clone());
        let way = Recovery::FromSnapshot(Box::new(copy));
        assert!(matches!(c.ask(Ask::Recover(way)), Reply::Done { .. }));
        c.pass(2_000);
        agree(&c, "web");
        assert_eq!(held(&c, "web").revision.as_str(), "r1", "as in the snapshot");
        assert_eq!(c.phase("web"), Some(Phase::Running), "as its node says now");
        let told = c.store.events.iter().any(|event| {
            format!("{event:?}").contains("on n0, which ran it by an earlier decision")
        });
        assert!(told, "whoever asks why it was started finds out");
    }
}

#[test]
fn what_is_over_here_and_there_is_not_tried_again() {
    for spec in [container(500, 512), machine()] {
        let (mut c, copy) = over_then_runs(&spec, failed());
        // The node says the same of the same version, by an earlier decision than the renewed one.
        c.apply("web", spec, "r1");
        c.say(&node_id(0), "web", failed());
        put_back(&mut c, copy.clone());
        c.ask(Ask::Recover(Recovery::FromSnapshot(Box::new(copy))));
        c.pass(40_000);
        assert_eq!((c.phase("web"), held(&c, "web").report.state), (Some(Phase::Failed), failed()));
    }
}

#[test]
fn a_machine_that_failed_in_another_version_than_the_snapshot_has_it_is_tried_as_recorded() {
    let (mut c, copy) = over_then_runs(&machine(), failed());
    c.apply("web", machine(), "r3");
    c.say(&node_id(0), "web", failed());
    put_back(&mut c, copy.clone());
    c.ask(Ask::Recover(Recovery::FromSnapshot(Box::new(copy))));
    c.pass(2_000);
    agree(&c, "web");
    assert_eq!(held(&c, "web").revision.as_str(), "r1");
}

/// An agent lost its ledger and finds what ran before the update that failed.
#[test]
fn a_node_that_forgot_a_failed_decision_is_told_anew() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", machine(), "r1");
    let found = Held { spec: None, ..held(&c, "web") };
    c.apply("web", machine(), "r2");
    c.say(&node_id(0), "web", failed());
    c.agents.get_mut(&node_id(0)).unwrap().held.insert(workload_id("web"), found);
    c.tell_all(&node_id(0));
    agree(&c, "web");
    assert_eq!(held(&c, "web").revision.as_str(), "r2");
}

#[test]
fn without_room_for_the_recorded_version_the_earlier_copy_goes() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    let found = held(&c, "web");
    c.apply("web", container(500, 512), "r2");
    c.say(&node_id(0), "web", failed());
    c.apply("big", container(3_800, 512), "r1");
    c.agents.get_mut(&node_id(0)).unwrap().held.insert(workload_id("web"), found);
    c.tell_all(&node_id(0));
    c.pass(2_000);
    assert_eq!((c.phase("web"), c.node_of("web")), (Some(Phase::Pending), None));
    assert!(!c.agents[&node_id(0)].held.contains_key(&workload_id("web")));
    c.ask(Ask::Delete(workload_id("big")));
    c.pass(2_000);
    assert_eq!(c.phase("web"), Some(Phase::Running));
}

/// Its node never heard that it was to stop; then another version is wanted, for which there is no room.
#[test]
fn what_was_to_stop_does_not_run_on_while_its_next_version_waits() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    c.deaf.push(node_id(0));
    c.set_desired("web", Desired::Stopped);
    c.apply("web", container(5_000, 512), "r2");
    c.deaf.clear();
    c.pass(20_000);
    assert_eq!((c.phase("web"), c.node_of("web")), (Some(Phase::Pending), None));
    assert!(c.agents[&node_id(0)].held.is_empty(), "nobody wants what ran there");
    c.apply("web", container(500, 512), "r3");
    assert_eq!(c.phase("web"), Some(Phase::Running));
}

/// An update in place failed and is to be tried again, when a version is wanted for which there is no room.
#[test]
fn the_last_good_version_of_a_machine_keeps_its_room_while_the_next_one_waits() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", machine(), "r1");
    c.apply("web", machine(), "r2");
    let flaky = Failure::new(FailureReason::RuntimeError, "it did not come up");
    c.say(&node_id(0), "web", State::Failed(flaky));
    assert_eq!(c.phase("web"), Some(Phase::Backoff));
    let large = Spec { resources: container(5_000, 512).resources, ..machine() };
    c.apply("web", large, "r3");
    assert_eq!(c.phase("web"), Some(Phase::Pending));
    let held = c.assignment("web").place.unwrap().reserved;
    assert_eq!(held, machine().resources, "the first version runs on");
}

/// In the older store it has left n1, which was away; it came back there since, and moved again.
#[test]
fn earlier_copies_of_a_restored_workload_go_by_a_decision_of_now() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    let first = c.node_of("web").unwrap();
    let second = (0..2).map(node_id).find(|node| *node != first).unwrap();
    c.deaf.push(first.clone());
    c.pass(60_000);
    assert_eq!(c.node_of("web"), Some(second.clone()));
    let copy = c.store.snapshot.clone();
    // Decisions since then that the older store knows nothing of: the first node holds one of them.
    c.deaf.clear();
    c.pass(20_000);
    c.ask(Ask::Drain(second.clone(), Arc::from("why")));
    assert_eq!(c.node_of("web"), Some(first.clone()));
    let back = c.agents[&first].held[&workload_id("web")].clone();
    c.ask(Ask::Undrain(second.clone()));
    c.ask(Ask::Drain(first.clone(), Arc::from("why")));
    assert_eq!(c.node_of("web"), Some(second.clone()));
    c.agents.get_mut(&first).unwrap().held.insert(workload_id("web"), back.clone());
    c.agents.get_mut(&first).unwrap().tombstones.clear();
    put_back(&mut c, copy);
    c.ask(Ask::Recover(Recovery::FromAgents));
    let going = c.assignment("web").former[&first].epoch;
    assert!(going > back.report.epoch, "{going:?} would be refused by {first}");
    c.pass(5_000);
    assert_eq!((c.phase("web"), c.node_of("web")), (Some(Phase::Running), Some(second)));
    assert!(c.assignment("web").former.is_empty());
    assert!(c.agents[&first].held.is_empty());
}

/// A recovery from agents is cut off after each of its units, and made again.
#[test]
fn an_interrupted_recovery_does_not_outdo_what_agents_hold() {
    let (mut c, copy) = over_then_runs(&container(500, 512), failed());
    c.apply("gone", container(500, 512), "r1");
    let copy = {
        let mut with = c.store.snapshot.clone();
        with.workloads.retain(|workload| workload.id != workload_id("web"));
        with.assignments.retain(|decided| decided.workload != workload_id("web"));
        with.workloads.extend(copy.workloads);
        with.assignments.extend(copy.assignments);
        with
    };
    c.ask(Ask::Delete(workload_id("gone")));
    put_back(&mut c, copy);
    let request = c.request();
    let author = Arc::new(Author::new("operator ann"));
    let ask = Input::Ask(request, author, Ask::Recover(Recovery::FromAgents));
    let units = c.world.step(ask, c.now).units;
    assert!(units.len() > 4);
    for unit in &units[..units.len() - 1] {
        c.store.apply(unit);
        let mut again = Cluster::with_nodes(1, 4000, 8192);
        again.agents.clone_from(&c.agents);
        again.now = c.now;
        put_back(&mut again, c.store.snapshot.clone());
        assert!(matches!(again.ask(Ask::Recover(Recovery::FromAgents)), Reply::Done { .. }));
        again.pass(2_000);
        agree(&again, "web");
        assert_eq!(held(&again, "web").revision.as_str(), "r2", "after {unit:?}");
        assert_eq!(again.phase("gone"), None, "after {unit:?}");
    }
}

/// A workload was deleted and another took its room, both after the copy of the store was made. For a while
/// the records promised both: 3000m of 2000m.
#[test]
fn what_an_agent_proves_deleted_reserves_nothing() {
    let mut c = Cluster::with_nodes(1, 2_000, 8_192);
    c.apply("old", container(1_500, 512), "r1");
    let copy = c.store.snapshot.clone();
    let node = node_id(0);
    c.ask(Ask::Delete(workload_id("old")));
    c.apply("new", container(1_500, 512), "r1");
    assert_eq!(c.phase("new"), Some(Phase::Running));
    // Its agent deleted the data as well, which proves more than the end of a copy.
    let tombstone = c.agents.get_mut(&node).unwrap().tombstones.get_mut(&workload_id("old"));
    tombstone.unwrap().1 = true;
    put_back(&mut c, copy);
    c.deaf.push(node);
    assert!(matches!(c.ask(Ask::Recover(Recovery::FromAgents)), Reply::Done { .. }));
    let reserved: u64 = c
        .store
        .snapshot
        .assignments
        .iter()
        .filter_map(|one| one.place.as_ref())
        .map(|place| place.reserved.compute.cpu_millicores)
        .sum();
    assert_eq!(reserved, 1_500);
    assert!(c.world.check().is_empty(), "{:?}", c.world.check());
    c.deaf.clear();
    c.pass(10_000);
    assert_eq!((c.phase("old"), c.phase("new")), (None, Some(Phase::Running)));
}
