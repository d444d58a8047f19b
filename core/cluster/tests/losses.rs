//! Stories about what the store lost and what nodes have beyond it: plans, ways out, drift.

#![allow(clippy::wildcard_enum_match_arm, reason = "a story looks at the events it is about")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_cluster::effects::Reply;
use persys_cluster::input::{Ask, Input, OrphanVerdict, Recovery};
use persys_cluster::record::Snapshot;
use persys_cluster::settings::Settings;
use persys_cluster::world::{Conflict, Disagreement, RecoveryPlan, World};
use persys_model::drift::DriftKind;
use persys_model::event::{Author, Event, Happening};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::inventory::State;
use persys_model::link::BeatAnswer;
use persys_model::mode::Mode;
use persys_model::node::Condition;
use persys_model::phase::Phase;
use persys_model::spec::volume::VolumeDriver;
use persys_model::time::{Millis, WallMillis};
use persys_model::token::{Epoch, Term};
use persys_model::volume::{VolumeKey, VolumePhase};

use persys_model::workload::Desired;

use support::{Cluster, container, node_id, volume, with_volume, workload_id};

fn is_done(reply: &Reply) -> bool {
    matches!(reply, Reply::Done { .. })
}

/// The store holds `snapshot` again, as a restoring leaves it, and the host remembers more.
fn put_back(c: &mut Cluster, mut snapshot: Snapshot) {
    let known = c.world.high_water();
    if let Some(head) = &mut snapshot.head {
        head.rebuilding = true;
    }
    c.store.snapshot = snapshot.clone();
    let fresh = Arc::from("fresh");
    let (mut world, effects) =
        World::open(Settings::default(), Term(1), snapshot, Some(known), fresh, c.now);
    world.set_leads_until(Millis(u64::MAX));
    c.world = world;
    c.absorb(effects);
    assert_eq!(c.world.mode().0, Mode::Recovery);
    c.pass(3_000);
}

fn ids(names: &[&str]) -> BTreeSet<WorkloadId> {
    names.iter().map(|name| workload_id(name)).collect()
}

fn spots(all: &[(&str, usize)]) -> BTreeSet<(WorkloadId, NodeId)> {
    all.iter().map(|(name, node)| (workload_id(name), node_id(*node))).collect()
}

fn conflict(name: &str, what: Disagreement) -> Conflict {
    Conflict { workload: workload_id(name), what }
}

/// One node. In the copy: old, gone, changed. Then gone is deleted, changed is changed, new is made.
fn moved_on() -> (Cluster, Snapshot) {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    for name in ["old", "gone", "changed"] {
        c.apply(name, container(500, 512), "r1");
    }
    let copy = c.store.snapshot.clone();
    c.ask(Ask::Delete(workload_id("gone")));
    c.apply("changed", container(600, 512), "r2");
    c.apply("new", container(500, 512), "r1");
    (c, copy)
}

#[test]
fn each_way_out_of_an_older_store_says_what_it_would_do() {
    let (mut c, copy) = moved_on();
    assert_eq!(c.agents[&node_id(0)].held.len(), 3);
    put_back(&mut c, copy.clone());
    let n0 = node_id(0);
    let heard = BTreeSet::from([n0.clone()]);
    assert_eq!(
        c.world.recovery_plan(&Recovery::FromAgents),
        RecoveryPlan {
            kept: ids(&["old"]),
            restored: BTreeMap::from([
                (workload_id("changed"), n0.clone()),
                (workload_id("new"), n0.clone()),
            ]),
            deleted: BTreeMap::from([(workload_id("gone"), n0.clone())]),
            heard: heard.clone(),
            ..RecoveryPlan::default()
        }
    );
    assert_eq!(
        c.world.recovery_plan(&Recovery::AcceptEmpty),
        RecoveryPlan {
            dropped: ids(&["old", "gone", "changed"]),
            orphans: spots(&[("old", 0), ("changed", 0), ("new", 0)]),
            heard: heard.clone(),
            ..RecoveryPlan::default()
        }
    );
    assert_eq!(
        c.world.recovery_plan(&Recovery::FromSnapshot(Box::new(copy))),
        RecoveryPlan {
            kept: ids(&["old", "gone", "changed"]),
            orphans: spots(&[("new", 0)]),
            conflicts: BTreeSet::from([
                conflict("changed", Disagreement::SnapshotIsOlder(n0.clone())),
                conflict("gone", Disagreement::ComesBack(n0)),
            ]),
            heard,
            ..RecoveryPlan::default()
        }
    );
    assert_eq!(c.store.snapshot.workloads.len(), 3, "a plan changes nothing");
}

