//! The life of workloads on contract agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_cluster::contract::Word;
use persys_cluster::input::{Ask, Input};
use persys_model::assignment::{ReasonCode, UpdateState};
use persys_model::drift::DriftKind;
use persys_model::event::Happening;
use persys_model::id::{PoolName, RevisionId};
use persys_model::phase::Phase;
use persys_model::spec::volume::VolumeDriver;
use persys_model::spec::{Kind, OnNodeLoss};
use persys_model::workload::Desired;

use super::support::{container, node_id, volume, with_volume, workload_id};

use super::fleet::{Fleet, STEP_MS};

#[test]
fn a_workload_runs_once_its_status_says_so_and_then_nothing_is_asked() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    assert_eq!(f.phase("web"), Some(Phase::Starting));
    f.run(1_000);
    assert_eq!(f.phase("web"), Some(Phase::Starting), "it is still Pending there");
    f.run(3_000);
    assert_eq!(f.phase("web"), Some(Phase::Running));
    let (asked, listed) = (f.their(0).asked, f.their(0).listed);
    f.run(60_000);
    assert_eq!(f.their(0).asked, asked, "nothing is open");
    assert!(f.their(0).listed - listed <= 3, "once in a drift interval");
    assert_eq!(f.drifts(), []);
    assert_eq!(f.their(0).applied.len(), 1);
}

#[test]
fn an_update_runs_only_when_that_revision_runs() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    f.their(0).apply_ms = 20_000;
    f.apply("web", "rev-2", container(600, 512), Desired::Running);
    f.run(15_000);
    assert_eq!(f.phase("web"), Some(Phase::Starting), "the agent still says Running of rev-1");
    f.run(10_000);
    assert_eq!(f.phase("web"), Some(Phase::Running));
    assert_eq!(f.drifts(), []);
}

#[test]
fn stop_and_start_go_through() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    f.apply("web", "rev-1", container(500, 512), Desired::Stopped);
    f.run(5_000);
    assert_eq!(f.phase("web"), Some(Phase::Stopped));
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    assert_eq!(f.phase("web"), Some(Phase::Running));
    assert_eq!(f.their(0).deleted, [], "never made anew");
}

#[test]
fn a_delete_that_takes_long_is_reported_and_goes_on() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    f.their(0).delete_ms = 100_000;
    f.ask(Ask::Delete(workload_id("web")));
    f.run(50_000);
    assert_eq!(f.phase("web"), Some(Phase::Deleting));
    assert_eq!(f.their(0).deleted.len(), 1, "it works on it");
    // Past the delete timeout and the time to end by itself its actions are asked for, and the delay is told.
    f.run(45_000);
    let delayed = |what: &Happening| matches!(what, Happening::WorkloadDelayed { .. });
    assert!(f.c.store.events.iter().any(|event| delayed(&event.what)));
    assert_eq!(f.phase("web"), Some(Phase::Deleting));
    f.run(120_000);
    assert_eq!(f.phase("web"), None);
    assert!(f.their(0).has.is_empty());
}

#[test]
fn a_failed_status_of_a_workload_that_is_not_found_counts_as_gone() {
    let mut f = Fleet::new(1);
    f.their(0).says_failed_for_gone = true;
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    f.ask(Ask::Delete(workload_id("web")));
    f.run(5_000);
    assert_eq!(f.phase("web"), None);
    // And a delete that is refused because there is nothing.
    f.apply("api", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    f.their(0).has.clear();
    f.ask(Ask::Delete(workload_id("api")));
    f.run(1_000);
    assert_eq!(f.phase("api"), None);
}

#[test]
fn unknown_with_a_reason_is_a_failure() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    f.their(0).ends_as = (Word::Unknown, "container not found");
    let one = f.their(0).has.get_mut(&workload_id("web")).unwrap();
    (one.word, one.message) = (Word::Unknown, "container not found");
    f.run(3_000);
    assert_eq!(f.phase("web"), Some(Phase::Running), "it may pass");
    f.run(5_000);
    let shown = f.assignment("web").unwrap();
    assert_ne!(shown.phase, Phase::Running);
    assert!(shown.reason.message.contains("container not found"), "{:?}", shown.reason);
    f.run(300_000);
    assert_eq!(f.phase("web"), Some(Phase::Failed), "after its attempts");
}

#[test]
fn unknown_without_a_reason_changes_nothing() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    f.their(0).has.get_mut(&workload_id("web")).unwrap().word = Word::Unknown;
    f.run(60_000);
    assert_eq!(f.phase("web"), Some(Phase::Running));
}

#[test]
fn stopped_where_it_is_to_run_is_applied_again_with_backoff() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    f.their(0).has.get_mut(&workload_id("web")).unwrap().word = Word::Stopped;
    f.run(25_000);
    assert_eq!(f.phase("web"), Some(Phase::Running));
    assert_eq!(f.their(0).applied.len(), 2);
    // One that stops each time is not applied in a hot loop.
    f.their(0).ends_as = (Word::Stopped, "");
    f.their(0).has.get_mut(&workload_id("web")).unwrap().word = Word::Stopped;
    f.run(300_000);
    assert!(f.their(0).applied.len() < 10, "{:?}", f.their(0).applied);
    assert_eq!(f.phase("web"), Some(Phase::Failed));
}

