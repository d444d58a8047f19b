//! Volumes and where they are, as the scheduler records them: with the decision that needs them, as
//! long as anything of them may be left, and as a reason to stay.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test may stop"
)]

mod support;

use std::sync::Arc;

use persys_cluster::effects::{RefusalCode, Reply};
use persys_cluster::input::{Ask, OrphanVerdict, Recovery};
use persys_cluster::record::Snapshot;
use persys_cluster::settings::Settings;
use persys_cluster::world::World;
use persys_model::assignment::ReasonCode;
use persys_model::command::Order;
use persys_model::entry::{Entry, Namespace};
use persys_model::id::{NamespaceName, NodeId};
use persys_model::phase::Phase;
use persys_model::spec::volume::VolumeDriver::{CephRbd, Local, Nfs};
use persys_model::spec::volume::{ManagedVolume, VolumeDriver};
use persys_model::spec::{NAMESPACE_KEY, OnNodeLoss, Spec};
use persys_model::token::Term;
use persys_model::volume::{AttachmentPhase, Volume, VolumeKey, VolumePhase};
use persys_model::workload::Desired;

use support::{Cluster, container, facts, node_id, volume, with_volume, workload_id};

fn key(driver: VolumeDriver, name: &str) -> VolumeKey {
    VolumeKey::of(&volume(driver, name, false))
}

fn record(c: &Cluster, driver: VolumeDriver, name: &str) -> Option<Volume> {
    let key = key(driver, name);
    let stored = c.store.snapshot.volumes.iter().find(|one| one.key == key);
    assert_eq!(c.world.volume(&key), stored.map(|one| &**one), "memory and store differ");
    stored.map(|one| Volume::clone(one))
}

fn phase(c: &Cluster, name: &str) -> Option<VolumePhase> {
    record(c, Local, name).map(|one| one.phase)
}

fn refusal(reply: &Reply) -> (RefusalCode, String) {
    match reply {
        Reply::Refused { code, why } => (*code, why.to_string()),
        other => panic!("not refused: {other:?}"),
    }
}

fn note(reply: &Reply) -> String {
    match reply {
        Reply::Done { note } => note.to_string(),
        other => panic!("not done: {other:?}"),
    }
}

fn kept(name: &str) -> Spec {
    with_volume(volume(Local, name, true))
}

fn create(c: &mut Cluster, asked: ManagedVolume, node: Option<NodeId>) -> Reply {
    c.ask(Ask::CreateVolume(Arc::new(asked), node))
}

fn delete(c: &mut Cluster, key: VolumeKey) -> Reply {
    c.ask(Ask::DeleteVolume(key))
}

#[test]
fn a_volume_is_recorded_with_the_decision_that_needs_it_and_goes_with_the_proof() {
    let mut c = Cluster::new(Settings::default());
    c.apply("db", with_volume(volume(Local, "data", false)), "r1");
    assert_eq!(phase(&c, "data"), Some(VolumePhase::Pending));
    c.join(facts(&node_id(0), 4000, 8192));
    let one = record(&c, Local, "data").unwrap();
    assert_eq!((one.phase, one.home), (VolumePhase::Attached, Some(node_id(0))));
    assert!(one.users.contains(&workload_id("db")) && one.used && !one.standalone);
    let attached = c.store.snapshot.attachments.clone();
    assert_eq!((attached.len(), attached[0].phase), (1, AttachmentPhase::Attached));
    assert_eq!(&*attached[0].mount_path, "/data");

    c.set_desired("db", Desired::Stopped);
    assert_eq!(phase(&c, "data"), Some(VolumePhase::Released));

    // Its node falls silent: the record waits with the order that waits there.
    c.deaf.push(node_id(0));
    c.pass(60_000);
    c.ask(Ask::Delete(workload_id("db")));
    assert!(c.store.snapshot.workloads.is_empty());
    let one = record(&c, Local, "data").unwrap();
    assert_eq!((one.phase, one.users.len()), (VolumePhase::Deleting, 0));
    assert_eq!(c.store.snapshot.attachments[0].phase, AttachmentPhase::Detaching);
    c.deaf.clear();
    c.pass(20_000);
    assert_eq!(phase(&c, "data"), None);
    assert!(c.store.snapshot.attachments.is_empty() && c.store.snapshot.graves.is_empty());
}

