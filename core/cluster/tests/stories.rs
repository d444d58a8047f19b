//! Short stories about one scheduler: what it does when users, nodes and operators act.

#![allow(clippy::wildcard_enum_match_arm, reason = "a story looks at the events it is about")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_cluster::effects::{RefusalCode, Reply};
use persys_cluster::input::{Ask, Input, OrphanVerdict, Probe, Recovery};
use persys_cluster::record::Snapshot;
use persys_cluster::settings::Settings;
use persys_cluster::world::World;
use persys_model::assignment::ReasonCode;
use persys_model::event::Happening;
use persys_model::failure::{Failure, FailureReason, FailureStage};
use persys_model::inventory::State;
use persys_model::link::{BeatAnswer, RegistrationAnswer};
use persys_model::mode::Mode;
use persys_model::node::Condition;
use persys_model::phase::Phase;
use persys_model::spec::{Class, OnNodeLoss, WorkloadType};
use persys_model::time::Millis;
use persys_model::workload::Desired;

use support::{Cluster, container, facts, node_id, workload_id};

fn refused(reply: &Reply) -> Option<RefusalCode> {
    match reply {
        Reply::Refused { code, .. } => Some(*code),
        Reply::Done { .. } | Reply::Unknown { .. } => None,
    }
}

#[test]
fn a_workload_is_placed_runs_and_leaves_nothing_when_deleted() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    assert_eq!(refused(&c.apply("web", container(500, 512), "r1")), None);
    assert_eq!(c.phase("web"), Some(Phase::Running));
    let node = c.node_of("web").unwrap();
    assert_eq!(c.world.node(&node).unwrap().free.cpu_millicores, 3500);
    assert_eq!(refused(&c.ask(Ask::Delete(workload_id("web")))), None);
    assert_eq!(c.phase("web"), None);
    assert_eq!(c.world.node(&node).unwrap().free.cpu_millicores, 4000);
    let s = &c.store.snapshot;
    assert!(s.workloads.is_empty() && s.assignments.is_empty() && s.graves.is_empty());
}

#[test]
fn a_busy_node_gets_nothing_new_and_keeps_what_it_has() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("old", container(500, 512), "r1");
    let node = c.node_of("old").unwrap();
    c.beat_of(&node, Some("92 % of its disk is in use"));
    c.apply("new", container(500, 512), "r1");
    assert_eq!((c.phase("old"), c.phase("new")), (Some(Phase::Running), Some(Phase::Pending)));
    let verdicts = c.world.judge(&workload_id("new"), 5).unwrap();
    let told = format!("{verdicts:?}");
    assert!(told.contains("92 % of its disk"), "it must say why: {told}");
    c.beat_of(&node, None);
    c.obey();
    assert_eq!(c.phase("new"), Some(Phase::Running));
}

#[test]
fn a_workload_costs_four_keys_from_submission_to_running() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    // Events and audit records of one commit share a key each.
    let keys = |c: &Cluster| c.store.writes - c.store.events.len() - c.store.audit.len();
    let before = keys(&c);
    c.apply("web", container(500, 512), "r1");
    // The intent, the decision when it is placed and when it runs, and the outcome.
    assert_eq!(keys(&c) - before, 4);
    let quiet = c.store.writes;
    c.pass(60_000);
    assert_eq!(c.store.writes, quiet, "a quiet minute writes nothing");
}

#[test]
fn the_same_request_twice_changes_nothing() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    let (writes, epoch) = (c.store.writes, c.assignment("web").place.unwrap().epoch);
    assert_eq!(refused(&c.apply("web", container(500, 512), "r1")), None);
    assert_eq!(c.store.writes, writes);
    assert_eq!(c.assignment("web").place.unwrap().epoch, epoch);
}