#[test]
fn a_refused_apply_is_a_failed_attempt_and_the_node_stays_open() {
    let mut f = Fleet::new(1);
    f.their(0).refuses = Some("task queue is full");
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(2_000);
    assert_eq!(f.phase("web"), Some(Phase::Backoff));
    assert_eq!(f.c.world.node(&node_id(0)).unwrap().unreachable, None);
    f.their(0).refuses = None;
    f.run(60_000);
    assert_eq!(f.phase("web"), Some(Phase::Running));
}

#[test]
fn an_update_that_the_agent_refuses_for_good_leaves_the_old_version_running() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    f.their(0).refuses = Some("validation failed: no such option");
    f.apply("web", "rev-2", container(600, 512), Desired::Running);
    f.run(2_000);
    f.their(0).refuses = None;
    f.run(20_000);
    assert_eq!(f.phase("web"), Some(Phase::Running));
    let view = f.c.world.workload(&workload_id("web")).unwrap();
    assert_eq!(view.update_state(), Some(UpdateState::UpdateFailed));
    assert_eq!(view.running().0.as_str(), "rev-1");
    assert_eq!(f.drifts(), []);
}

#[test]
fn a_drain_moves_the_work_and_removes_the_former_copy() {
    let mut f = Fleet::new(2);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    let from = f.place("web").unwrap();
    f.ask(Ask::Drain(from.clone(), Arc::from("")));
    f.run(20_000);
    assert_ne!(f.place("web").unwrap(), from);
    assert_eq!(f.phase("web"), Some(Phase::Running));
    assert!(f.assignment("web").unwrap().former.is_empty());
    assert_eq!(f.theirs[&from].deleted, [workload_id("web")]);
    assert!(f.theirs[&from].has.is_empty());
    f.run(60_000);
    assert_eq!(f.drifts(), []);
}

#[test]
fn a_former_copy_with_data_is_stopped_and_kept() {
    let mut f = Fleet::new(2);
    let mut spec = with_volume(volume(VolumeDriver::Local, "data", false));
    spec.placement.on_node_loss = OnNodeLoss::Move;
    f.apply("db", "rev-1", spec, Desired::Running);
    f.run(5_000);
    let from = f.place("db").unwrap();
    f.ask(Ask::Drain(from.clone(), Arc::from("")));
    f.run(90_000);
    assert_ne!(f.place("db").unwrap(), from);
    assert_eq!(f.phase("db"), Some(Phase::Running));
    assert!(f.assignment("db").unwrap().former.is_empty());
    assert_eq!(f.theirs[&from].deleted, [], "its data would have gone with it");
    assert_eq!(f.theirs[&from].has[&workload_id("db")].word, Word::Stopped);
    assert_eq!(f.drifts(), []);
    let told = |what: &Happening| match what {
        Happening::WorkloadDelayed { message, .. } => message.contains("stopped and not removed"),
        _ => false,
    };
    assert_eq!(f.c.store.events.iter().filter(|event| told(&event.what)).count(), 1);
}

#[test]
fn a_node_that_returns_gives_up_the_work_that_moved() {
    let mut f = Fleet::new(2);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    let from = f.place("web").unwrap();
    let n = usize::from(from == node_id(1));
    f.their(n).away = true;
    f.ask(Ask::ReleaseBrake);
    f.run(30_000);
    f.ask(Ask::ReleaseBrake);
    f.run(10_000);
    assert_ne!(f.place("web").unwrap(), from);
    f.their(n).away = false;
    f.register(n);
    f.run(20_000);
    assert!(f.theirs[&from].has.is_empty(), "no second copy");
    assert!(f.assignment("web").unwrap().former.is_empty());
}

#[test]
fn a_new_life_of_an_agent_is_no_drift() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    f.register(0);
    f.run(40_000);
    assert_eq!(f.drift_events(DriftKind::MissingOnAgent), 0);
    assert_eq!(f.phase("web"), Some(Phase::Running));
}

