//! Updates that fail, and the way back: the state, the revision that runs, and what is stored.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a story stops at the first surprise"
)]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_cluster::effects::{RefusalCode, Reply};
use persys_cluster::input::{Ask, Rollback};
use persys_cluster::world::{Action, Wish};
use persys_model::assignment::{ReasonCode, UpdateState};
use persys_model::event::Happening;
use persys_model::failure::{Failure, FailureReason};
use persys_model::history::MOST_REVISIONS;
use persys_model::id::RevisionId;
use persys_model::inventory::State;
use persys_model::phase::Phase;
use persys_model::resources::Compute;
use persys_model::spec::vm::{CloudInit, VmSpec};
use persys_model::spec::{Kind, Spec};
use persys_model::workload::Desired;
use support::{Cluster, container, node_id, workload_id};

fn image(name: &str) -> Spec {
    sized(name, 1_000, 1_000)
}

fn sized(name: &str, cpu: u64, memory: u64) -> Spec {
    let mut spec = container(cpu, memory);
    if let Kind::Container(container) = &mut spec.kind {
        container.image = Arc::from(name);
    }
    spec
}

/// It is updated in place, so it may run on in its last good revision.
fn machine(name: &str) -> Spec {
    let vm = VmSpec {
        name: Some(Arc::from(name)),
        vcpus: 1,
        memory_mib: 64,
        disks: Vec::new(),
        networks: Vec::new(),
        cloud_init: CloudInit::default(),
        os_image: None,
        managed_volumes: Vec::new(),
        metadata: BTreeMap::new(),
    };
    Spec { kind: Kind::Vm(vm), ..container(1_000, 1_000) }
}

fn no_image() -> Failure {
    Failure::new(FailureReason::ImageNotFound, "there is no image app:2")
}

fn no_network() -> Failure {
    Failure::new(FailureReason::ImagePullFailed, "the registry does not answer")
}

fn fails(c: &mut Cluster, revision: &str, failure: Failure, kept: bool) {
    c.failing.insert(RevisionId::new(revision).unwrap(), (failure, kept));
}

/// `web` runs revision r1 on a node; r2 fails as told.
fn updated(failure: Failure, kept: bool) -> Cluster {
    let mut c = Cluster::with_nodes(1, 4_000, 4_000);
    c.apply("web", image("app:1"), "r1");
    fails(&mut c, "r2", failure, kept);
    c.apply("web", image("app:2"), "r2");
    c
}

fn phase(c: &Cluster) -> Phase {
    c.world.workload(&workload_id("web")).unwrap().assignment.phase
}

fn state(c: &Cluster) -> Option<UpdateState> {
    c.world.workload(&workload_id("web")).unwrap().update_state()
}

/// The revision its node was last told to run.
fn told(c: &Cluster) -> String {
    let held = &c.agents[&node_id(0)].held[&workload_id("web")];
    held.revision.to_string()
}

fn runs(c: &Cluster) -> (String, u32) {
    let view = c.world.workload(&workload_id("web")).unwrap();
    let (revision, number) = view.running();
    (revision.to_string(), number)
}

fn events(c: &Cluster) -> Vec<(Option<Phase>, ReasonCode)> {
    let told = |what: &Happening| match what {
        Happening::Workload { to, code, .. } => Some((*to, *code)),
        _ => None,
    };
    c.store.events.iter().filter_map(|event| told(&event.what)).collect()
}

fn back_to(c: &mut Cluster, number: u32) -> Reply {
    let web = workload_id("web");
    let entry = Arc::clone(&c.store.revisions[&(web.clone(), number)]);
    let body = Arc::clone(&c.store.bodies[&(web.clone(), entry.content.clone())]);
    let (revision, spec) = (entry.revision.clone(), Arc::clone(&body.spec));
    c.ask(Ask::Rollback(Rollback { workload: web, number, revision, spec }))
}