#[test]
fn an_update_goes_out_at_once_on_the_same_node() {
    let mut c = Cluster::with_nodes(3, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    let (node, epoch) = (c.node_of("web"), c.assignment("web").place.unwrap().epoch);
    c.apply("web", container(700, 512), "r2");
    let place = c.assignment("web").place.unwrap();
    assert_eq!((Some(place.node.clone()), c.phase("web")), (node, Some(Phase::Running)));
    assert!(place.epoch > epoch);
    assert_eq!(c.world.node(&place.node).unwrap().free.cpu_millicores, 3300);
}

#[test]
fn an_update_that_fits_nowhere_leaves_the_old_revision_running() {
    let mut c = Cluster::with_nodes(1, 1000, 1024);
    c.apply("web", container(500, 512), "r1");
    c.apply("web", container(5000, 512), "r2");
    assert_eq!(c.phase("web"), Some(Phase::Running));
    assert_eq!(c.assignment("web").reason.code, ReasonCode::UpdateWaits);
    c.join(facts(&node_id(9), 8000, 8192));
    assert_eq!(c.node_of("web"), Some(node_id(9)), "moved when room appeared");
    assert!(!c.agents[&node_id(0)].held.contains_key(&workload_id("web")));
}

#[test]
fn stop_and_start_keep_the_node_and_give_cpu_back_meanwhile() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    let node = c.node_of("web").unwrap();
    c.set_desired("web", Desired::Stopped);
    assert_eq!(c.phase("web"), Some(Phase::Stopped));
    assert_eq!(c.world.node(&node).unwrap().free.cpu_millicores, 4000);
    c.set_desired("web", Desired::Running);
    assert_eq!((c.phase("web"), c.node_of("web")), (Some(Phase::Running), Some(node)));
}

#[test]
fn what_fits_nowhere_waits_with_a_reason_and_goes_when_room_appears() {
    let mut c = Cluster::with_nodes(1, 1000, 1024);
    c.apply("a", container(800, 512), "r1");
    c.apply("b", container(800, 512), "r1");
    assert_eq!(c.phase("b"), Some(Phase::Pending));
    let reason = c.assignment("b").reason;
    assert_eq!(reason.code, ReasonCode::NoNodeFits);
    assert!(reason.message.contains("cpu"), "{}", reason.message);
    c.ask(Ask::Delete(workload_id("a")));
    assert_eq!(c.phase("b"), Some(Phase::Running));
}

