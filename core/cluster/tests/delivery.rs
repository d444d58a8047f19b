//! Stories about orders that cannot be delivered, attempts without progress, and nodes without an
//! agent.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a story stops at the first surprise")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_cluster::effects::Reply;
use persys_cluster::input::{Ask, Input, Probe, Undelivered};
use persys_cluster::settings::Settings;
use persys_model::assignment::ReasonCode;
use persys_model::command::Order;
use persys_model::event::{Happening, NodePart};
use persys_model::failure::FailureReason;
use persys_model::fetched::Fetched;
use persys_model::id::NodeId;
use persys_model::inventory::State;
use persys_model::node::Condition;
use persys_model::phase::Phase;
use persys_model::spec::compose::{ComposeSource, ComposeSpec};
use persys_model::spec::secret::Secret;
use persys_model::spec::vm::CloudInit;
use persys_model::spec::{Class, Kind, Spec, VmSpec, WorkloadType};

use support::{Cluster, container, facts, node_id, workload_id};

fn exclusive() -> Spec {
    let mut spec = container(500, 512);
    spec.placement.class = Class::Exclusive;
    spec
}

/// Nodes `n0`.. of which orders to `n0` do not arrive.
fn unreachable_first(count: usize) -> Cluster {
    let mut c = Cluster::with_nodes(count, 4000, 8192);
    c.undialled.push(node_id(0));
    c
}

fn condition(c: &Cluster, node: &NodeId) -> Condition {
    c.world.node(node).unwrap().node.condition
}

fn trouble(c: &Cluster, node: &NodeId) -> Option<String> {
    c.world.node(node).unwrap().unreachable.map(str::to_owned)
}

/// Puts `name` on `n0`, the only node, before the others join.
fn on_first(c: &mut Cluster, name: &str, spec: Spec) {
    c.apply(name, spec, "r1");
    assert_eq!(c.node_of(name), Some(node_id(0)));
}

#[test]
fn a_node_that_cannot_be_called_says_so_and_takes_no_new_work() {
    let mut c = unreachable_first(1);
    on_first(&mut c, "web", container(500, 512));
    c.pass(3_000);
    assert_eq!(trouble(&c, &node_id(0)).as_deref(), Some("connection refused"));
    assert_eq!(condition(&c, &node_id(0)), Condition::Ready, "its heartbeats arrive");
    let reason = c.assignment("web").reason;
    assert_eq!(reason.code, ReasonCode::DispatchFailed);
    assert!(reason.message.contains("orders to n0 cannot be delivered"), "{reason:?}");
    let told =
        |what: fn(&Happening) -> bool| c.store.events.iter().filter(|e| what(&e.what)).count();
    let began = |what: &Happening| {
        matches!(what, Happening::NodeTrouble { part: NodePart::Orders, why: Some(_), .. })
    };
    assert_eq!(told(began), 1, "once, however often it is tried");
    assert_eq!(told(|what| matches!(what, Happening::WorkloadDelayed { .. })), 1);
    c.apply("next", container(500, 512), "r1");
    assert_eq!(c.phase("next"), Some(Phase::Pending), "it receives no new work");
    // The way is open again: everything is delivered, and it takes work.
    c.undialled.clear();
    c.pass(12_000);
    assert_eq!(c.phase("web"), Some(Phase::Running));
    assert_eq!(c.phase("next"), Some(Phase::Running));
    assert_eq!(trouble(&c, &node_id(0)), None);
    let ended = |what: &Happening| matches!(what, Happening::NodeTrouble { why: None, .. });
    assert!(c.store.events.iter().any(|event| ended(&event.what)));
}

#[test]
fn one_order_that_is_lost_closes_no_node() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.undialled.push(node_id(0));
    c.apply("web", container(500, 512), "r1");
    c.undialled.clear();
    c.pass(2_000);
    assert_eq!(c.phase("web"), Some(Phase::Running), "sent again long before the usual time");
    assert!(!c.store.events.iter().any(|e| matches!(e.what, Happening::NodeTrouble { .. })));
}

