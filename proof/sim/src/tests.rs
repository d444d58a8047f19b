//! A taste of what `make sim` does at length.

use persys_model::zoo::Bug;

use crate::run::{Batch, run, run_many};
use crate::setup::Setup;
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