#[test]
fn nodes_that_disagree_and_nodes_not_heard_are_named() {
    let mut c = Cluster::with_nodes(3, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    let copy = c.store.snapshot.clone();
    let place = c.node_of("web").unwrap();
    let others: Vec<_> = (0..3).map(node_id).filter(|node| *node != place).collect();
    let (two, silent) = (others[0].clone(), others[1].clone());
    // Another node holds it under a later decision, and a second one under the same.
    let mut held = c.agents[&place].held[&workload_id("web")].clone();
    held.report.epoch = Epoch(77);
    c.agents.get_mut(&two).unwrap().held.insert(workload_id("web"), held.clone());
    let mut bare = held.clone();
    bare.report.workload = workload_id("bare");
    bare.spec = None;
    c.agents.get_mut(&two).unwrap().held.insert(workload_id("bare"), bare);
    c.deaf.push(silent.clone());
    put_back(&mut c, copy.clone());
    let plan = c.world.recovery_plan(&Recovery::FromAgents);
    assert_eq!(plan.restored, BTreeMap::from([(workload_id("web"), two.clone())]));
    assert_eq!(plan.superseded, BTreeSet::from([(workload_id("web"), place.clone())]));
    assert_eq!(plan.without_spec, BTreeSet::from([(workload_id("bare"), two.clone())]));
    assert_eq!(plan.orphans, plan.without_spec);
    assert_eq!(plan.missing, BTreeSet::from([silent]));
    let moved = Disagreement::Moved { from: place.clone(), to: two.clone() };
    assert_eq!(plan.conflicts, BTreeSet::from([conflict("web", moved)]));
    let said = plan.conflicts.first().unwrap().to_string();
    assert_eq!(said, format!("web: recorded on {place}, found on {two} under a later decision"));

    c.agents.get_mut(&place).unwrap().held.insert(workload_id("web"), held);
    put_back(&mut c, copy);
    let plan = c.world.recovery_plan(&Recovery::FromAgents);
    let mut both = [place, two];
    both.sort();
    let [first, second] = both;
    let twice = conflict("web", Disagreement::HeldTwice(first, second));
    assert!(plan.conflicts.contains(&twice), "{:?}", plan.conflicts);
}

/// The store knows a later decision than any node holds, and the node it names holds an earlier one than
/// another node: the place that is recorded counts, and what is there is not ordered away.
#[test]
fn a_place_that_nobody_outdoes_is_not_taken_for_an_earlier_copy() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    let (mut copy, web) = (c.store.snapshot.clone(), workload_id("web"));
    let place = c.node_of("web").unwrap();
    let other = (0..2).map(node_id).find(|node| *node != place).unwrap();
    let mut later = c.agents[&place].held[&web].clone();
    later.report.epoch = Epoch(40);
    c.agents.get_mut(&other).unwrap().held.insert(web.clone(), later);
    let decided = copy.assignments.iter_mut().find(|decided| decided.workload == web).unwrap();
    Arc::make_mut(decided).place.as_mut().unwrap().epoch = Epoch(77);
    copy.head.as_mut().unwrap().epoch = Epoch(77);
    put_back(&mut c, copy);
    let plan = c.world.recovery_plan(&Recovery::FromAgents);
    assert_eq!((plan.kept, plan.restored), (ids(&["web"]), BTreeMap::new()));
    assert_eq!(plan.superseded, BTreeSet::from([(web.clone(), other.clone())]));

    assert!(is_done(&c.ask(Ask::Recover(Recovery::FromAgents))));
    c.pass(10_000);
    assert_eq!((c.phase("web"), c.node_of("web")), (Some(Phase::Running), Some(place.clone())));
    assert!(c.assignment("web").former.is_empty());
    assert!(!c.agents[&place].tombstones.contains_key(&web), "its copy was not ordered away");
    assert!(!c.agents[&other].held.contains_key(&web));
}