#[test]
fn a_lost_node_is_failed_over_and_its_leftovers_removed_when_it_returns() {
    let mut c = Cluster::with_nodes(4, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    let node = c.node_of("web").unwrap();
    c.deaf.push(node.clone());
    c.pass(7_000);
    assert_eq!(c.world.node(&node).unwrap().node.condition, Condition::NotReady);
    assert_eq!(c.node_of("web").as_ref(), Some(&node), "silence alone moves nothing");
    c.pass(6_000);
    assert_eq!(c.world.node(&node).unwrap().node.condition, Condition::Lost);
    let elsewhere = c.node_of("web").unwrap();
    assert_ne!(elsewhere, node);
    assert_eq!(c.phase("web"), Some(Phase::Running));
    c.deaf.clear();
    c.pass(2_000);
    assert!(c.agents[&node].held.is_empty(), "the old copy went");
    assert!(c.assignment("web").former.is_empty());
    assert_eq!(c.node_of("web"), Some(elsewhere), "and the new one stayed");
}

/// Time passes; all beat but the first node, and nobody answers its probes.
fn pass_without_probes(c: &mut Cluster, seconds: u64) {
    for _ in 0..seconds {
        c.now.mono = c.now.mono.plus(1_000);
        for n in 1..4 {
            c.beat(&node_id(n));
        }
        c.step(Input::Tick);
    }
}

/// Silence is noticed only when the patience for a probe ends; by then later ones may be back.
#[test]
fn the_silence_of_an_earlier_probe_does_not_outdo_the_answer_to_a_later_one() {
    let mut c = Cluster::with_nodes(4, 4000, 8192);
    let node = node_id(0);
    pass_without_probes(&mut c, 8);
    assert_eq!(c.world.node(&node).unwrap().node.condition, Condition::NotReady);
    let [(_, session, first), .., (_, _, last)] = c.probes[..] else { panic!("{:?}", c.probes) };
    assert!(first < last);
    let found = |asked, found| Input::Probed { node: node_id(0), session, asked, found };
    c.step(found(last, Probe::Answered));
    c.step(found(first, Probe::Silent));
    pass_without_probes(&mut c, 6);
    assert_eq!(c.world.node(&node).unwrap().node.condition, Condition::NotReady, "it answers");
    let (_, _, newest) = *c.probes.last().unwrap();
    c.step(found(newest, Probe::Silent));
    pass_without_probes(&mut c, 1);
    assert_eq!(c.world.node(&node).unwrap().node.condition, Condition::Lost);
}

#[test]
fn a_probe_from_before_the_last_beat_says_nothing_about_the_silence_after_it() {
    let mut c = Cluster::with_nodes(4, 4000, 8192);
    let node = node_id(0);
    pass_without_probes(&mut c, 8);
    let (_, session, asked) = *c.probes.last().unwrap();
    c.beat(&node);
    pass_without_probes(&mut c, 8);
    assert_eq!(c.world.node(&node).unwrap().node.condition, Condition::NotReady);
    c.step(Input::Probed { node: node.clone(), session, asked, found: Probe::Silent });
    pass_without_probes(&mut c, 6);
    assert_eq!(c.world.node(&node).unwrap().node.condition, Condition::NotReady);
}

#[test]
fn work_with_data_on_a_lost_node_stays_and_says_so() {
    let mut c = Cluster::with_nodes(3, 4000, 8192);
    let mut spec = container(500, 512);
    spec.placement.on_node_loss = OnNodeLoss::Stay;
    c.apply("db", spec, "r1");
    let node = c.node_of("db").unwrap();
    c.deaf.push(node.clone());
    c.pass(15_000);
    assert_eq!(c.node_of("db").as_ref(), Some(&node));
    let reason = c.assignment("db").reason;
    assert_eq!(&*reason.message, format!("will not move: its data is on {node}"));
}

#[test]
fn exclusive_work_waits_until_its_fence_has_fallen() {
    let mut c = Cluster::with_nodes(3, 4000, 8192);
    let mut spec = container(500, 512);
    spec.placement.class = Class::Exclusive;
    c.apply("one", spec, "r1");
    let node = c.node_of("one").unwrap();
    c.deaf.push(node.clone());
    c.pass(20_000);
    assert_eq!(c.node_of("one").as_ref(), Some(&node));
    assert_eq!(c.assignment("one").reason.code, ReasonCode::WaitsForFence);
    c.pass(12_000);
    assert_ne!(c.node_of("one").unwrap(), node);
    assert_eq!(c.phase("one"), Some(Phase::Running));
}

#[test]
fn exclusive_work_goes_only_where_a_fence_works() {
    let mut c = Cluster::new(Settings::default());
    let mut fenceless = facts(&node_id(0), 4000, 8192);
    fenceless.fence = false;
    c.join(fenceless);
    let mut spec = container(500, 512);
    spec.placement.class = Class::Exclusive;
    c.apply("one", spec, "r1");
    assert_eq!(c.phase("one"), Some(Phase::Pending));
    assert!(c.assignment("one").reason.message.contains("fence"), "{:?}", c.assignment("one"));
    c.join(facts(&node_id(1), 4000, 8192));
    assert_eq!(c.node_of("one"), Some(node_id(1)));
}

#[test]
fn many_silent_nodes_put_the_brake_on() {
    let mut c = Cluster::with_nodes(5, 4000, 8192);
    for n in 0..5 {
        c.apply(&format!("w{n}"), container(500, 512), "r1");
    }
    c.deaf = vec![node_id(0), node_id(1), node_id(2)];
    c.pass(30_000);
    assert!(c.world.brake());
    for n in 0..3 {
        assert_eq!(c.world.node(&node_id(n)).unwrap().node.condition, Condition::NotReady);
    }
    assert_eq!(refused(&c.ask(Ask::ReleaseBrake)), None);
    c.pass(3_000);
    assert_eq!(c.world.node(&node_id(0)).unwrap().node.condition, Condition::Lost);
}

#[test]
fn deleting_on_an_absent_node_is_quick_and_completed_on_return() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    let node = c.node_of("web").unwrap();
    c.deaf.push(node.clone());
    c.pass(7_000);
    c.ask(Ask::Delete(workload_id("web")));
    assert_eq!(c.phase("web"), None);
    assert_eq!(c.store.snapshot.graves.len(), 1);
    // The id can be used again at once, and the grave does not touch the new one.
    c.apply("web", container(500, 512), "r9");
    let fresh = c.node_of("web").unwrap();
    assert_ne!(fresh, node);
    c.deaf.clear();
    c.pass(15_000);
    assert!(c.agents[&node].held.is_empty());
    assert!(c.store.snapshot.graves.is_empty());
    assert_eq!((c.phase("web"), c.node_of("web")), (Some(Phase::Running), Some(fresh)));
}