#[test]
fn work_without_volumes_writes_nothing_about_them() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    c.set_desired("web", Desired::Stopped);
    c.ask(Ask::Delete(workload_id("web")));
    assert!(c.store.snapshot.volumes.is_empty() && c.store.snapshot.attachments.is_empty());
}

#[test]
fn kept_data_stays_listed_and_draws_the_next_workload_to_its_node() {
    let mut c = Cluster::with_nodes(3, 4000, 8192);
    c.apply("db", kept("data"), "r1");
    let home = c.node_of("db").unwrap();
    c.ask(Ask::Delete(workload_id("db")));
    let one = record(&c, Local, "data").unwrap();
    assert_eq!((one.phase, one.home.as_ref()), (VolumePhase::Retained, Some(&home)));
    assert!(one.users.is_empty());
    c.reopen();
    for n in 0..3 {
        c.register(&node_id(n));
    }
    assert_eq!(phase(&c, "data"), Some(VolumePhase::Retained));

    // With its node full the next one waits for it and says why, though others have room.
    for name in ["x", "y", "z"] {
        c.apply(name, container(3900, 512), "r1");
    }
    let (there, away): (Vec<_>, Vec<_>) =
        ["x", "y", "z"].into_iter().partition(|name| c.node_of(name).as_ref() == Some(&home));
    c.ask(Ask::Delete(workload_id(away[0])));
    c.apply("db2", kept("data"), "r1");
    assert_eq!(c.phase("db2"), Some(Phase::Pending));
    let said = c.assignment("db2").reason.message.to_string();
    assert_eq!(said, format!("its data is on {home}, which has no room for it now"));
    assert_eq!(
        c.world.homes_of(&workload_id("db2")).first_key_value(),
        Some((&home, &Some(key(Local, "data"))))
    );
    c.ask(Ask::Delete(workload_id(there[0])));
    assert_eq!(c.node_of("db2"), Some(home));
    assert_eq!(phase(&c, "data"), Some(VolumePhase::Attached));
}

#[test]
fn a_spec_that_contradicts_a_volume_is_refused_by_name() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("db", kept("data"), "r1");
    let (code, why) = refusal(&c.apply("b", with_volume(volume(Local, "data", false)), "r1"));
    assert_eq!(code, RefusalCode::Conflict);
    assert!(
        why.contains("local:data has the policy Retain") && why.contains("workload db"),
        "{why}"
    );
    let small = ManagedVolume { size_gib: 1, ..volume(Local, "data", true) };
    let (_, why) = refusal(&c.apply("b", with_volume(small), "r1"));
    assert!(why.contains("does not shrink"), "{why}");
    // Both may have it: it is on one node.
    c.apply("b", kept("data"), "r1");
    assert_eq!(record(&c, Local, "data").unwrap().users.len(), 2);
    // Its own policy a workload may change as long as it is alone.
    c.ask(Ask::Delete(workload_id("b")));
    c.apply("db", with_volume(volume(Local, "data", false)), "r2");
    assert!(!record(&c, Local, "data").unwrap().retain);
    c.ask(Ask::Delete(workload_id("db")));
    assert_eq!(phase(&c, "data"), None);
}