/// Work that moved leaves a removal behind where it was, under a later decision than an older store
/// knows. Its data is still wanted.
#[test]
fn a_copy_that_went_and_left_its_data_is_no_proof_that_the_workload_was_deleted() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    let (copy, web) = (c.store.snapshot.clone(), workload_id("web"));
    let place = c.node_of("web").unwrap();
    let other = (0..2).map(node_id).find(|node| *node != place).unwrap();
    let deleted = (Epoch(77), true);
    c.agents.get_mut(&other).unwrap().tombstones.insert(web.clone(), deleted);
    put_back(&mut c, copy.clone());
    let plan = c.world.recovery_plan(&Recovery::FromAgents);
    let proved = BTreeMap::from([(web.clone(), other.clone())]);
    assert_eq!(plan.deleted, proved, "data goes only with the workload");

    let moved_away = (Epoch(77), false);
    c.agents.get_mut(&other).unwrap().tombstones.insert(web, moved_away);
    put_back(&mut c, copy.clone());
    let plan = c.world.recovery_plan(&Recovery::FromAgents);
    assert_eq!((plan.deleted, plan.kept), (BTreeMap::new(), ids(&["web"])));
    assert_eq!(plan.conflicts, BTreeSet::new(), "its place still has it");

    c.deaf.push(place.clone());
    put_back(&mut c, copy.clone());
    let plan = c.world.recovery_plan(&Recovery::FromAgents);
    assert_eq!((plan.deleted, plan.kept), (BTreeMap::new(), ids(&["web"])));
    let removed = conflict("web", Disagreement::CopyRemoved(other));
    assert_eq!(plan.conflicts, BTreeSet::from([removed]), "nobody heard so far has it");
    let way = Recovery::FromSnapshot(Box::new(copy));
    assert_eq!(c.world.recovery_plan(&way).conflicts, BTreeSet::new());
    c.deaf.clear();
    assert!(is_done(&c.ask(Ask::Recover(Recovery::FromAgents))));
    c.pass(5_000);
    assert_eq!((c.phase("web"), c.node_of("web")), (Some(Phase::Running), Some(place)));
}

/// A disk was deleted and made again; an older store still orders its deletion.
#[test]
fn the_data_of_a_recovered_workload_is_not_deleted_by_an_order_from_before() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    let disk = volume(VolumeDriver::Local, "data", true);
    let (web, key) = (workload_id("web"), VolumeKey::of(&disk));
    c.apply("web", with_volume(disk.clone()), "r1");
    c.ask(Ask::Delete(web.clone()));
    c.deaf.push(node_id(0));
    c.ask(Ask::DeleteVolume(key.clone()));
    let copy = c.store.snapshot.clone();
    assert_eq!(copy.graves.len(), 1, "the deletion waits for the node");
    c.deaf.clear();
    c.pass(30_000);
    c.apply("web", with_volume(disk), "r2");
    assert!(c.store.snapshot.graves.is_empty() && c.phase("web") == Some(Phase::Running));

    put_back(&mut c, copy);
    c.agents.get_mut(&node_id(0)).unwrap().tombstones.remove(&key.order_id());
    assert!(is_done(&c.ask(Ask::Recover(Recovery::FromAgents))));
    c.pass(30_000);
    assert_eq!(c.phase("web"), Some(Phase::Running));
    assert!(!c.agents[&node_id(0)].tombstones.contains_key(&key.order_id()), "the data is gone");
    assert!(c.store.snapshot.graves.is_empty());
    let kept = c.world.volume(&key).unwrap();
    assert_eq!((kept.phase, kept.home.as_ref()), (VolumePhase::Attached, Some(&node_id(0))));
}

