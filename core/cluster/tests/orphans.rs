//! What nobody knows and what a lost store left behind still have their volumes: they count until
//! somebody decides.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test may stop"
)]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use persys_cluster::effects::{RefusalCode, Reply};
use persys_cluster::input::{Ask, OrphanVerdict, Recovery};
use persys_cluster::world::{Conflict, Disagreement};
use persys_model::id::{NodeId, RevisionId};
use persys_model::inventory::{Held, Report, State};
use persys_model::labels::{Taint, TaintEffect};
use persys_model::phase::Phase;
use persys_model::spec::Spec;
use persys_model::spec::volume::VolumeDriver::{CephRbd, Local};
use persys_model::token::Epoch;
use persys_model::volume::VolumeKey;
use persys_model::workload::Desired;

use support::{Cluster, container, node_id, put_back, volume, with_volume, workload_id};

fn shared() -> Spec {
    with_volume(volume(CephRbd, "data", true))
}

fn refusal(reply: &Reply) -> (RefusalCode, String) {
    match reply {
        Reply::Refused { code, why } => (*code, why.to_string()),
        other => panic!("not refused: {other:?}"),
    }
}

/// A node runs this, and nobody here knows why.
fn strand(c: &mut Cluster, node: &NodeId, name: &str, spec: Option<Spec>) {
    let workload = workload_id(name);
    let state = State::Running;
    let report = Report {
        workload: workload.clone(),
        epoch: Epoch(0),
        state,
        restarts: 0,
        confirmed: false,
        progress: 0,
        fetched: None,
        trouble: None,
        runs: None,
        health: None,
    };
    let held = Held {
        report,
        revision: RevisionId::fixed("r0"),
        run: true,
        pause: false,
        spec: spec.map(Arc::new),
    };
    c.agents.get_mut(node).unwrap().held.insert(workload, held);
    c.tell_all(node);
}

fn judge(c: &mut Cluster, node: &NodeId, name: &str, verdict: OrphanVerdict) -> Reply {
    c.ask(Ask::Orphan(node.clone(), workload_id(name), verdict))
}

#[test]
fn what_one_node_may_have_is_not_given_to_a_second_while_an_orphan_has_it() {
    let mut c = Cluster::with_nodes(3, 4000, 8192);
    strand(&mut c, &node_id(1), "old", Some(shared()));
    c.apply("new", shared(), "r1");
    assert_eq!(c.node_of("new"), Some(node_id(1)), "only there it can be used beside the orphan");
    c.ask(Ask::Delete(workload_id("new")));

    // Without room there it waits, though others have some, and goes on once the orphan is decided.
    c.apply("large", container(3_000, 512), "r1");
    c.apply("large2", container(3_000, 512), "r1");
    c.apply("large3", container(3_000, 512), "r1");
    let mut spec = shared();
    spec.resources.compute.cpu_millicores = 900;
    c.apply("new", spec, "r2");
    assert_eq!(c.phase("new"), Some(Phase::Pending));
    let said = c.assignment("new").reason.message.to_string();
    assert!(said.contains("one node at a time may have ceph-rbd:data, and n1 has it"), "{said}");
    judge(&mut c, &node_id(1), "old", OrphanVerdict::Delete);
    c.pass(5_000);
    assert_eq!(c.phase("new"), Some(Phase::Running));
}

#[test]
fn an_orphan_is_not_adopted_with_a_volume_that_another_node_has() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    c.apply("new", shared(), "r1");
    let there = c.node_of("new").unwrap();
    let here = (0..2).map(node_id).find(|node| *node != there).unwrap();
    strand(&mut c, &here, "old", Some(shared()));
    let (code, why) = refusal(&judge(&mut c, &here, "old", OrphanVerdict::Adopt));
    assert_eq!(code, RefusalCode::Conflict);
    assert!(why.contains(&format!("{there} has it for new")), "{why}");
    c.ask(Ask::Delete(workload_id("new")));
    assert!(matches!(judge(&mut c, &here, "old", OrphanVerdict::Adopt), Reply::Done { .. }));
}