#[test]
fn a_disk_of_its_own_is_made_used_and_deleted() {
    let mut c = Cluster::with_nodes(3, 4000, 8192);
    let asked = || volume(Local, "own", true);
    assert_eq!(note(&create(&mut c, asked(), Some(node_id(2)))), "it is made on first use");
    assert_eq!(note(&create(&mut c, asked(), Some(node_id(2)))), "it is there already");
    assert_eq!(refusal(&create(&mut c, asked(), Some(node_id(1)))).0, RefusalCode::Conflict);
    let nowhere = create(&mut c, volume(Local, "x", true), Some(node_id(9)));
    assert_eq!(refusal(&nowhere).1, "there is no node n9");
    let bound = create(&mut c, volume(Nfs, "x", true), Some(node_id(1)));
    assert!(refusal(&bound).1.contains("is on no node"));
    assert_eq!(phase(&c, "own"), Some(VolumePhase::Available));

    // A default policy would delete it with its workload: that has to be said.
    let careless = c.apply("db", with_volume(volume(Local, "own", false)), "r1");
    assert!(refusal(&careless).1.contains("has the policy Retain, say the same"));
    c.apply("db", kept("own"), "r1");
    assert_eq!(c.node_of("db"), Some(node_id(2)));
    let (code, why) = refusal(&delete(&mut c, key(Local, "own")));
    assert_eq!(code, RefusalCode::Conflict);
    assert!(why.contains("used by db: delete them first (persys delete db)"), "{why}");
    c.ask(Ask::Delete(workload_id("db")));
    assert_eq!(phase(&c, "own"), Some(VolumePhase::Retained));

    assert_eq!(note(&delete(&mut c, key(Local, "own"))), "accepted");
    assert_eq!(phase(&c, "own"), None);
    let id = key(Local, "own").order_id();
    assert!(c.agents[&node_id(2)].tombstones.contains_key(&id), "its node was told");
    assert_eq!(refusal(&delete(&mut c, key(Local, "own"))).0, RefusalCode::NotFound);

    create(&mut c, asked(), None);
    assert_eq!(note(&delete(&mut c, key(Local, "own"))), "accepted");
    assert!(c.store.snapshot.graves.is_empty(), "nobody had used it: nobody is told");
    assert_eq!(phase(&c, "own"), None);
}

#[test]
fn a_deletion_waits_for_an_absent_node_and_nobody_takes_the_name_meanwhile() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    c.apply("db", kept("data"), "r1");
    let home = c.node_of("db").unwrap();
    c.ask(Ask::Delete(workload_id("db")));
    c.deaf.push(home.clone());
    c.pass(60_000);
    let said = note(&delete(&mut c, key(Local, "data")));
    assert_eq!(said, format!("its data is deleted when {home} is back; until then it is listed"));
    assert_eq!(phase(&c, "data"), Some(VolumePhase::Deleting));
    assert_eq!(
        note(&delete(&mut c, key(Local, "data"))),
        format!("already being deleted on {home}")
    );
    assert!(refusal(&c.apply("db", kept("data"), "r1")).1.contains("is being deleted"));
    // A new leader knows it too.
    c.reopen();
    assert_eq!(phase(&c, "data"), Some(VolumePhase::Deleting));
    c.deaf.clear();
    c.pass(30_000);
    assert_eq!(phase(&c, "data"), None);
    assert!(c.store.snapshot.graves.is_empty());
}

/// The word that came last counts: whoever adopts a workload wants its data.
#[test]
fn adopting_an_orphan_calls_off_the_deletion_of_its_data() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    c.apply("db", kept("data"), "r1");
    let home = c.node_of("db").unwrap();
    let mut held = c.agents[&home].held[&workload_id("db")].clone();
    c.ask(Ask::Delete(workload_id("db")));
    c.deaf.push(home.clone());
    delete(&mut c, key(Local, "data"));
    assert_eq!(phase(&c, "data"), Some(VolumePhase::Deleting), "the node hears nothing yet");
    // The node has it again, by a decision that nobody here knows of.
    held.report.epoch = c.world.head().epoch;
    c.agents.get_mut(&home).unwrap().held.insert(workload_id("db"), held);
    c.tell_all(&home);
    let adopt = Ask::Orphan(home.clone(), workload_id("db"), OrphanVerdict::Adopt);
    assert_eq!(note(&c.ask(adopt)), "accepted");
    c.deaf.clear();
    c.pass(30_000);
    assert_eq!(c.phase("db"), Some(Phase::Running));
    assert_eq!(phase(&c, "data"), Some(VolumePhase::Attached));
    assert!(c.store.snapshot.graves.is_empty());
    assert!(!c.agents[&home].tombstones.contains_key(&key(Local, "data").order_id()));
}

