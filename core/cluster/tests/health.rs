//! Health that nodes tell: stored, told once, and never a reason to move or stop anything.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test may stop"
)]

mod support;

use std::sync::Arc;

use persys_cluster::settings::Settings;
use persys_model::event::Happening;
use persys_model::health::{Health, HealthState};
use persys_model::id::NodeId;
use persys_model::inventory::State;
use persys_model::node::NodeFacts;
use persys_model::phase::Phase;
use persys_model::spec::Spec;
use persys_model::spec::health::{Check, HealthChecks, Probe, Ready};
use persys_model::workload::Desired;

use support::{Cluster, container, facts, node_id, workload_id};

/// Its node says that it runs, and this of its health.
fn say(c: &mut Cluster, health: Option<Health>) {
    say_after(c, 0, health);
}

fn say_after(c: &mut Cluster, restarts: u32, health: Option<Health>) {
    let node = c.node_of("web").unwrap();
    let held = c.agents.get_mut(&node).unwrap().held.get_mut(&workload_id("web")).unwrap();
    held.report.state = State::Running;
    held.report.health = health;
    held.report.restarts = restarts;
    c.tell_all(&node);
}

/// The health as it is stored.
fn stored(c: &Cluster) -> Option<Health> {
    let all = &c.store.snapshot.assignments;
    let one = all.iter().find(|one| one.workload == workload_id("web")).unwrap();
    one.health.as_ref().map(|known| known.health.clone())
}

fn told(c: &Cluster) -> Vec<(HealthState, String)> {
    let events = c.store.events.iter().filter_map(|event| match &event.what {
        Happening::Health { to, message, .. } => Some((*to, message.to_string())),
        _ => None,
    });
    events.collect()
}

fn running() -> Cluster {
    let mut c = Cluster::with_nodes(2, 1000, 1024);
    c.apply("web", container(400, 100), "r1");
    assert_eq!(c.phase("web"), Some(Phase::Running));
    c
}

#[test]
fn a_verdict_is_stored_with_an_event_and_changes_nothing_else() {
    let mut c = running();
    say(&mut c, Some(Health::starting()));
    assert_eq!((stored(&c), told(&c).len()), (Some(Health::starting()), 0));
    say(&mut c, Some(Health::healthy()));
    let (node, orders) = (c.node_of("web"), c.commands.len());
    say(&mut c, Some(Health::unhealthy("status 503")));
    assert_eq!(stored(&c), Some(Health::unhealthy("status 503")));
    let healthy = (HealthState::Healthy, String::new());
    assert_eq!(told(&c), [healthy.clone(), (HealthState::Unhealthy, "status 503".to_owned())]);
    assert_eq!((c.phase("web"), c.node_of("web")), (Some(Phase::Running), node));
    c.pass(600_000);
    assert_eq!(c.commands.len(), orders, "nobody is told to do anything");
    assert_eq!(c.world.tally().health.get(&HealthState::Unhealthy), Some(&1));
    say(&mut c, Some(Health::healthy()));
    assert_eq!(told(&c).last(), Some(&healthy));
}

#[test]
fn the_same_word_again_writes_nothing() {
    let mut c = running();
    say(&mut c, Some(Health::unhealthy("status 503")));
    let units = c.store.writes;
    for _ in 0..10 {
        say(&mut c, Some(Health::unhealthy("status 503")));
        c.pass(1_000);
    }
    assert_eq!(c.store.writes, units);
    assert_eq!(told(&c).len(), 1);
}

#[test]
fn a_new_life_of_an_agent_does_not_take_a_verdict_back() {
    let mut c = running();
    say(&mut c, Some(Health::unhealthy("status 503")));
    say(&mut c, Some(Health::starting()));
    assert_eq!(stored(&c), Some(Health::unhealthy("status 503")), "the same run begins anew");
    say_after(&mut c, 1, Some(Health::starting()));
    assert_eq!(stored(&c), Some(Health::starting()), "another run has no verdict yet");
}

#[test]
fn what_does_not_run_has_no_health_and_another_leader_knows_it() {
    let mut c = running();
    say(&mut c, Some(Health::unhealthy("status 503")));
    c.reopen();
    assert_eq!(c.world.tally().health.get(&HealthState::Unhealthy), Some(&1), "from the store");
    c.pass(10_000);
    assert_eq!(stored(&c), Some(Health::unhealthy("status 503")));
    c.set_desired("web", Desired::Stopped);
    assert_eq!(stored(&c), None);
    assert!(c.world.tally().health.is_empty());
}

#[test]
fn a_new_revision_begins_without_the_verdict_of_the_last() {
    let mut c = running();
    say(&mut c, Some(Health::unhealthy("status 503")));
    c.apply("web", container(500, 100), "r2");
    assert_eq!(c.phase("web"), Some(Phase::Running));
    assert_eq!(stored(&c), None);
}

#[test]
fn an_agent_that_cannot_check_is_named() {
    let check = Check {
        probe: Probe::Tcp { port: 80 },
        interval_ms: 1_000,
        timeout_ms: 1_000,
        start_period_ms: 0,
        retries: 1,
    };
    let health = HealthChecks { ready: Some(Ready::Check(Arc::new(check))) };
    for (checks_health, told) in [(true, None), (false, Some("n0 is too old; upgrade it"))] {
        let mut c = Cluster::new(Settings::default());
        c.join(NodeFacts { checks_health, ..facts(&node_id(0), 1000, 1024) });
        c.apply("web", Spec { health: health.clone(), ..container(400, 100) }, "r1");
        assert_eq!(c.node_of("web").as_ref().map(NodeId::as_str), Some(node_id(0).as_str()));
        let why = c.world.unchecked(&workload_id("web"));
        assert_eq!(why.is_some(), told.is_some(), "{why:?}");
        assert!(told.is_none_or(|told| why.unwrap().ends_with(told)));
    }
}
