//! Capacity: what heartbeats say of it, what is refused because of it, and a node being drained.

use std::sync::Arc;

use persys_model::command::{Answer, Order, Refusal};
use persys_model::failure::FailureReason;
use persys_model::id::{PoolName, WorkloadId};
use persys_model::inventory::State;
use persys_model::link::BeatAnswer;
use persys_model::node::Pool;
use persys_model::resources::{Compute, Disk, Resources};
use persys_model::spec::Spec;
use persys_model::time::Now;

use super::rig::{Rig, apply, apply_spec, heard, id, plain, remove, rest, seen};
use crate::effects::Verb;
use crate::input::{Existing, Input, Outcome, Used};
use crate::ledger::Ledger;

#[test]
fn a_drained_node_starts_nothing_new_and_can_be_emptied() {
    let mut rig = Rig::running(5, "a", &plain());
    let BeatAnswer::Heard { term, session, seq, renewed, hold, want_inventory, beat_ms, .. } =
        heard(1)
    else {
        panic!("heard")
    };
    let drain = |drain| {
        let answer = BeatAnswer::Heard {
            term,
            session,
            seq,
            renewed,
            hold,
            drain,
            want_inventory,
            beat_ms,
            removals: Vec::new(),
            mark: None,
        };
        Input::Heard(answer)
    };
    rig.step(drain(true));
    assert!(rig.agent.draining() && !rig.agent.holding());
    let update = rig.order(apply(6, "b"));
    assert_eq!(rig.answer(update), Some(&Answer::Refused(Refusal::Draining)));
    let same = rig.order(apply(5, "a"));
    assert_eq!(rig.answer(same), Some(&Answer::Accepted), "what is held is confirmed");
    rig.order(rest(6, "a"));
    assert_eq!(rig.finish(Outcome::Done), Verb::STOP);
    rig.observe(vec![seen(6, "a", Existing::Exited { code: 0 })]);
    rig.order(remove(7));
    assert!(matches!(rig.finish(Outcome::Done), Verb::Remove { .. }));
    rig.step(drain(false));
    let again = rig.order(apply(8, "a"));
    assert_eq!(rig.answer(again), Some(&Answer::Accepted));
}

#[test]
fn a_drained_node_goes_on_sending_heartbeats() {
    let mut rig = Rig::running(5, "a", &plain());
    for _ in 0..5 {
        let before = rig.beats.len();
        rig.wait(2_000);
        assert!(rig.beats.len() > before, "it is still there and says so");
        let mut answer = heard(rig.beats.last().unwrap().seq);
        if let BeatAnswer::Heard { drain, .. } = &mut answer {
            *drain = true;
        }
        rig.step(Input::Heard(answer));
        assert!(rig.agent.draining());
    }
}

/// A spec that reserves this much.
fn needs(cpu: u64, memory: u64, disk_gib: u64) -> Arc<Spec> {
    let mut disk = Disk::none();
    disk.add(None, disk_gib);
    let resources = Resources { compute: Compute::new(cpu, memory), disk };
    Arc::new(Spec { resources, ..(*plain()).clone() })
}

#[test]
fn what_exceeds_the_machine_is_refused_with_the_numbers() {
    let refused = |spec: Arc<Spec>| {
        let mut rig = Rig::alive(Ledger::default(), Vec::new());
        rig.order(apply_spec(5, "a", spec));
        assert!(rig.verbs.is_empty(), "nothing is started");
        let Some(State::Failed(failure)) = rig.state() else { panic!("{:?}", rig.state()) };
        assert_eq!(failure.reason, FailureReason::InsufficientResources);
        failure.message.to_string()
    };
    let said = refused(needs(100, 99 * 1024, 0));
    assert!(said.contains("it needs 101376 MiB of memory, and the machine has 1000"), "{said}");
    let said = refused(needs(2_000, 1_001, 0));
    assert!(said.contains("2000 millicores of CPU") && said.contains("1001 MiB"), "{said}");
}

#[test]
fn what_is_held_counts_against_the_next_and_not_against_itself() {
    let mut rig = Rig::running(5, "a", &needs(600, 600, 0));
    let other = WorkloadId::fixed("other");
    let said = rig.agent.no_room(&other, &needs(500, 100, 0)).unwrap().message;
    let wanted = "it needs 500 millicores of CPU, and 400 of 1000 are not reserved";
    assert!(said.contains(wanted), "{said}");
    assert_eq!(rig.agent.no_room(&other, &needs(400, 400, 0)), None);
    assert_eq!(rig.agent.no_room(&id("web"), &needs(1_000, 1_000, 0)), None, "its own update");
    rig.order(remove(6));
    assert_eq!(rig.agent.no_room(&other, &needs(900, 900, 0)), None, "what goes is not in the way");
}