#[test]
fn data_goes_with_its_node_when_that_is_removed() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    c.apply("db", kept("data"), "r1");
    let home = c.node_of("db").unwrap();
    c.ask(Ask::Delete(workload_id("db")));
    c.deaf.push(home.clone());
    c.pass(60_000);
    delete(&mut c, key(Local, "data"));
    c.agents.remove(&home);
    c.ask(Ask::RemoveNode(home.clone()));
    assert_eq!(phase(&c, "data"), None);

    // Work that had data there begins without it elsewhere.
    c.join(facts(&home, 4000, 8192));
    c.deaf.clear();
    c.apply("db", kept("data"), "r2");
    let first = c.node_of("db").unwrap();
    c.deaf.push(first.clone());
    c.pass(60_000);
    c.agents.remove(&first);
    c.ask(Ask::RemoveNode(first.clone()));
    assert_eq!(c.phase("db"), Some(Phase::Running));
    let now = c.node_of("db").unwrap();
    assert_ne!(now, first);
    assert_eq!(record(&c, Local, "data").unwrap().home, Some(now));
}

#[test]
fn what_moves_without_its_data_leaves_a_trace_that_its_deletion_clears() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    let mut spec = with_volume(volume(Local, "data", false));
    spec.placement.on_node_loss = OnNodeLoss::Move;
    c.apply("db", spec, "r1");
    let first = c.node_of("db").unwrap();
    c.ask(Ask::Drain(first.clone(), Arc::from("why")));
    c.pass(5_000);
    let second = c.node_of("db").unwrap();
    assert_ne!(first, second);
    let one = record(&c, Local, "data").unwrap();
    assert_eq!((one.home.as_ref(), one.left_on.first()), (Some(&second), Some(&first)));
    c.commands.clear();
    let request = c.request();
    let author = Arc::new(persys_model::event::Author::new("ann"));
    let ask = Ask::Delete(workload_id("db"));
    c.step(persys_cluster::input::Input::Ask(request, author, ask));
    c.obey();
    assert_eq!(phase(&c, "data"), None);
    assert!(c.agents[&second].tombstones.contains_key(&workload_id("db")));
    assert!(c.agents[&first].tombstones.contains_key(&key(Local, "data").order_id()));
}

#[test]
fn data_that_a_waiting_workload_names_is_spared_and_goes_with_the_last_of_them() {
    let mut c = Cluster::with_nodes(1, 1000, 8192);
    let spec = || with_volume(volume(Local, "data", false));
    c.apply("a", spec(), "r1");
    c.apply("b", Spec { resources: container(900, 64).resources, ..spec() }, "r1");
    assert_eq!(c.phase("b"), Some(Phase::Pending));
    c.deaf.push(node_id(0));
    c.ask(Ask::Delete(workload_id("a")));
    let purges: Vec<_> = c.commands.drain(..).map(|(_, command)| command.order).collect();
    assert!(purges.is_empty() || purges == [Order::Remove { purge: false }], "{purges:?}");
    c.deaf.clear();
    c.pass(20_000);
    assert_eq!(c.node_of("b"), Some(node_id(0)), "it found what was spared for it");
    assert_eq!(phase(&c, "data"), Some(VolumePhase::Attached));
    c.ask(Ask::Delete(workload_id("b")));
    c.pass(1_000);
    assert_eq!(phase(&c, "data"), None);
    assert!(c.agents[&node_id(0)].tombstones.contains_key(&key(Local, "data").order_id()));
}

/// Who takes the name of a volume that goes begins with an empty one, and is not drawn to what goes.
#[test]
fn data_that_goes_with_its_workload_is_nobodys_home() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("db", with_volume(volume(Local, "data", false)), "r1");
    c.deaf.push(node_id(0));
    c.ask(Ask::Delete(workload_id("db")));
    c.apply("next", with_volume(volume(Local, "data", false)), "r1");
    assert_eq!(record(&c, Local, "data").unwrap().home, None);
    c.reopen();
    assert_eq!(record(&c, Local, "data").unwrap().home, None, "nor for a new leader");
    c.deaf.clear();
    c.register(&node_id(0));
    c.pass(5_000);
    assert!(c.world.workload(&workload_id("db")).is_none());
    assert_eq!(c.phase("next"), Some(Phase::Running));
    assert_eq!(record(&c, Local, "data").unwrap().home, Some(node_id(0)));
}