#[test]
fn a_drained_node_is_emptied_and_blocked_work_stays_running() {
    let mut c = Cluster::with_nodes(2, 1000, 1024);
    c.apply("a", container(600, 100), "r1");
    c.apply("b", container(300, 100), "r1");
    let node = c.node_of("a").unwrap();
    c.ask(Ask::Drain(node.clone(), Arc::from("maintenance")));
    assert_ne!(c.node_of("a").unwrap(), node);
    let (full, other) = (c.node_of("a").unwrap(), node);
    c.ask(Ask::Undrain(other.clone()));
    c.apply("c", container(900, 100), "r1");
    assert_eq!(c.node_of("c"), Some(other.clone()));
    c.ask(Ask::Drain(full.clone(), Arc::from("maintenance")));
    assert_eq!((c.phase("a"), c.node_of("a")), (Some(Phase::Running), Some(full)));
    c.ask(Ask::Delete(workload_id("c")));
    assert_eq!((c.phase("a"), c.node_of("a")), (Some(Phase::Running), Some(other)));
}

#[test]
fn failures_are_tried_again_with_growing_waits_until_the_budget_is_used() {
    let mut c = Cluster::with_nodes(1, 1000, 1024);
    c.apply("web", container(100, 100), "r1");
    let mut epochs = Vec::new();
    for attempt in 1..=5 {
        epochs.push(c.assignment("web").place.unwrap().epoch);
        let failure = Failure::new(FailureReason::ImagePullFailed, "registry down");
        c.say(&node_id(0), "web", State::Failed(failure));
        let wanted = if attempt < 5 { Phase::Backoff } else { Phase::Failed };
        assert_eq!(c.phase("web"), Some(wanted), "attempt {attempt}");
        if attempt < 5 {
            c.pass(121_000);
        }
    }
    assert!(epochs.is_sorted() && epochs.windows(2).all(|pair| pair[0] < pair[1]));
    let reason = c.assignment("web").reason;
    assert_eq!(reason.failure.unwrap().reason, FailureReason::ImagePullFailed);
    c.pass(600_000);
    assert_eq!(c.phase("web"), Some(Phase::Failed), "no hidden retries");
    c.ask(Ask::Retry(workload_id("web")));
    assert_eq!(c.phase("web"), Some(Phase::Running));
}

#[test]
fn a_program_that_its_restart_policy_gave_up_is_started_again_only_by_hand() {
    let mut c = Cluster::with_nodes(2, 1000, 1024);
    c.apply("job", container(100, 100), "r1");
    let home = c.node_of("job").unwrap();
    let first = c.assignment("job").place.unwrap().epoch;
    let failure = Failure::new(FailureReason::RuntimeError, "exited with code 3\nlast lines:\nno");
    c.say(&home, "job", State::Failed(failure.in_stage(FailureStage::Run)));
    c.pass(600_000);
    assert_eq!(c.phase("job"), Some(Phase::Failed));
    let assignment = c.assignment("job");
    assert_eq!(assignment.place.unwrap().epoch, first, "no further decision");
    let (line, evidence) = assignment.reason.message.split_once('\n').unwrap();
    assert_eq!(line, "exited with code 3; its restart policy does not start it again");
    assert_eq!(evidence, "last lines:\nno");
    // Neither a drain nor the loss of its node starts it anywhere.
    c.ask(Ask::Drain(home.clone(), Arc::from("maintenance")));
    assert_eq!((c.phase("job"), c.node_of("job")), (Some(Phase::Failed), None));
    c.ask(Ask::Undrain(home));
    c.ask(Ask::Retry(workload_id("job")));
    assert_eq!(c.phase("job"), Some(Phase::Running));
}