/// A node that was not heard may have been told to run what the restored store places elsewhere.
#[test]
fn no_node_goes_on_in_the_life_it_had_before_a_recovery() {
    for way in [Recovery::FromAgents, Recovery::AcceptEmpty] {
        let (mut c, copy) = moved_on();
        put_back(&mut c, copy);
        assert!(is_done(&c.ask(Ask::Recover(way))));
        let said = c.beat(&node_id(0));
        assert!(matches!(said, BeatAnswer::RegisterAgain { .. }), "{said:?}");
    }
}

/// However long the operator thought about it.
#[test]
fn no_node_is_missed_after_a_long_recovery() {
    let (mut c, copy) = moved_on();
    put_back(&mut c, copy);
    c.pass(60_000);
    let before = c.store.events.len();
    assert!(is_done(&c.ask(Ask::Recover(Recovery::FromAgents))));
    c.pass(20_000);
    let missed = c.store.events.iter().skip(before).filter(
        |event| matches!(event.what, Happening::NodeCondition { to, .. } if to != Condition::Ready),
    );
    assert_eq!(missed.collect::<Vec<_>>(), Vec::<&Arc<Event>>::new());
    assert_eq!(c.phase("old"), Some(Phase::Running));
}

#[test]
fn a_snapshot_becomes_the_truth_and_everything_of_it_is_stored() {
    let (mut c, mut copy) = moved_on();
    // A failure and a difference are in it, too.
    copy.retries.push(Arc::new(persys_model::retry::Retry {
        workload: workload_id("old"),
        attempts: 2,
        max_attempts: 5,
        next_at: Some(WallMillis(7)),
        avoid: Vec::new(),
    }));
    let event = c.store.events.last().unwrap().seq;
    let before = c.world.head().clone();
    let stored = c.store.snapshot.clone();
    put_back(&mut c, stored);
    let way = Recovery::FromSnapshot(Box::new(copy));
    assert!(is_done(&c.ask(Ask::Recover(way))));
    let head = c.world.head().clone();
    assert!(head.incarnation > before.incarnation && head.seq > before.seq);
    assert!(head.epoch > before.epoch, "decisions count on");
    let told: Vec<_> = c.store.events.iter().map(|event| event.seq).collect();
    assert!(told.is_sorted() && *told.last().unwrap() > event, "so do events");
    assert_eq!(c.store.snapshot.retries.len(), 1);
    assert_eq!(c.store.snapshot.workloads.len(), 3);
    c.pass(20_000);
    for name in ["old", "gone", "changed"] {
        assert_eq!(c.phase(name), Some(Phase::Running), "{name}");
    }
    assert_eq!(
        &*c.world.workload(&workload_id("changed")).unwrap().workload.revision.to_string(),
        "r1"
    );
    c.tell_all(&node_id(0));
    let drifts: Vec<_> = c.world.drifts().map(|view| view.drift.workload.clone()).collect();
    assert_eq!(drifts, [workload_id("new")], "left alone");
    assert!(c.agents[&node_id(0)].held.contains_key(&workload_id("new")));
    // A leader that reads the store finds the same.
    let stored = c.store.snapshot.clone();
    let (world, _) = World::open(Settings::default(), Term(2), stored, None, Arc::from("x"), c.now);
    assert_eq!(world.mode().0, Mode::Normal);
    assert_eq!(world.workloads().count(), 3);
}

/// What would be decided about a snapshot before the new incarnation begins is not stored like that, so
/// nobody hears of it. A node that was not heard during the recovery would have obeyed.
#[test]
fn nothing_is_ordered_that_was_decided_before_the_new_incarnation() {
    let (mut c, mut copy) = moved_on();
    // In the snapshot something waits for room that is there now.
    let waits = copy.assignments.iter_mut().find(|one| one.workload == workload_id("old")).unwrap();
    let waits = Arc::make_mut(waits);
    (waits.phase, waits.place) = (Phase::Pending, None);
    let stored = c.store.snapshot.clone();
    put_back(&mut c, stored);
    c.commands.clear();
    let (request, author) = (c.request(), Arc::new(Author::new("operator ann")));
    let way = Recovery::FromSnapshot(Box::new(copy));
    c.step(Input::Ask(request, author, Ask::Recover(way)));
    let incarnation = c.world.head().incarnation;
    assert!(!c.commands.is_empty());
    for (node, command) in &c.commands {
        assert_eq!(command.term.incarnation(), incarnation, "{node}: {command:?}");
        assert!(command.epoch >= Epoch(Term(1).in_incarnation(incarnation).0), "{command:?}");
    }
}