#[test]
fn what_one_node_may_have_waits_until_the_other_has_it_no_more() {
    let mut c = Cluster::with_nodes(3, 4000, 8192);
    c.apply("db", with_volume(volume(CephRbd, "data", false)), "r1");
    let first = c.node_of("db").unwrap();
    c.deaf.push(first.clone());
    c.pass(300_000);
    // No watchdog stops work that is not exclusive: time alone proves nothing.
    let assignment = c.assignment("db");
    assert_eq!(assignment.place.map(|place| place.node), Some(first.clone()));
    assert_eq!(assignment.reason.code, ReasonCode::WaitsForFence);
    let said = &assignment.reason.message;
    assert!(said.contains("one node at a time may have ceph-rbd:data"), "{said}");
    assert!(said.contains(&format!("persys node confirm-gone {first}")), "{said}");
    c.ask(Ask::ConfirmGone(first.clone()));
    assert_ne!(c.node_of("db"), Some(first));
    assert_eq!(c.phase("db"), Some(Phase::Running));
}

#[test]
fn a_second_workload_goes_where_a_single_attach_volume_is() {
    let mut c = Cluster::with_nodes(3, 4000, 8192);
    let spec = || with_volume(volume(CephRbd, "data", true));
    c.apply("a", spec(), "r1");
    c.apply("b", spec(), "r1");
    assert_eq!(c.node_of("a"), c.node_of("b"));
    // Drained, one goes when nobody else holds it to its node.
    let first = c.node_of("a").unwrap();
    c.ask(Ask::Delete(workload_id("b")));
    c.ask(Ask::Drain(first.clone(), Arc::from("why")));
    c.pass(5_000);
    assert_ne!(c.node_of("a"), Some(first));
    let nodes: Vec<_> = c.store.snapshot.attachments.iter().map(|one| one.node.clone()).collect();
    assert_eq!(nodes, [c.node_of("a").unwrap()]);
}

#[test]
fn two_volumes_on_two_nodes_are_said_to_be_apart() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    for (n, name) in ["one", "two"].into_iter().enumerate() {
        create(&mut c, volume(Local, name, true), Some(node_id(n)));
    }
    let mut spec = kept("one");
    if let persys_model::spec::Kind::Container(container) = &mut spec.kind {
        container.managed_volumes.push(volume(Local, "two", true));
    }
    c.apply("db", spec, "r1");
    let said = c.assignment("db").reason.message.to_string();
    assert_eq!(said, "no node has all of its data: local:one on n0, local:two on n1");
}

#[test]
fn a_store_of_an_earlier_release_gets_its_records_when_it_is_read() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    c.apply("db", kept("data"), "r1");
    let before = record(&c, Local, "data").unwrap();
    c.store.snapshot.volumes.clear();
    c.store.snapshot.attachments.clear();
    c.reopen();
    let after = record(&c, Local, "data").unwrap();
    assert_eq!((after.phase, after.home, after.users), (before.phase, before.home, before.users));
    assert_eq!(c.store.snapshot.attachments.len(), 1);
}