#[test]
fn a_failed_update_that_left_the_old_revision_running_is_running() {
    let c = updated(no_image(), true);
    assert_eq!((phase(&c), state(&c)), (Phase::Running, Some(UpdateState::UpdateFailed)));
    assert_eq!(told(&c), "r1", "its node is told to look after it again");
    assert_eq!(runs(&c), ("r1".to_owned(), 1));
    let view = c.world.workload(&workload_id("web")).unwrap();
    assert_eq!((view.workload.revision.as_str(), view.workload.history.number()), ("r2", 2));
    let reason = &view.assignment.reason;
    assert_eq!(reason.code, ReasonCode::UpdateFailed);
    assert_eq!(&*reason.message, "revision 2 failed: there is no image app:2; revision 1 runs on");
    assert_eq!(events(&c).last(), Some(&(Some(Phase::Running), ReasonCode::UpdateFailed)));
    assert!(!events(&c).iter().any(|(to, _)| *to == Some(Phase::Failed)), "it never was Failed");
    assert!(c.world.check().is_empty());
}

#[test]
fn a_failed_update_that_took_the_old_revision_with_it_is_failed() {
    let c = updated(no_image(), false);
    assert_eq!(phase(&c), Phase::Failed);
    assert_eq!(state(&c), Some(UpdateState::UpdateFailed));
    assert_eq!(c.world.rollback_targets(&workload_id("web")), [1]);
}

/// Simulator seed 110003933: the retry record stayed beside a workload that ran, for ever.
#[test]
fn a_way_back_that_is_told_late_leaves_no_count_of_attempts() {
    let mut c = Cluster::with_nodes(1, 4_000, 4_000);
    let web = workload_id("web");
    c.apply("web", machine("a"), "r1");
    fails(&mut c, "r2", no_network(), true);
    c.apply("web", machine("b"), "r2");
    assert_eq!((phase(&c), state(&c)), (Phase::Running, Some(UpdateState::Updating)));
    fails(&mut c, "r2", no_image(), false);
    c.pass(30_000);
    assert_eq!(phase(&c), Phase::Failed);
    assert_eq!(c.store.snapshot.retries.len(), 1);
    let held = c.agents.get_mut(&node_id(0)).unwrap().held.get_mut(&web).unwrap();
    held.report.runs = Some(RevisionId::fixed("r1"));
    c.pass(1_000);
    assert_eq!((phase(&c), state(&c)), (Phase::Running, Some(UpdateState::UpdateFailed)));
    assert!(c.store.snapshot.retries.is_empty());
}

/// Simulator seeds 110007102 and 110007738: a revision that waited for its first node was shown as a
/// failed update, and a retry of it as nothing to retry.
#[test]
fn a_new_revision_without_a_place_did_not_fail() {
    let mut c = updated(no_image(), false);
    c.ask(Ask::Drain(node_id(0), Arc::from("test")));
    c.pass(10_000);
    assert_eq!((phase(&c), c.node_of("web")), (Phase::Failed, None));
    c.apply("web", image("app:3"), "r3");
    assert_eq!((phase(&c), state(&c)), (Phase::Pending, None));
}

/// Simulator seed 120005678: the same, where the revision before ended while the new one waited for room.
#[test]
fn the_end_of_the_revision_before_is_no_failure_of_one_that_waits() {
    let mut c = Cluster::with_nodes(1, 4_000, 4_000);
    c.apply("web", image("app:1"), "r1");
    c.apply("web", sized("app:2", 9_000, 1_000), "r2");
    assert_eq!((phase(&c), state(&c)), (Phase::Running, Some(UpdateState::Updating)));
    c.say(&node_id(0), "web", State::Failed(no_image()));
    assert_eq!((phase(&c), state(&c)), (Phase::Pending, Some(UpdateState::Updating)));
}