#[test]
fn default_work_is_placed_elsewhere_after_the_timeout() {
    let mut c = unreachable_first(1);
    on_first(&mut c, "web", container(500, 512));
    c.pass(3_000);
    c.join(facts(&node_id(1), 4000, 8192));
    c.pass(20_000);
    assert_eq!(c.node_of("web"), Some(node_id(0)), "not before its time");
    c.pass(30_000);
    assert_eq!((c.node_of("web"), c.phase("web")), (Some(node_id(1)), Some(Phase::Running)));
    assert!(c.assignment("web").former.is_empty(), "nothing of it ever left for n0");
}

#[test]
fn work_that_must_not_run_twice_moves_only_if_its_order_never_left() {
    let mut c = unreachable_first(1);
    on_first(&mut c, "db", exclusive());
    c.pass(3_000);
    c.join(facts(&node_id(1), 4000, 8192));
    c.pass(50_000);
    assert_eq!((c.node_of("db"), c.phase("db")), (Some(node_id(1)), Some(Phase::Running)));
}

#[test]
fn an_order_that_may_have_arrived_keeps_such_work_where_it_is() {
    let mut c = unreachable_first(1);
    c.unsure = true;
    on_first(&mut c, "db", exclusive());
    c.pass(3_000);
    c.join(facts(&node_id(1), 4000, 8192));
    c.pass(200_000);
    assert_eq!((c.node_of("db"), c.phase("db")), (Some(node_id(0)), Some(Phase::Starting)));
    let reason = c.assignment("db").reason;
    assert_eq!(reason.code, ReasonCode::DispatchFailed);
    assert!(reason.message.contains("the agent is too old to prove that none does"), "{reason:?}");
    // Nothing more is needed once the way is open.
    c.undialled.clear();
    c.pass(12_000);
    assert_eq!((c.node_of("db"), c.phase("db")), (Some(node_id(0)), Some(Phase::Running)));
}

/// `db` on `n0`, whose order may have arrived; `n1` has room. Agents prove removals by heartbeat.
fn perhaps_on_first() -> Cluster {
    let mut c = unreachable_first(1);
    (c.unsure, c.proves) = (true, true);
    on_first(&mut c, "db", exclusive());
    c.pass(3_000);
    c.join(facts(&node_id(1), 4000, 8192));
    c
}

#[test]
fn a_heartbeat_that_proves_that_nothing_runs_lets_such_work_move() {
    let mut c = perhaps_on_first();
    c.pass(40_000);
    assert_eq!(c.node_of("db"), Some(node_id(0)), "not before its time");
    c.pass(10_000);
    assert_eq!((c.node_of("db"), c.phase("db")), (Some(node_id(1)), Some(Phase::Running)));
    assert!(c.assignment("db").former.is_empty(), "its removal is proved");
    // The late order is older than the proof, which its agent keeps.
    let late = c.refused.iter().find(|(_, command)| matches!(command.order, Order::Apply(_)));
    let buried = c.agents[&node_id(0)].tombstones[&workload_id("db")].0;
    assert!(late.unwrap().1.epoch < buried);
}

#[test]
fn a_node_that_says_that_it_has_a_copy_keeps_it() {
    let mut c = perhaps_on_first();
    c.pass(40_000);
    // The order did arrive; its answer was lost.
    let (node, command) = c.refused[0].clone();
    c.deliver(&node, command);
    assert_eq!(c.phase("db"), Some(Phase::Running), "its heartbeat says so");
    c.pass(100_000);
    assert_eq!((c.node_of("db"), c.phase("db")), (Some(node_id(0)), Some(Phase::Running)));
}

#[test]
fn without_proof_it_starts_nowhere() {
    let mut c = perhaps_on_first();
    c.ignores_removals = true;
    c.pass(100_000);
    assert_eq!((c.node_of("db"), c.phase("db")), (None, Some(Phase::Pending)));
    assert_eq!(c.assignment("db").reason.code, ReasonCode::WaitsForFence);
    // The way is open: the removal is delivered in the ordinary way.
    c.undialled.clear();
    c.pass(15_000);
    assert_eq!(c.phase("db"), Some(Phase::Running));
}