#[test]
fn before_a_node_has_said_what_its_orphan_is_the_orphan_may_have_any_volume() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    strand(&mut c, &node_id(0), "old", Some(shared()));
    // A new leader knows from the store that there is something, and not what.
    c.deaf = vec![node_id(0)];
    c.reopen();
    c.register(&node_id(1));
    let refused = c.apply("old", shared(), "r1");
    assert_eq!(refusal(&refused).0, RefusalCode::Conflict, "its name is taken");
    c.ask(Ask::Taint(node_id(0), no_new_work()));
    c.apply("new", shared(), "r1");
    assert_eq!(c.phase("new"), Some(Phase::Pending));
    let said = c.assignment("new").reason.message.to_string();
    assert!(said.contains("n0, which has not yet said what it holds, may have it"), "{said}");
    // It says so: the orphan has something else.
    c.deaf.clear();
    let other = with_volume(volume(CephRbd, "other", true));
    strand(&mut c, &node_id(0), "old", Some(other));
    c.pass(2_000);
    assert_eq!((c.phase("new"), c.node_of("new")), (Some(Phase::Running), Some(node_id(1))));
}

#[test]
fn a_volume_of_an_orphan_that_is_to_go_is_free_when_it_is_gone() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    strand(&mut c, &node_id(0), "old", Some(shared()));
    c.ask(Ask::Taint(node_id(0), no_new_work()));
    c.apply("new", shared(), "r1");
    c.deaf.push(node_id(0));
    judge(&mut c, &node_id(0), "old", OrphanVerdict::Delete);
    c.pass(3_000);
    assert_eq!(c.phase("new"), Some(Phase::Pending), "it may still have it");
    c.deaf.clear();
    c.pass(20_000);
    assert_eq!((c.phase("new"), c.node_of("new")), (Some(Phase::Running), Some(node_id(1))));
    assert_eq!(c.store.snapshot.attachments.len(), 1);
}

#[test]
fn data_is_not_deleted_under_an_orphan() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    let local = || with_volume(volume(Local, "data", true));
    let key = VolumeKey::of(&volume(Local, "data", true));
    let n0 = node_id(0);
    c.apply("db", local(), "r1");
    c.ask(Ask::Delete(workload_id("db")));
    // One that names the disk, and one of which nobody can say what it has.
    for (name, spec) in [("old", Some(local())), ("bare", None)] {
        strand(&mut c, &n0, name, spec);
        let (code, why) = refusal(&c.ask(Ask::DeleteVolume(key.clone())));
        assert_eq!(code, RefusalCode::Conflict);
        assert!(why.contains(&format!("n0 has a workload {name} that nobody here knows")), "{why}");
        judge(&mut c, &n0, name, OrphanVerdict::Delete);
        c.pass(2_000);
    }
    strand(&mut c, &n0, "other", Some(with_volume(volume(Local, "else", true))));
    assert!(matches!(c.ask(Ask::DeleteVolume(key.clone())), Reply::Done { .. }));
    c.pass(2_000);
    assert!(c.world.volume(&key).is_none());
}

#[test]
fn an_orphan_is_not_left_alone_with_data_that_is_to_go() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    let local = || with_volume(volume(Local, "data", true));
    let key = VolumeKey::of(&volume(Local, "data", true));
    let n0 = node_id(0);
    c.apply("db", local(), "r1");
    c.ask(Ask::Delete(workload_id("db")));
    c.deaf.push(n0.clone());
    c.ask(Ask::DeleteVolume(key.clone()));
    strand(&mut c, &n0, "old", Some(local()));
    let (code, why) = refusal(&judge(&mut c, &n0, "old", OrphanVerdict::Ignore));
    assert_eq!(code, RefusalCode::Conflict);
    assert!(why.contains("disk local:data is being deleted, and old may use it"), "{why}");
    assert!(matches!(judge(&mut c, &n0, "old", OrphanVerdict::Adopt), Reply::Done { .. }));
    assert!(c.store.snapshot.graves.is_empty(), "adopted, its data stays");
}