#[test]
fn all_four_kinds_of_drift_are_found_within_the_interval() {
    let mut f = Fleet::new(1);
    for id in ["gone", "old", "halted"] {
        f.apply(id, "rev-2", container(500, 512), Desired::Running);
    }
    f.run(20_000);
    let their = f.their(0);
    their.has.remove(&workload_id("gone"));
    their.has.get_mut(&workload_id("old")).unwrap().revision = RevisionId::new("rev-1").unwrap();
    their.has.get_mut(&workload_id("halted")).unwrap().word = Word::Stopped;
    let mut stranger = their.has[&workload_id("old")].clone();
    stranger.word = Word::Running;
    their.has.insert(workload_id("stranger"), stranger);
    f.ask(Ask::CheckDrift(None));
    f.run(3_000);
    for kind in [
        DriftKind::MissingOnAgent,
        DriftKind::RevisionMismatch,
        DriftKind::StateMismatch,
        DriftKind::OrphanOnAgent,
    ] {
        assert_eq!(f.drift_events(kind), 1, "{kind:?}");
    }
    f.run(60_000);
    for id in ["gone", "old", "halted"] {
        assert_eq!(f.phase(id), Some(Phase::Running), "{id}");
    }
    assert_eq!(f.drifts(), [(workload_id("stranger"), DriftKind::OrphanOnAgent)]);
    assert!(f.their(0).has.contains_key(&workload_id("stranger")), "left alone");
}

#[test]
fn what_such_an_agent_cannot_do_is_a_reason_of_placement() {
    let mut f = Fleet::new(1);
    let mut spec = container(500, 512);
    if let Kind::Container(body) = &mut spec.kind {
        body.privileged = true;
    }
    f.apply("web", "rev-1", spec, Desired::Running);
    f.run(2_000);
    let shown = f.assignment("web").unwrap();
    assert_eq!(shown.phase, Phase::Pending);
    assert!(shown.reason.message.contains("privileged"), "{}", shown.reason.message);
    assert_eq!(f.their(0).applied.len(), 0);
}

#[test]
fn pools_are_a_reason_of_placement_too() {
    use persys_model::spec::VmSpec;
    use persys_model::spec::vm::{CloudInit, DiskFormat, DiskSource, VmDisk};
    let mut f = Fleet::new(1);
    let mut spec = container(500, 512);
    let pool = Some(PoolName::new("root").unwrap());
    let disk = VmDisk {
        device: Arc::from("vda"),
        source: DiskSource::Pool { pool, size_gib: 1 },
        format: DiskFormat::Qcow2,
        cdrom: false,
        boot: true,
        backing_file: None,
    };
    spec.kind = Kind::Vm(VmSpec {
        name: None,
        vcpus: 1,
        memory_mib: 512,
        disks: vec![disk],
        networks: Vec::new(),
        cloud_init: CloudInit::default(),
        os_image: None,
        managed_volumes: Vec::new(),
        metadata: BTreeMap::new(),
    });
    f.apply("vm", "rev-1", spec, Desired::Running);
    f.run(2_000);
    let shown = f.assignment("vm").unwrap();
    assert!(shown.reason.message.contains("storage pool"), "{}", shown.reason.message);
}

#[test]
fn a_frozen_world_orders_nothing_and_goes_on_afterwards() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    f.ask(Ask::Delete(workload_id("web")));
    let why = Arc::from("test");
    f.c.step(Input::StoreLost { why });
    f.run(10_000);
    assert_eq!(f.their(0).deleted.len(), 1);
    let snapshot = f.c.store.snapshot.clone();
    f.c.step(Input::Loaded(snapshot));
    f.orders();
    f.run(40_000);
    assert_eq!(f.phase("web"), None, "the removal that ended meanwhile is heard of");
}

#[test]
fn a_refused_stop_is_ordered_again_and_is_not_taken_for_done() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    f.their(0).refuses = Some("task queue is full");
    f.apply("web", "rev-1", container(500, 512), Desired::Stopped);
    f.run(3_000);
    assert_eq!(f.phase("web"), Some(Phase::Stopping), "it still runs");
    f.their(0).refuses = None;
    f.run(40_000);
    assert_eq!(f.phase("web"), Some(Phase::Stopped));
    assert!(!f.their(0).has[&workload_id("web")].run);
}

#[test]
fn a_failure_of_the_attempt_before_does_not_count_for_the_next() {
    let mut f = Fleet::new(1);
    f.their(0).ends_as = (Word::Failed, "pull timed out");
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    while f.phase("web") != Some(Phase::Backoff) {
        f.run(STEP_MS);
    }
    // The next attempt works, and takes longer than the first question.
    f.their(0).ends_as = (Word::Running, "");
    f.their(0).apply_ms = 3_000;
    f.run(60_000);
    assert_eq!(f.phase("web"), Some(Phase::Running));
    let failed = |what: &Happening| {
        matches!(what, Happening::Workload { code: ReasonCode::AttemptFailed, .. })
    };
    let failures = f.c.store.events.iter().filter(|event| failed(&event.what)).count();
    assert_eq!(failures, 1, "the second attempt worked");
}

#[test]
fn an_order_before_the_first_heartbeat_leaves_the_agent_callable() {
    let mut f = Fleet::new(1);
    f.apply("web", "rev-1", container(500, 512), Desired::Running);
    f.run(5_000);
    f.contract.forget_all();
    f.apply("web", "rev-2", container(500, 512), Desired::Running);
    let listed = f.their(0).listed;
    f.run(120_000);
    assert_eq!(f.phase("web"), Some(Phase::Running));
    assert!(f.their(0).listed > listed, "it is asked for all it holds");
}