#[test]
fn a_new_leader_has_it_proved_too() {
    let mut c = perhaps_on_first();
    c.ignores_removals = true;
    c.pass(50_000);
    assert_eq!(c.node_of("db"), None);
    c.reopen();
    c.tell_all(&node_id(0));
    c.tell_all(&node_id(1));
    c.ignores_removals = false;
    c.pass(20_000);
    assert_eq!((c.node_of("db"), c.phase("db")), (Some(node_id(1)), Some(Phase::Running)));
}

#[test]
fn an_agent_that_is_pending_for_ever_ends_the_attempt_with_its_last_actions() {
    let mut c = Cluster::with_nodes(2, 4000, 8192);
    c.starts_as = State::Pending;
    c.apply("web", container(500, 512), "r1");
    let first = c.node_of("web").unwrap();
    c.pass(44_000);
    assert_eq!(c.phase("web"), Some(Phase::Starting));
    c.pass(3_000);
    let assignment = c.assignment("web");
    assert_eq!(assignment.phase, Phase::Backoff);
    let failure = assignment.reason.failure.unwrap();
    assert_eq!(failure.reason, FailureReason::RuntimeError);
    assert!(failure.message.contains("within 45 s"), "{failure:?}");
    assert!(failure.message.contains("apply_workload running"), "{failure:?}");
    c.starts_as = State::Running;
    c.pass(10_000);
    assert_eq!(c.phase("web"), Some(Phase::Running));
    assert_ne!(c.node_of("web"), Some(first), "the class allows a second copy: elsewhere first");
}

/// Progress is shown and never stored.
#[test]
fn progress_of_a_pull_is_seen_and_costs_no_write() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.starts_as = State::Pending;
    c.apply("web", container(500, 512), "r1");
    c.pass(5_000);
    let pull = |c: &Cluster| c.world.workload(&workload_id("web")).unwrap().pull();
    let before = c.store.writes;
    for bytes in [10, 20] {
        let fetched = Fetched { parts: 0, of_parts: 1, bytes, of_bytes: 100 };
        let agent = c.agents.get_mut(&node_id(0)).unwrap();
        let report = &mut agent.held.get_mut(&workload_id("web")).unwrap().report;
        (report.progress, report.fetched) = (bytes, Some(fetched));
        c.tell_all(&node_id(0));
        assert_eq!(pull(&c), Some(fetched));
    }
    assert_eq!(c.store.writes, before, "no transaction was made of it");
}

#[test]
fn progress_extends_the_time_of_an_attempt() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.starts_as = State::Pending;
    c.apply("web", container(500, 512), "r1");
    for _ in 0..10 {
        c.pass(30_000);
        let agent = c.agents.get_mut(&node_id(0)).unwrap();
        agent.held.get_mut(&workload_id("web")).unwrap().report.progress += 1;
        assert_eq!(c.phase("web"), Some(Phase::Starting), "an image pull that moves is progress");
    }
    c.pass(47_000);
    assert_eq!(c.phase("web"), Some(Phase::Backoff));
}

#[test]
fn a_machine_has_longer_to_start_than_a_container() {
    use persys_model::spec::vm::CloudInit;
    use persys_model::spec::{Kind, VmSpec};
    let machine = VmSpec {
        name: None,
        vcpus: 1,
        memory_mib: 512,
        disks: Vec::new(),
        networks: Vec::new(),
        cloud_init: CloudInit::default(),
        os_image: None,
        managed_volumes: Vec::new(),
        metadata: BTreeMap::new(),
    };
    let machine = Spec { kind: Kind::Vm(machine), ..container(500, 512) };
    for (spec, seconds) in [(container(500, 512), 45), (machine, 240)] {
        let mut c = Cluster::with_nodes(1, 4000, 8192);
        c.starts_as = State::Pending;
        c.apply("web", spec, "r1");
        c.pass((seconds - 2) * 1_000);
        assert_eq!(c.phase("web"), Some(Phase::Starting), "{seconds} s are not over");
        c.pass(4_000);
        assert_eq!(c.phase("web"), Some(Phase::Backoff), "{seconds} s are over");
        let failure = c.assignment("web").reason.failure.unwrap();
        assert!(failure.message.contains(&format!("within {seconds} s")), "{failure:?}");
    }
}