#[test]
fn copies_and_recoveries_have_the_records_too() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    c.apply("db", kept("data"), "r1");
    create(&mut c, volume(Nfs, "own", true), None);
    let snapshot = c.store.snapshot.clone();
    let copy = World::copy_of(Settings::default(), snapshot.clone(), c.now);
    assert_eq!(copy.world().volumes().count(), 2);

    // All is lost; a snapshot brings it back, agents bring what they hold.
    for (recovery, found) in [
        (Recovery::FromSnapshot(Box::new(snapshot)), 2),
        (Recovery::FromAgents, 1),
        (Recovery::AcceptEmpty, 0),
    ] {
        let mut c2 = Cluster::with_nodes(2, 4000, 8192);
        c2.agents = c.agents.clone();
        c2.store.snapshot = Snapshot::default();
        let known = Some(c.world.high_water());
        let (mut world, effects) = World::open(
            Settings::default(),
            Term(9),
            Snapshot::default(),
            known,
            Arc::from("test"),
            c2.now,
        );
        world.set_leads_until(persys_model::time::Millis(u64::MAX));
        c2.world = world;
        c2.absorb(effects);
        for n in 0..2 {
            let inventory = c2.inventory(&node_id(n));
            let facts = facts(&node_id(n), 4000, 8192);
            let request = c2.request();
            let registration = persys_model::link::Registration { facts, inventory, term: Term(0) };
            c2.step(persys_cluster::input::Input::Register(request, registration));
        }
        let request = c2.request();
        let author = Arc::new(persys_model::event::Author::new("ann"));
        c2.step(persys_cluster::input::Input::Ask(request, author, Ask::Recover(recovery)));
        assert_eq!(c2.store.snapshot.volumes.len(), found);
        assert_eq!(c2.world.volumes().count(), found);
    }
}

#[test]
fn deletions_of_data_are_ordered_after_they_are_written() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("db", kept("data"), "r1");
    c.ask(Ask::Delete(workload_id("db")));
    let request = c.request();
    let author = Arc::new(persys_model::event::Author::new("ann"));
    let ask = Ask::DeleteVolume(key(Local, "data"));
    let effects = c.world.step(persys_cluster::input::Input::Ask(request, author, ask), c.now);
    assert!(effects.out.is_empty(), "{:?}", effects.out);
    c.absorb(effects);
    let (node, command) = c.commands.last().unwrap().clone();
    assert_eq!((node, command.order), (node_id(0), Order::Remove { purge: true }));
    assert_eq!(command.workload, key(Local, "data").order_id());
    c.obey();
    assert_eq!(phase(&c, "data"), None);
}

fn within(namespace: &'static str, spec: Spec) -> Spec {
    let metadata = [(NAMESPACE_KEY.into(), namespace.into())].into();
    Spec { metadata, ..spec }
}

#[test]
fn data_stays_with_the_namespace_that_made_it() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    for name in ["db", "web"] {
        let namespace = Namespace::new(NamespaceName::fixed(name));
        c.ask(Ask::Keep(Arc::new(Entry::Namespace(namespace))));
    }
    c.apply("pg", within("db", kept("data")), "r1");
    assert_eq!(record(&c, Local, "data").unwrap().namespace, Some(NamespaceName::fixed("db")));
    let shares = c.apply("spy", within("web", kept("data")), "r1");
    let (code, why) = refusal(&shares);
    assert_eq!(code, RefusalCode::Conflict);
    assert!(why.contains("another namespace") && !why.contains("pg"), "{why}");
    // Its workload goes, the data stays, and it is still nobody else's; not after a restart either.
    c.ask(Ask::Delete(workload_id("pg")));
    c.obey();
    assert_eq!(phase(&c, "data"), Some(VolumePhase::Retained));
    c.reopen();
    for spec in [within("web", kept("data")), kept("data")] {
        assert_eq!(refusal(&c.apply("spy", spec, "r1")).0, RefusalCode::Conflict);
    }
    c.apply("pg2", within("db", kept("data")), "r1");
    assert!(record(&c, Local, "data").unwrap().users.contains(&workload_id("pg2")));
    // What was made by itself is for whoever uses it first.
    note(&create(&mut c, volume(Local, "fresh", true), None));
    assert_eq!(record(&c, Local, "fresh").unwrap().namespace, None);
    c.apply("shop", within("web", kept("fresh")), "r1");
    assert_eq!(record(&c, Local, "fresh").unwrap().namespace, Some(NamespaceName::fixed("web")));
    assert_eq!(
        refusal(&c.apply("late", within("db", kept("fresh")), "r1")).0,
        RefusalCode::Conflict
    );
}