#[test]
fn between_two_attempts_the_old_revision_runs_and_is_looked_after() {
    let mut c = updated(no_network(), true);
    assert_eq!((phase(&c), state(&c)), (Phase::Running, Some(UpdateState::Updating)));
    assert_eq!(told(&c), "r1");
    let attempts =
        |c: &Cluster| events(c).iter().filter(|(_, code)| *code == ReasonCode::RetryDue).count();
    let before = attempts(&c);
    c.pass(10_000);
    assert!(attempts(&c) > before, "it is tried again");
    assert_eq!((phase(&c), state(&c)), (Phase::Running, Some(UpdateState::Updating)));
    c.failing.clear();
    c.pass(60_000);
    assert_eq!((phase(&c), state(&c), told(&c).as_str()), (Phase::Running, None, "r2"));
    assert_eq!(runs(&c), ("r2".to_owned(), 2));
    assert!(c.world.check().is_empty());
}

#[test]
fn attempts_of_an_update_are_used_up() {
    let mut c = updated(no_network(), true);
    c.pass(600_000);
    assert_eq!((phase(&c), state(&c)), (Phase::Running, Some(UpdateState::UpdateFailed)));
    assert_eq!(told(&c), "r1");
    let happened = c.store.events.len();
    c.pass(600_000);
    assert_eq!(c.store.events.len(), happened, "nothing more is tried");
}

#[test]
fn a_retry_tries_a_failed_update_again() {
    let mut c = updated(no_image(), true);
    c.failing.clear();
    c.ask(Ask::Retry(workload_id("web")));
    assert_eq!((phase(&c), state(&c), told(&c).as_str()), (Phase::Running, None, "r2"));
}

#[test]
fn a_pause_does_not_try_a_failed_update_again() {
    let mut c = updated(no_image(), true);
    c.set_desired("web", Desired::Paused);
    assert_eq!((phase(&c), told(&c).as_str()), (Phase::Paused, "r1"));
    assert_eq!(state(&c), Some(UpdateState::UpdateFailed));
    c.ask(Ask::Resume(workload_id("web")));
    assert_eq!((phase(&c), told(&c).as_str()), (Phase::Running, "r1"));
}

#[test]
fn a_new_leader_knows_which_revision_runs() {
    let mut c = updated(no_image(), true);
    c.reopen();
    assert_eq!((phase(&c), state(&c)), (Phase::Running, Some(UpdateState::UpdateFailed)));
    assert_eq!(runs(&c), ("r1".to_owned(), 1));
    let mut c = updated(no_network(), true);
    c.reopen();
    c.failing.clear();
    c.pass(200_000);
    assert_eq!((phase(&c), state(&c), told(&c).as_str()), (Phase::Running, None, "r2"));
}

#[test]
fn the_room_of_what_runs_on_stays_reserved_while_it_may_run_on() {
    let mut c = Cluster::with_nodes(1, 4_000, 4_000);
    c.apply("web", sized("app:1", 3_000, 1_000), "r1");
    fails(&mut c, "r2", no_network(), true);
    c.apply("web", sized("app:2", 1_000, 2_000), "r2");
    // What another one would need is only free once the update is done.
    c.apply("other", container(2_500, 100), "o1");
    assert_eq!(phase(&c), Phase::Running);
    let free = |c: &Cluster| c.world.node(&node_id(0)).unwrap().free;
    assert_eq!(free(&c), Compute::new(1_000, 3_000), "what runs on is reserved");
    c.failing.clear();
    c.pass(60_000);
    assert_eq!((state(&c), told(&c).as_str()), (None, "r2"));
    assert_eq!(free(&c), Compute::new(500, 1_900), "the other one came in");
    assert!(c.world.check().is_empty());
}