#[test]
fn what_timed_out_and_runs_after_all_counts_as_running() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.starts_as = State::Pending;
    c.apply("web", container(500, 512), "r1");
    c.pass(47_000);
    assert_eq!(c.phase("web"), Some(Phase::Backoff));
    c.say(&node_id(0), "web", State::Running);
    assert_eq!(c.phase("web"), Some(Phase::Running));
}

#[test]
fn attempts_without_progress_end_for_good_and_leave_nothing_behind() {
    let settings = Settings { retry_attempts: 2, ..Settings::default() };
    let mut c = Cluster::new(settings);
    c.join(facts(&node_id(0), 4000, 8192));
    c.starts_as = State::Pending;
    c.apply("web", container(500, 512), "r1");
    c.pass(120_000);
    assert_eq!(c.phase("web"), Some(Phase::Failed));
    assert_eq!(c.node_of("web"), None);
    assert!(c.agents[&node_id(0)].held.is_empty(), "a copy that may come to run is removed");
    assert_eq!(c.world.node(&node_id(0)).unwrap().free.cpu_millicores, 4000);
}

#[test]
fn a_removal_that_takes_too_long_is_reported_once_with_the_last_actions() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", container(500, 512), "r1");
    c.never_removes = true;
    c.ask(Ask::Delete(workload_id("web")));
    c.pass(68_000);
    assert!(!c.assignment("web").reason.message.contains("not done"), "not before its time");
    c.pass(150_000);
    let reason = c.assignment("web").reason;
    assert!(reason.message.starts_with("not done after 70 s"), "{reason:?}");
    assert!(reason.message.contains("apply_workload running"), "{reason:?}");
    let delayed = |what: &Happening| matches!(what, Happening::WorkloadDelayed { .. });
    assert_eq!(c.store.events.iter().filter(|event| delayed(&event.what)).count(), 1);
    c.never_removes = false;
    c.pass(12_000);
    assert_eq!(c.phase("web"), None, "it went on all the time");
}

/// A stack whose service has this long to end by itself.
fn stack(grace: &str) -> Spec {
    let file = format!("services:\n  web: {{image: busybox, stop_grace_period: {grace}}}\n");
    let mut spec = container(500, 512);
    spec.kind = Kind::Compose(ComposeSpec {
        source: ComposeSource::Inline(Secret::new(&file)),
        project: None,
        env: BTreeMap::new(),
        host_ports: Vec::new(),
        has_named_volumes: false,
    });
    spec
}

#[test]
fn the_time_a_copy_has_to_end_by_itself_is_not_counted() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", stack("90s"), "r1");
    assert_eq!(c.phase("web"), Some(Phase::Running));
    // The update shortens the grace; what runs still has what it was started with.
    c.starts_as = State::Pending;
    c.apply("web", stack("1s"), "r2");
    c.pass(45_000 + 89_000);
    assert_eq!(c.phase("web"), Some(Phase::Starting), "the earlier copy may still be ending");
    c.pass(3_000);
    let assignment = c.assignment("web");
    assert_eq!(assignment.phase, Phase::Backoff);
    let failure = assignment.reason.failure.unwrap();
    assert!(failure.message.contains("within 135 s"), "{failure:?}");
}

#[test]
fn a_first_start_and_one_after_a_failed_delivery_have_no_stop_in_them() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.starts_as = State::Pending;
    c.apply("web", stack("90s"), "r1");
    c.pass(47_000);
    assert_eq!(c.phase("web"), Some(Phase::Backoff));
}