#[test]
fn pools_in_one_file_system_are_one_disk() {
    let pool = |name: &'static str| PoolName::fixed(name);
    let mut facts = super::rig::facts();
    let fast = Pool { shares: Some(pool("root")), ..Pool::alone(pool("fast"), 100) };
    facts.pools = vec![Pool::alone(pool("root"), 100), fast, Pool::alone(pool("far"), 50)];
    let (settings, now) = (crate::settings::AgentSettings::default(), Now::at(1));
    let (mut agent, _) = crate::agent::Agent::start(facts, Ledger::default(), settings, now);
    let spec = |parts: &[(Option<&'static str>, u64)]| {
        let mut disk = Disk::none();
        for (name, gib) in parts {
            disk.add(name.map(pool), *gib);
        }
        Spec { resources: Resources { compute: Compute::ZERO, disk }, ..(*plain()).clone() }
    };
    let web = id("web");
    assert_eq!(
        agent.no_room(&web, &spec(&[(None, 60), (Some("fast"), 40), (Some("far"), 50)])),
        None
    );
    let said = agent.no_room(&web, &spec(&[(None, 60), (Some("fast"), 41)])).unwrap().message;
    assert!(said.contains("101 GiB of disk in pool root, and the machine has 100"), "{said}");
    // Others fill the disk: only what is free and what workloads use already can be promised.
    let limits = [(pool("root"), 54), (pool("fast"), 54)].into();
    agent.step(Input::Usage(Used { limits, ..Used::default() }), Now::at(2));
    let said = agent.no_room(&web, &spec(&[(Some("fast"), 55)])).unwrap().message;
    assert!(said.contains("the machine has 54"), "{said}");
}

#[test]
fn a_layer_that_fills_is_warned_of_and_then_stopped() {
    const MIB: u64 = 1 << 20;
    let mut rig = Rig::running(5, "a", &needs(100, 64, 1));
    assert_eq!(rig.agent.layer_limits(), [(id("web"), 1024 * MIB)]);
    let wrote =
        |mib: u64| Input::Wrote { workload: id("web"), bytes: mib * MIB, limit: 1024 * MIB };
    rig.step(wrote(900));
    assert_eq!(rig.trouble(), None);
    rig.step(wrote(1000));
    let warned = rig.trouble().unwrap();
    assert_eq!(warned.reason, FailureReason::StorageError);
    assert!(warned.message.contains("wrote 1000 MiB"), "{}", warned.message);
    assert!(warned.message.contains("1024 MiB"), "{}", warned.message);
    assert_eq!(rig.state(), Some(State::Running));
    rig.step(wrote(10));
    assert_eq!(rig.trouble(), None, "what was deleted again is forgiven");
    rig.step(wrote(1025));
    let Some(State::Failed(failure)) = rig.state() else { panic!("{:?}", rig.state()) };
    assert_eq!(failure.reason, FailureReason::StorageError);
    assert!(
        failure.message.contains("wrote 1025 MiB") && failure.message.contains("reserves 1024")
    );
    assert_eq!(rig.finish(Outcome::Done), Verb::STOP);
    rig.observe(vec![seen(5, "a", Existing::Exited { code: 143 })]);
    assert!(rig.verbs.is_empty(), "it is not restarted under this decision");
    rig.order(apply_spec(6, "b", needs(100, 64, 2)));
    assert!(matches!(rig.finish(Outcome::Done), Verb::Remove { purge: false, .. }), "made anew");
}

#[test]
fn a_heartbeat_reports_what_is_reserved_and_what_is_used() {
    let mut disk = Disk::none();
    disk.add(None, 4);
    disk.add(Some(PoolName::fixed("fast")), 6);
    let resources = Resources { compute: Compute::new(250, 128), disk };
    let spec = Arc::new(Spec { resources, ..(*plain()).clone() });
    let mut rig = Rig::running(5, "a", &spec);
    let used = Used { compute: Compute::new(300, 200), disk_gib: 17, ..Used::default() };
    rig.step(Input::Usage(used));
    rig.wait(5_000);
    let usage = rig.beats.last().unwrap().usage;
    assert_eq!((usage.allocated, usage.allocated_disk_gib), (Compute::new(250, 128), 10));
    assert_eq!((usage.used, usage.used_disk_gib), (Compute::new(300, 200), 17));
    let mut at_rest = apply_spec(6, "a", spec);
    let Order::Apply(apply) = &mut at_rest.order else { panic!("an apply") };
    apply.run = false;
    rig.order(at_rest);
    let usage = rig.agent.usage();
    assert_eq!((usage.allocated, usage.allocated_disk_gib), (Compute::ZERO, 10), "data is kept");
    rig.order(remove(7));
    assert_eq!(rig.agent.usage().allocated_disk_gib, 0);
}