fn drift_events(c: &Cluster) -> Vec<(DriftKind, bool)> {
    let events = c.store.events.iter().filter_map(|event| match &event.what {
        Happening::Drift { kind, resolved, .. } => Some((*kind, *resolved)),
        _ => None,
    });
    events.collect()
}

#[test]
fn another_state_is_a_drift_until_the_node_says_what_is_recorded() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    let held = &mut c.agents.get_mut(&node_id(0)).unwrap().held;
    held.get_mut(&workload_id("web")).unwrap().report.state = State::Stopped;
    c.tell_all(&node_id(0));
    let kind = DriftKind::StateMismatch;
    assert_eq!(drift_events(&c), [(kind, false)]);
    assert_eq!(c.store.snapshot.drifts.len(), 1, "recorded");
    assert_ne!(c.phase("web"), Some(Phase::Running), "the node's word is taken");
    let held = &mut c.agents.get_mut(&node_id(0)).unwrap().held;
    held.get_mut(&workload_id("web")).unwrap().report.state = State::Running;
    c.beat(&node_id(0));
    assert_eq!(c.phase("web"), Some(Phase::Running));
    assert_eq!(drift_events(&c), [(kind, false), (kind, true)]);
    assert!(c.store.snapshot.drifts.is_empty());
}

/// It runs although it was stopped: somebody started it by hand.
#[test]
fn what_runs_although_it_was_stopped_is_a_drift_until_it_rests() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    c.set_desired("web", Desired::Stopped);
    assert_eq!(c.phase("web"), Some(Phase::Stopped));
    let set = |c: &mut Cluster, state: State| {
        let held = &mut c.agents.get_mut(&node_id(0)).unwrap().held;
        held.get_mut(&workload_id("web")).unwrap().report.state = state;
        c.tell_all(&node_id(0));
    };
    let kind = DriftKind::StateMismatch;
    set(&mut c, State::Running);
    assert_eq!(drift_events(&c), [(kind, false)]);
    set(&mut c, State::Stopped);
    assert_eq!(drift_events(&c), [(kind, false), (kind, true)]);
    assert!(c.store.snapshot.drifts.is_empty());
}

/// The agent forgot it and has it again at once: nothing silent about that either.
#[test]
fn what_is_missing_for_a_moment_is_recorded_and_told_too() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    c.agents.get_mut(&node_id(0)).unwrap().held.clear();
    let found = c.store.writes;
    c.tell_all(&node_id(0));
    let kind = DriftKind::MissingOnAgent;
    assert_eq!(drift_events(&c), [(kind, false), (kind, true)], "told again, and taken in");
    assert!(c.store.writes >= found + 4, "a record came and went, each with its event");
    assert!(c.store.snapshot.drifts.is_empty());
    assert_eq!(c.phase("web"), Some(Phase::Running));
}

#[test]
fn what_a_node_lacks_is_told_again_and_a_drift_until_it_is_there() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    // It drops the workload, hears nothing of being told again, and says so.
    c.agents.get_mut(&node_id(0)).unwrap().held.clear();
    c.deaf.push(node_id(0));
    for _ in 0..20 {
        c.now.mono = c.now.mono.plus(1_000);
        c.beat(&node_id(0));
        c.tell_all(&node_id(0));
    }
    let kind = DriftKind::MissingOnAgent;
    assert_eq!(drift_events(&c), [(kind, false)]);
    assert_eq!(c.store.snapshot.drifts.len(), 1);
    let view = c.world.drifts().next().unwrap();
    assert!(view.drift.kind == kind && view.workload.is_some() && view.held.is_none());
    c.deaf.clear();
    c.pass(5_000);
    c.tell_all(&node_id(0));
    assert!(c.agents[&node_id(0)].held.contains_key(&workload_id("web")), "told again");
    assert_eq!(drift_events(&c), [(kind, false), (kind, true)]);
    assert!(c.store.snapshot.drifts.is_empty());
}