#[test]
fn a_machine_may_take_its_time_to_shut_down() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    let mut spec = container(500, 512);
    spec.kind = Kind::Vm(VmSpec {
        name: None,
        vcpus: 1,
        memory_mib: 512,
        disks: Vec::new(),
        networks: Vec::new(),
        cloud_init: CloudInit::default(),
        os_image: None,
        managed_volumes: Vec::new(),
        metadata: BTreeMap::new(),
    });
    c.apply("vm", spec, "r1");
    c.never_removes = true;
    c.ask(Ask::Delete(workload_id("vm")));
    c.pass(118_000);
    assert!(!c.assignment("vm").reason.message.contains("not done"), "not before its time");
    c.pass(5_000);
    let reason = c.assignment("vm").reason;
    assert!(reason.message.starts_with("not done after 120 s"), "{reason:?}");
}

#[test]
fn a_new_leader_gives_a_copy_that_ends_its_time_too() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.apply("web", stack("90s"), "r1");
    c.never_removes = true;
    c.ask(Ask::Delete(workload_id("web")));
    c.reopen();
    c.pass(148_000);
    assert!(!c.assignment("web").reason.message.contains("not done"), "not before its time");
    c.pass(5_000);
    assert!(c.assignment("web").reason.message.starts_with("not done after 150 s"));
}

#[test]
fn a_node_whose_runtime_is_down_takes_no_work_of_that_kind() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    let docker = Arc::from("Docker does not answer");
    c.down.insert(node_id(0), [(WorkloadType::Container, docker)].into());
    c.pass(1_000);
    c.apply("web", container(500, 512), "r1");
    assert_eq!(c.phase("web"), Some(Phase::Pending));
    let judged = c.world.judge(&workload_id("web"), 5).unwrap();
    let faults = judged.verdicts[0].faults.join("; ");
    assert!(faults.contains("Docker does not answer"), "{faults}");
    let part = NodePart::Runtime(WorkloadType::Container);
    let told =
        |what: &Happening| matches!(what, Happening::NodeTrouble { part: p, .. } if *p == part);
    assert_eq!(c.store.events.iter().filter(|event| told(&event.what)).count(), 1);
    c.down.clear();
    c.pass(1_000);
    assert_eq!(c.phase("web"), Some(Phase::Running));
    assert_eq!(c.store.events.iter().filter(|event| told(&event.what)).count(), 2);
}

#[test]
fn work_that_only_waits_to_be_started_counts_as_waiting() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.starts_as = State::Pending;
    c.apply("web", container(500, 512), "r1");
    let since = c.world.tally().pending_since;
    assert_eq!(since, Some(c.assignment("web").reason.since));
}

/// `n0` without its agent while its host refuses connections; `n1` and `n2` go on.
fn without_agent(spec: Spec) -> Cluster {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    on_first(&mut c, "web", spec);
    c.join(facts(&node_id(1), 4000, 8192));
    c.join(facts(&node_id(2), 4000, 8192));
    c.deaf.push(node_id(0));
    c.found = Probe::Refused;
    c
}

#[test]
fn work_moves_off_a_host_whose_agent_stays_away() {
    let mut c = without_agent(container(500, 512));
    c.pass(60_000);
    assert_eq!(condition(&c, &node_id(0)), Condition::NotReady, "an agent may be restarted");
    assert_eq!(c.node_of("web"), Some(node_id(0)));
    c.pass(10_000);
    assert_eq!(condition(&c, &node_id(0)), Condition::Lost);
    assert_ne!(c.node_of("web"), Some(node_id(0)));
    assert_eq!(c.phase("web"), Some(Phase::Running));
    // The agent returns: its former copy goes.
    c.deaf.clear();
    c.register(&node_id(0));
    c.pass(3_000);
    assert!(c.agents[&node_id(0)].held.is_empty());
    assert!(c.assignment("web").former.is_empty());
}

#[test]
fn exclusive_work_moves_off_such_a_host_only_behind_its_fence() {
    let mut c = without_agent(exclusive());
    let mut unfenced = c.facts[&node_id(0)].clone();
    assert!(unfenced.fence);
    c.pass(70_000);
    assert_ne!(c.node_of("web"), Some(node_id(0)), "its watchdog has stopped it");
    // Without a watchdog nobody knows, until an operator confirms it.
    unfenced.fence = false;
    c.deaf.clear();
    c.join(unfenced);
    c.pass(2_000);
}