#[test]
fn a_rollback_is_a_new_revision_with_an_old_content() {
    let mut c = Cluster::with_nodes(1, 4_000, 4_000);
    c.apply("web", image("app:1"), "r1");
    c.apply("web", image("app:2"), "r2");
    assert_eq!(c.world.rollback_targets(&workload_id("web")), [1]);
    assert!(matches!(back_to(&mut c, 1), Reply::Done { .. }));
    assert_eq!((phase(&c), state(&c)), (Phase::Running, Some(UpdateState::RolledBack)));
    assert_eq!(runs(&c), ("r1".to_owned(), 3));
    assert!(events(&c).contains(&(Some(Phase::Starting), ReasonCode::RolledBack)));
    let verbs: Vec<_> = c.store.audit.iter().map(|record| record.verb.to_string()).collect();
    assert_eq!(verbs.last().map(String::as_str), Some("rollback"));
    // Numbers go on, and the state ends with the next revision.
    c.apply("web", image("app:4"), "r4");
    assert_eq!((state(&c), runs(&c)), (None, ("r4".to_owned(), 4)));
    let entry = &c.store.revisions[&(workload_id("web"), 3)];
    assert_eq!((entry.rolled_back_to, &*entry.by), (Some(1), "operator ann"));
}

#[test]
fn a_rollback_of_a_failed_update_restarts_nothing() {
    let mut c = updated(no_image(), true);
    assert_eq!(c.world.rollback_targets(&workload_id("web")), [1]);
    assert!(matches!(back_to(&mut c, 1), Reply::Done { .. }));
    assert_eq!((phase(&c), state(&c)), (Phase::Running, Some(UpdateState::RolledBack)));
    assert_eq!(told(&c), "r1", "the same revision: its agent has nothing to do");
    let failed = &c.store.revisions[&(workload_id("web"), 2)];
    assert_eq!(&*failed.failed, "there is no image app:2");
}

#[test]
fn a_second_rollback_does_not_go_to_the_revision_that_failed() {
    let mut c = updated(no_image(), true);
    assert!(matches!(back_to(&mut c, 1), Reply::Done { .. }));
    // 1 has the present content, 2 failed.
    assert!(c.world.rollback_targets(&workload_id("web")).is_empty());
    c.apply("web", image("app:4"), "r4");
    assert_eq!(c.world.rollback_targets(&workload_id("web")), [3, 1]);
    assert!(matches!(back_to(&mut c, 3), Reply::Done { .. }));
    assert_eq!(
        c.world.rollback_targets(&workload_id("web")),
        [4],
        "2 failed, 1 and 3 are the same"
    );
}

#[test]
fn a_revision_that_was_replaced_before_it_ran_is_no_way_back() {
    let mut c = updated(no_network(), true);
    assert_eq!(state(&c), Some(UpdateState::Updating));
    c.apply("web", image("app:3"), "r3");
    let replaced = &c.store.revisions[&(workload_id("web"), 2)];
    assert_eq!(&*replaced.failed, "replaced before it came to run");
    assert!(!c.world.rollback_targets(&workload_id("web")).contains(&2));
}

#[test]
fn a_rollback_to_what_is_not_there_is_refused() {
    let mut c = Cluster::with_nodes(1, 4_000, 4_000);
    c.apply("web", image("app:1"), "r1");
    c.apply("web", image("app:2"), "r2");
    let mut ask = |number, spec| {
        let (workload, revision) = (workload_id("web"), RevisionId::new("r1").unwrap());
        let asked = Rollback { workload, number, revision, spec: Arc::new(spec) };
        match c.ask(Ask::Rollback(asked)) {
            Reply::Refused { code, why } => (code, why.to_string()),
            other => panic!("{other:?}"),
        }
    };
    let (code, why) = ask(2, image("app:2"));
    assert_eq!(
        (code, why.as_str()),
        (RefusalCode::Conflict, "revision 2 is the present revision of web")
    );
    let (_, why) = ask(7, image("app:1"));
    assert!(why.contains("no revision 7"), "{why}");
    let (_, why) = ask(1, image("app:made-up"));
    assert!(why.contains("changed meanwhile"), "{why}");
}