#[test]
fn another_decision_is_a_drift_until_the_node_holds_ours() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    // A decision that was given out, for another workload.
    let later = c.assignment("web").place.unwrap().epoch.next();
    c.apply("other", container(500, 512), "r1");
    let held = &mut c.agents.get_mut(&node_id(0)).unwrap().held;
    held.get_mut(&workload_id("web")).unwrap().report.epoch = later;
    c.tell_all(&node_id(0));
    let kind = DriftKind::RevisionMismatch;
    assert_eq!(drift_events(&c)[..1], [(kind, false)]);
    c.tell_all(&node_id(0));
    assert_eq!(drift_events(&c), [(kind, false), (kind, true)]);
    assert!(c.assignment("web").place.unwrap().epoch > later, "decided anew above it");
    assert!(c.store.snapshot.drifts.is_empty());
}

/// A late answer to a beat of the last session makes an agent register once more: it is given the session
/// it has, in which it was told everything, and needs every word again.
#[test]
fn what_an_agent_doubts_is_told_again_in_the_same_session() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    let doubted = |c: &mut Cluster| {
        let agent = c.agents.get_mut(&node_id(0)).unwrap();
        let report = &mut agent.held.get_mut(&workload_id("web")).unwrap().report;
        (report.confirmed, report.state) = (false, State::Stopped);
    };
    doubted(&mut c);
    c.beat(&node_id(0));
    c.obey();
    assert_eq!(c.phase("web"), Some(Phase::Running), "it was told by a beat");
    doubted(&mut c);
    c.tell_all(&node_id(0));
    assert_eq!(c.phase("web"), Some(Phase::Running), "it was told by an inventory");
}

#[test]
fn a_comparison_is_made_every_thirty_seconds_and_when_asked_for() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    let wants =
        |answer: BeatAnswer| matches!(answer, BeatAnswer::Heard { want_inventory: true, .. });
    c.tell_all(&node_id(0));
    c.tell_all(&node_id(1));
    assert!(!wants(c.beat(&node_id(0))) && !wants(c.beat(&node_id(1))));
    let asked = c.ask(Ask::CheckDrift(Some(node_id(1))));
    assert!(is_done(&asked), "{asked:?}");
    assert!(!wants(c.beat(&node_id(0))) && wants(c.beat(&node_id(1))));
    c.tell_all(&node_id(1));
    assert!(!wants(c.beat(&node_id(1))));
    c.ask(Ask::CheckDrift(None));
    assert!(wants(c.beat(&node_id(0))) && wants(c.beat(&node_id(1))));
    let unknown = c.ask(Ask::CheckDrift(Some(node_id(9))));
    assert!(matches!(unknown, Reply::Refused { .. }), "{unknown:?}");
    c.tell_all(&node_id(0));
    assert_eq!(Settings::default().drift_interval_ms, 30_000);
    c.pass(30_000);
    assert!(wants(c.beat(&node_id(0))));
}

#[test]
fn an_orphan_that_is_left_alone_stays_listed_as_such() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    let mut stray = c.agents[&node_id(0)].held[&workload_id("web")].clone();
    stray.report.workload = workload_id("stray");
    c.agents.get_mut(&node_id(0)).unwrap().held.insert(workload_id("stray"), stray);
    c.tell_all(&node_id(0));
    assert!(c.world.drifts().next().unwrap().held.is_some());
    let ignore = Ask::Orphan(node_id(0), workload_id("stray"), OrphanVerdict::Ignore);
    assert!(is_done(&c.ask(ignore)));
    c.pass(60_000);
    c.tell_all(&node_id(0));
    let shown: Vec<_> = c.world.drifts().map(|view| view.drift.ignored).collect();
    assert_eq!(shown, [true]);
    assert!(c.store.snapshot.drifts[0].ignored, "and stored");
    c.agents.get_mut(&node_id(0)).unwrap().held.remove(&workload_id("stray"));
    c.tell_all(&node_id(0));
    assert_eq!(c.world.drifts().count(), 0);
}