fn no_new_work() -> Taint {
    let (key, value) = (Arc::from("why"), Arc::from(""));
    Taint { key, value, effect: TaintEffect::NoSchedule }
}

/// In the older store a workload has the volume on one node; it was deleted since, and another has the
/// volume elsewhere. The older one comes back, and must not have the volume beside the newer one.
#[test]
fn a_recovery_gives_a_volume_for_one_node_to_one() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    c.apply("old", shared(), "r1");
    let before = c.node_of("old").unwrap();
    let copy = c.store.snapshot.clone();
    c.ask(Ask::Delete(workload_id("old")));
    c.ask(Ask::Drain(before.clone(), Arc::from("why")));
    // Its data stayed, which is no proof that it was deleted.
    let tombstones = &mut c.agents.get_mut(&before).unwrap().tombstones;
    tombstones.get_mut(&workload_id("old")).unwrap().1 = false;
    c.apply("new", shared(), "r1");
    let after = c.node_of("new").unwrap();
    assert_ne!(before, after);

    put_back(&mut c, copy);
    let plan = c.world.recovery_plan(&Recovery::FromAgents);
    let elsewhere = plan.conflicts.iter().filter_map(|Conflict { workload, what }| match what {
        Disagreement::VolumeElsewhere { volume, from, to } => Some((workload, volume, from, to)),
        _ => None,
    });
    let key = VolumeKey::of(&volume(CephRbd, "data", true));
    let told: BTreeSet<_> = elsewhere.collect();
    assert_eq!(told, BTreeSet::from([(&workload_id("old"), &key, &before, &after)]));
    assert!(matches!(c.ask(Ask::Recover(Recovery::FromAgents)), Reply::Done { .. }));
    for _ in 0..20 {
        c.pass(1_000);
        let runs = |node: &NodeId| c.agents[node].held.values().any(|held| held.run);
        assert!(!(runs(&before) && runs(&after)), "two nodes have it at once");
    }
    for name in ["old", "new"] {
        let is = (c.phase(name), c.node_of(name));
        assert_eq!(is, (Some(Phase::Running), Some(after.clone())), "{name}");
    }
}

/// A workload that rests does not keep its volume on a machine that is off, once another has it elsewhere.
#[test]
fn what_rests_on_a_machine_that_is_off_lets_its_volume_go() {
    let mut c = Cluster::with_nodes(3, 4000, 8192);
    c.apply("runs", shared(), "r1");
    c.apply("rests", shared(), "r1");
    c.apply("stops", shared(), "r1");
    let first = c.node_of("runs").unwrap();
    c.set_desired("rests", Desired::Stopped);
    c.deaf.push(first.clone());
    c.pass(60_000);
    c.set_desired("stops", Desired::Stopped);
    assert_eq!(c.node_of("rests"), Some(first.clone()), "nobody vouches for anything yet");
    c.ask(Ask::ConfirmGone(first.clone()));
    let now = c.node_of("runs").unwrap();
    assert_ne!(now, first);
    for name in ["rests", "stops"] {
        assert_eq!((c.phase(name), c.node_of(name)), (Some(Phase::Stopped), None), "{name}");
    }
    // The machine is back: it gives up what it had, and who starts again goes to the volume.
    c.deaf.clear();
    c.pass(20_000);
    assert!(c.agents[&first].held.is_empty());
    c.set_desired("rests", Desired::Running);
    c.pass(5_000);
    assert_eq!((c.phase("rests"), c.node_of("rests")), (Some(Phase::Running), Some(now)));
}