#[test]
fn an_operator_may_confirm_that_a_node_without_an_agent_is_gone() {
    let mut c = without_agent(container(500, 512));
    let gone = Ask::ConfirmGone(node_id(0));
    assert!(matches!(c.ask(gone.clone()), Reply::Refused { .. }), "its lease still holds");
    c.pass(8_000);
    assert_eq!(condition(&c, &node_id(0)), Condition::NotReady);
    assert!(matches!(c.ask(gone), Reply::Done { .. }));
    assert_eq!(condition(&c, &node_id(0)), Condition::Lost);
    c.pass(1_000);
    assert_ne!(c.node_of("web"), Some(node_id(0)));
}

#[test]
fn an_answer_about_an_earlier_stay_does_not_hide_an_order_on_its_way() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.undialled.push(node_id(0));
    c.silent_refusals = true;
    on_first(&mut c, "db", exclusive());
    let (node, command) = c.refused.pop().unwrap();
    assert!(matches!(command.order, Order::Apply(_)));
    let old = Undelivered {
        node: node.clone(),
        session: command.session,
        workload: command.workload.clone(),
        epoch: persys_model::token::Epoch(command.epoch.0 - 1),
        may_have_arrived: false,
        why: Arc::from("an earlier one"),
    };
    c.step(Input::Undelivered(old));
    c.join(facts(&node_id(1), 4000, 8192));
    c.pass(100_000);
    assert_eq!(c.node_of("db"), Some(node), "the order that was sent may have arrived");
}

#[test]
fn a_node_that_was_silent_meanwhile_is_asked_again_whether_orders_arrive() {
    let mut c = unreachable_first(1);
    on_first(&mut c, "web", container(500, 512));
    c.pass(3_000);
    assert!(trouble(&c, &node_id(0)).is_some());
    c.ask(Ask::Delete(workload_id("web")));
    // Its heartbeats stay away too, and then everything is in order again, in the same life.
    c.deaf.push(node_id(0));
    c.found = Probe::Answered;
    c.pass(30_000);
    assert_eq!(condition(&c, &node_id(0)), Condition::NotReady);
    c.deaf.clear();
    c.silent_refusals = true;
    let epoch = c.store.snapshot.graves.first().unwrap().epoch;
    let agent = c.agents.get_mut(&node_id(0)).unwrap();
    agent.tombstones.insert(workload_id("web"), (epoch, true));
    c.tell_all(&node_id(0));
    assert!(c.store.snapshot.graves.is_empty(), "nothing is left to be ordered");
    assert!(trouble(&c, &node_id(0)).is_some());
    c.undialled.clear();
    c.pass(15_000);
    assert_eq!(condition(&c, &node_id(0)), Condition::Ready);
    assert_eq!(trouble(&c, &node_id(0)), None, "an idle node is asked until it answers");
    c.apply("next", container(500, 512), "r1");
    assert_eq!(c.phase("next"), Some(Phase::Running));
}

#[test]
fn an_attempt_that_timed_out_keeps_its_room_while_its_next_one_finds_none() {
    let mut c = Cluster::with_nodes(1, 1_000, 1_024);
    c.starts_as = State::Pending;
    c.apply("web", container(500, 512), "r1");
    c.apply("web", container(900, 2_048), "r2");
    assert_eq!(c.assignment("web").reason.code, ReasonCode::UpdateWaits);
    // r1 times out; the retry wants r2, which fits nowhere.
    c.pass(60_000);
    let free = c.world.node(&node_id(0)).unwrap().free.cpu_millicores;
    assert_eq!(free, 500, "r1 may still come to run: {:?}", c.assignment("web"));
    c.say(&node_id(0), "web", State::Running);
    assert_eq!(c.phase("web"), Some(Phase::Running), "nothing runs unseen");
    assert_eq!(c.assignment("web").reason.code, ReasonCode::UpdateWaits);
}