#[test]
fn a_retry_keeps_the_id_and_the_revision() {
    let mut c = Cluster::with_nodes(1, 1000, 1024);
    c.apply("web", container(100, 100), "r7");
    let workloads = |c: &Cluster| {
        let all = c.store.snapshot.workloads.iter();
        all.map(|one| (one.id.to_string(), one.revision.to_string())).collect::<Vec<_>>()
    };
    let wanted = [("web".to_owned(), "r7".to_owned())];
    for attempt in 1..5 {
        let failure = Failure::new(FailureReason::ImagePullFailed, "registry down");
        c.say(&node_id(0), "web", State::Failed(failure));
        assert_eq!(workloads(&c), wanted, "after attempt {attempt}");
        c.pass(121_000);
        assert_eq!(c.phase("web"), Some(Phase::Running), "attempt {}", attempt + 1);
        let held = &c.agents[&node_id(0)].held;
        let told: Vec<_> =
            held.iter().map(|(id, held)| (id.to_string(), held.revision.to_string())).collect();
        assert_eq!(told, wanted, "and so the agent is told");
    }
    c.ask(Ask::Retry(workload_id("web")));
    assert_eq!(workloads(&c), wanted, "also by hand");
}

#[test]
fn an_order_leaves_after_its_decision_is_stored() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    let request = c.request();
    let author = Arc::new(persys_model::event::Author::new("ann"));
    let apply = Ask::Apply {
        workload: workload_id("web"),
        spec: Some(Arc::new(container(500, 512))),
        revision: Some(persys_model::id::RevisionId::fixed("r1")),
        desired: Desired::Running,
    };
    let effects = c.world.step(Input::Ask(request, author, apply), c.now);
    assert!(!effects.units.is_empty(), "it is to be written");
    assert!(effects.out.is_empty(), "and nothing goes out before: {:?}", effects.out);
    c.absorb(effects);
    assert_eq!(c.commands.len(), 1, "written, it is sent");
    c.obey();
    assert_eq!(c.phase("web"), Some(Phase::Running));
}

#[test]
fn a_spec_error_is_not_tried_again() {
    let mut c = Cluster::with_nodes(1, 1000, 1024);
    c.apply("web", container(100, 100), "r1");
    let failure = Failure::new(FailureReason::ImageNotFound, "no such image");
    c.say(&node_id(0), "web", State::Failed(failure));
    assert_eq!(c.phase("web"), Some(Phase::Failed));
    assert_eq!(c.world.node(&node_id(0)).unwrap().free.cpu_millicores, 1000);
}

#[test]
fn a_new_leader_moves_nothing_and_tells_nothing_again() {
    let mut c = Cluster::with_nodes(3, 4000, 8192);
    for n in 0..6 {
        c.apply(&format!("w{n}"), container(500, 512), "r1");
    }
    let before: Vec<_> = (0..6).map(|n| c.assignment(&format!("w{n}"))).collect();
    let writes = c.store.writes;
    c.reopen();
    for n in 0..3 {
        c.tell_all(&node_id(n));
    }
    c.pass(20_000);
    let after: Vec<_> = (0..6).map(|n| c.assignment(&format!("w{n}"))).collect();
    assert_eq!(before, after);
    assert_eq!(c.store.writes, writes);
}

#[test]
fn an_agent_that_lost_everything_is_told_again_without_a_new_decision() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    let epoch = c.assignment("web").place.unwrap().epoch;
    c.agents.get_mut(&node_id(0)).unwrap().held.clear();
    c.register(&node_id(0));
    assert_eq!(c.assignment("web").place.unwrap().epoch, epoch);
    assert!(c.agents[&node_id(0)].held.contains_key(&workload_id("web")));
    assert_eq!(c.phase("web"), Some(Phase::Running));
}

#[test]
fn a_second_machine_with_the_same_name_is_refused_while_the_first_lives() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    let mut twin = facts(&node_id(0), 4000, 8192);
    twin.host = Arc::from("another-machine");
    let answer = c.join(twin);
    assert!(matches!(answer, RegistrationAnswer::Refused { .. }), "{answer:?}");
}