#[test]
fn ten_revisions_are_kept_with_their_bodies_and_go_with_the_workload() {
    let mut c = Cluster::with_nodes(1, 4_000, 4_000);
    for n in 0..30 {
        // Two contents in turn, and a new one now and then.
        let content = if n % 5 == 0 { format!("new:{n}") } else { format!("app:{}", n % 2) };
        c.apply("web", image(&content), &format!("r{n}"));
        let view = c.world.workload(&workload_id("web")).unwrap();
        let history = &view.workload.history;
        assert_eq!(history.earlier().len(), (n).min(MOST_REVISIONS - 1));
        assert_eq!(c.store.revisions.len(), history.earlier().len());
        for one in history.earlier() {
            let key = (workload_id("web"), one.number);
            assert_eq!(c.store.revisions[&key].content, one.content);
            assert!(c.store.bodies.contains_key(&(workload_id("web"), one.content.clone())));
        }
    }
    assert!(c.store.bodies.len() < MOST_REVISIONS - 1, "the same content is stored once");
    c.ask(Ask::Delete(workload_id("web")));
    assert!(c.store.revisions.is_empty() && c.store.bodies.is_empty());
}

#[test]
fn a_plan_holds_while_nothing_of_it_changed() {
    let mut c = Cluster::with_nodes(2, 4_000, 4_000);
    c.apply("web", image("app:1"), "r1");
    let (web, spec, revision) =
        (workload_id("web"), Arc::new(image("app:2")), RevisionId::new("r2").unwrap());
    let plan = |c: &Cluster| {
        let (spec, revision) = (Some(&spec), Some(&revision));
        let wish = Wish { workload: &web, spec, revision, desired: Desired::Running };
        let foreseen = c.world.foresee(wish, 5);
        assert_eq!(foreseen.action, Action::Update);
        c.world.plan(wish, &foreseen)
    };
    let apply = |spec: &Arc<Spec>| Ask::Apply {
        workload: web.clone(),
        spec: Some(Arc::clone(spec)),
        revision: Some(revision.clone()),
        desired: Desired::Running,
    };
    let refused = |reply: Reply| match reply {
        Reply::Refused { code: RefusalCode::Conflict, why } => why.to_string(),
        other => panic!("{other:?}"),
    };
    let planned = plan(&c);
    let other = apply(&Arc::new(image("app:3")));
    let why = refused(c.ask(Ask::Planned(Arc::new(planned.clone()), Box::new(other))));
    assert!(why.contains("another spec"), "{why}");
    // What has nothing to do with it does not make it stale.
    c.apply("other", container(100, 100), "o1");
    let before = c.world.head().seq;
    assert!(before > planned.index);
    let reply = c.ask(Ask::Planned(Arc::new(planned.clone()), Box::new(apply(&spec))));
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    // It was carried out, so it is stale.
    let why = refused(c.ask(Ask::Planned(Arc::new(planned), Box::new(apply(&spec)))));
    assert!(why.contains("stale") && why.contains("changed since"), "{why}");
}

#[test]
fn a_plan_for_another_node_is_stale() {
    let mut c = Cluster::with_nodes(2, 4_000, 4_000);
    let (web, spec, revision) =
        (workload_id("web"), Arc::new(image("app:1")), RevisionId::new("r1").unwrap());
    let wish = Wish {
        workload: &web,
        spec: Some(&spec),
        revision: Some(&revision),
        desired: Desired::Running,
    };
    let plan = c.world.plan(wish, &c.world.foresee(wish, 5));
    let node = plan.node.clone().unwrap();
    c.ask(Ask::Drain(node.clone(), Arc::from("")));
    let apply = Ask::Apply {
        workload: web.clone(),
        spec: Some(Arc::clone(&spec)),
        revision: Some(revision.clone()),
        desired: Desired::Running,
    };
    let Reply::Refused { why, .. } = c.ask(Ask::Planned(Arc::new(plan), Box::new(apply))) else {
        panic!("it must be refused")
    };
    assert!(why.contains("stale") && why.contains(node.as_str()), "{why}");
    assert!(c.world.workload(&web).is_none(), "nothing was done");
}
