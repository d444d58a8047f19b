//! A taste of what `make sim` does at length.

use persys_cluster::input::Ask;
use persys_model::workload::Desired;
use persys_model::zoo::Bug;

use crate::fault::FaultSet;
use crate::run::{Batch, run, run_many};
use crate::runtime::image;
use crate::setup::Setup;
use crate::sim::{Event, Scripted, Sim};
use crate::specs::{Recipe, Shape};
use crate::zoo;

#[test]
fn a_hundred_seeds_violate_nothing() {
    let batch = Batch { from: 1, seeds: 100, jobs: 2, failures: 1 };
    let tally = run_many(batch, &Setup::draw);
    assert_eq!(tally.failed, []);
}

#[test]
fn the_same_seed_tells_the_same_story() {
    for seed in [3, 7] {
        let tell = || {
            let outcome = run(Setup::draw(seed), true);
            (outcome.hash, outcome.lines)
        };
        assert_eq!(tell(), tell());
    }
}

#[test]
fn known_bugs_are_found() {
    for bug in [Bug::TokenBeforeCommit, Bug::EventOutsideCommit, Bug::EffectBeforeIntent] {
        let catch = zoo::hunt(bug, Batch { from: 1, seeds: 50, jobs: 2, failures: 1 });
        assert!(catch.found.is_some(), "{} was not found", bug.name());
    }
}

#[test]
fn every_run_has_an_agent_of_the_contract_beside_ours() {
    for seed in 1..500 {
        let setup = Setup::draw(seed);
        let (theirs, ours) = (setup.contract.len(), setup.nodes - setup.contract.len());
        assert!(ours >= 1 && (theirs >= 1 || setup.nodes == 1), "seed {seed}");
    }
}

#[test]
fn an_agent_of_the_contract_applies_updates_and_deletes() {
    let mut setup = Setup::draw(5);
    (setup.nodes, setup.schedulers, setup.workloads) = (1, 1, 1);
    setup.contract = [0].into();
    setup.room_percent = 400;
    setup.faults = FaultSet::default();
    setup.faults_ms = 40_000;
    setup.user_gap_ms = 1_000_000;
    let mut sim = Sim::new(setup, true);
    let owned = &mut sim.users.workloads[0];
    owned.recipe = Recipe::plain(Shape::Stateless, image::GOOD);
    let mut asks = Vec::new();
    for version in [1, 2] {
        owned.version = version;
        asks.extend(owned.apply(Desired::Running));
    }
    asks.push(Ask::Delete(owned.id.clone()));
    for (at, ask) in [4_000, 12_000, 24_000].into_iter().zip(asks) {
        sim.queue.push(at, Event::Scripted(Scripted::Ask(Box::new(ask))));
    }
    sim.run();
    assert_eq!(sim.check.take_violation(), None);
    let lines = sim.trace.take_lines();
    let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    // A user may have asked for something of their own before.
    assert!(count("w0: Started (as the contract agent was told)") >= 2);
    assert!(count("task w0: run w0-v1") >= 1 && count("task w0: run w0-v2") >= 1);
    assert!(count("task w0: delete") >= 1);
    assert!(sim.hosts[0].runtime.things.is_empty());
}