#[test]
fn an_orphan_is_recorded_and_left_alone_until_an_operator_decides() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    let held = c.agents[&node_id(0)].held[&workload_id("web")].clone();
    c.ask(Ask::Delete(workload_id("web")));
    let mut stray = held;
    stray.report.workload = workload_id("stray");
    c.agents.get_mut(&node_id(0)).unwrap().held.insert(workload_id("stray"), stray);
    c.tell_all(&node_id(0));
    assert_eq!(c.store.snapshot.drifts.len(), 1);
    assert_eq!(c.world.node(&node_id(0)).unwrap().free.cpu_millicores, 3500, "counted");
    c.pass(120_000);
    assert_eq!(c.agents[&node_id(0)].held.len(), 1, "never touched");
    let adopt = Ask::Orphan(node_id(0), workload_id("stray"), OrphanVerdict::Adopt);
    assert_eq!(refused(&c.ask(adopt)), None);
    assert_eq!(c.phase("stray"), Some(Phase::Running));
    c.tell_all(&node_id(0));
    assert!(c.store.snapshot.drifts.is_empty());
}

#[test]
fn degraded_refuses_writes_holds_agents_and_recovers_by_reading_again() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    let writes = c.store.writes;
    c.step(Input::StoreLost { why: Arc::from("timeout") });
    assert_eq!(c.world.mode().0, Mode::Degraded);
    let reply = c.apply("more", container(500, 512), "r1");
    assert_eq!(refused(&reply), Some(RefusalCode::Unavailable));
    c.pass(60_000);
    assert_eq!(c.store.writes, writes, "frozen");
    assert!(c.commands.is_empty());
    let snapshot = c.store.snapshot.clone();
    c.step(Input::Loaded(snapshot));
    assert_eq!(c.world.mode().0, Mode::Normal);
    assert_eq!(c.phase("web"), Some(Phase::Running));
    assert_eq!(refused(&c.apply("more", container(500, 512), "r1")), None);
}

#[test]
fn an_empty_store_is_recovered_from_what_agents_hold() {
    let mut c = Cluster::with_nodes(3, 4000, 8192);
    for n in 0..6 {
        c.apply(&format!("w{n}"), container(500, 512), "r1");
    }
    c.set_desired("w5", Desired::Stopped);
    let nodes: BTreeMap<_, _> = (0..6).map(|n| (n, c.node_of(&format!("w{n}")).unwrap())).collect();
    let known = c.world.high_water();
    c.store = support::Store::default();
    let (mut world, effects) = World::open(
        Settings::default(),
        persys_model::token::Term(1),
        Snapshot::default(),
        Some(known),
        Arc::from("new"),
        c.now,
    );
    world.set_leads_until(Millis(u64::MAX));
    c.world = world;
    c.absorb(effects);
    assert_eq!(c.world.mode().0, Mode::Recovery);
    c.pass(3_000);
    assert_eq!(c.store.writes, 0, "frozen until somebody decides");
    assert_eq!(c.world.recovery_plan(&Recovery::FromAgents).restored.len(), 6);
    assert_eq!(refused(&c.ask(Ask::Recover(Recovery::FromAgents))), None);
    c.pass(15_000);
    for n in 0..6 {
        let name = format!("w{n}");
        let phase = if n == 5 { Phase::Stopped } else { Phase::Running };
        assert_eq!((c.phase(&name), c.node_of(&name).as_ref()), (Some(phase), nodes.get(&n)));
    }
}

#[test]
fn an_interrupted_rebuilding_is_not_taken_for_the_truth() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    let mut half = c.store.snapshot.clone();
    half.workloads.clear();
    half.assignments.clear();
    half.head.as_mut().unwrap().rebuilding = true;
    let (world, effects) = World::open(
        Settings::default(),
        persys_model::token::Term(9),
        half,
        None,
        Arc::from("new"),
        c.now,
    );
    assert_eq!(world.mode().0, Mode::Recovery);
    assert!(effects.units.is_empty());
}

#[test]
fn every_change_of_phase_has_exactly_one_event() {
    let mut c = Cluster::with_nodes(3, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    c.set_desired("web", Desired::Stopped);
    c.set_desired("web", Desired::Running);
    c.ask(Ask::Delete(workload_id("web")));
    let story: Vec<_> = c
        .store
        .events
        .iter()
        .filter_map(|event| match &event.what {
            Happening::Workload { from, to, .. } => Some((*from, *to)),
            _ => None,
        })
        .collect();
    let phases: Vec<_> = story.iter().map(|(_, to)| *to).collect();
    assert_eq!(
        phases,
        [
            Some(Phase::Pending),
            Some(Phase::Starting),
            Some(Phase::Running),
            Some(Phase::Stopping),
            Some(Phase::Stopped),
            Some(Phase::Starting),
            Some(Phase::Running),
            Some(Phase::Deleting),
            None
        ]
    );
    for pair in story.windows(2) {
        assert_eq!(pair[0].1, pair[1].0, "no gap");
    }
    let seqs: Vec<_> = c.store.events.iter().map(|event| event.seq.0).collect();
    assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1));
}

#[test]
fn a_node_without_a_runtime_says_how_to_get_it_and_takes_work_once_it_has() {
    let mut c = Cluster::new(Settings::default());
    let advice = "Docker does not answer; install it";
    let bare = |mut facts: persys_model::node::NodeFacts| {
        facts.types.remove(&WorkloadType::Container);
        facts.missing.insert(WorkloadType::Container, Arc::from(advice));
        facts
    };
    c.join(bare(facts(&node_id(1), 4000, 8192)));
    c.apply("web", container(500, 512), "r1");
    assert_eq!(c.phase("web"), Some(Phase::Pending));
    let expected = format!("no node fits: 1 of 1 cannot run container; {}: {advice}", node_id(1));
    assert_eq!(&*c.assignment("web").reason.message, expected);
    assert_eq!(c.world.explain(&workload_id("web")).unwrap().to_string(), expected);
    let judged = format!("{:?}", c.world.judge(&workload_id("web"), 5).unwrap().verdicts);
    assert!(judged.contains(advice), "the node's own verdict says so, too: {judged}");
    assert_eq!(c.store.snapshot.nodes[0].facts.missing.len(), 1, "it is stored");

    let mut whole = facts(&node_id(1), 4000, 8192);
    whole.incarnation = Arc::from("life-2");
    c.join(whole);
    assert_eq!(c.phase("web"), Some(Phase::Running));
    assert!(c.store.snapshot.nodes[0].facts.missing.is_empty());
}

#[test]
fn as_the_fleet_grows_each_node_is_told_to_beat_less_often() {
    let settings = Settings { beats_per_second: 1, ..Settings::default() };
    let mut cluster = Cluster::new(settings);
    for n in 1..=3 {
        cluster.join(facts(&node_id(n), 4_000, 4_096));
    }
    let BeatAnswer::Heard { beat_ms, .. } = cluster.beat(&node_id(1)) else { panic!("heard") };
    assert_eq!(beat_ms, 3_000);
    // Three beats may be missed before anybody looks closer.
    cluster.beat(&node_id(2));
    cluster.beat(&node_id(3));
    cluster.now.mono = cluster.now.mono.plus(8_900);
    cluster.step(Input::Tick);
    assert_eq!(cluster.world.node(&node_id(1)).unwrap().node.condition, Condition::Ready);
    cluster.now.mono = cluster.now.mono.plus(200);
    cluster.step(Input::Tick);
    assert_eq!(cluster.world.node(&node_id(1)).unwrap().node.condition, Condition::NotReady);
}

#[test]
fn a_reason_is_current_after_nodes_joined() {
    let mut c = Cluster::with_nodes(1, 1_000, 1_000);
    c.apply("big", container(500, 4_000), "r1");
    let now = |c: &Cluster| c.world.reasons_now()[&workload_id("big")].to_string();
    assert!(now(&c).contains("1 of 1"), "{}", now(&c));
    c.join(facts(&node_id(1), 1_000, 2_000));
    assert!(now(&c).contains("2 of 2"), "{}", now(&c));
    assert_eq!(c.world.why_waits(&workload_id("big")).as_deref(), Some(now(&c).as_str()));
    c.join(facts(&node_id(2), 1_000, 8_000));
    assert!(c.world.reasons_now().is_empty(), "nobody waits any more");
}
