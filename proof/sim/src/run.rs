//! One seed from beginning to end, and many of them at once.

use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::check::Violation;
use crate::cover::Cover;
use crate::setup::Setup;
use crate::sim::Sim;

/// What became of one run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    pub(crate) hash: u64,
    pub(crate) events: u64,
    pub(crate) virtual_ms: u64,
    pub(crate) violation: Option<Violation>,
    pub(crate) cover: Cover,
    pub(crate) lines: Vec<String>,
}

/// Runs one setup. A panic in a core is a violation like any other.
pub(crate) fn run(setup: Setup, readable: bool) -> Outcome {
    let seed = setup.seed;
    let mut sim = Sim::new(setup, readable);
    let end = std::panic::catch_unwind(AssertUnwindSafe(|| sim.run()));
    if let Err(payload) = end {
        let text = payload
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default();
        sim.check.violate(sim.now, "no panic", || text);
    }
    Outcome {
        seed,
        hash: sim.trace.hash(),
        events: sim.trace.events(),
        virtual_ms: sim.now,
        violation: sim.check.take_violation(),
        lines: sim.trace.take_lines(),
        cover: sim.cover,
    }
}

/// What became of many runs.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) seeds: u64,
    pub(crate) events: u64,
    pub(crate) virtual_ms: u64,
    pub(crate) repeated: u64,
    pub(crate) cover: Cover,
    /// The runs that went wrong, by seed.
    pub(crate) failed: Vec<(u64, Violation)>,
}

impl Tally {
    fn add(&mut self, outcome: Outcome) {
        self.seeds += 1;
        self.events += outcome.events;
        self.virtual_ms += outcome.virtual_ms;
        self.cover.merge(&outcome.cover);
        if let Some(violation) = outcome.violation {
            self.failed.push((outcome.seed, violation));
        }
    }
}

/// How many runs to make, and when to stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batch {
    pub(crate) from: u64,
    pub(crate) seeds: u64,
    pub(crate) jobs: usize,
    /// Stop after so many runs that went wrong.
    pub(crate) failures: usize,
}

/// Runs many seeds, several at a time; one in a hundred twice, to see that nothing but the seed
/// decides what happens.
pub(crate) fn run_many(batch: Batch, setup: &(dyn Fn(u64) -> Setup + Sync)) -> Tally {
    let next = AtomicU64::new(batch.from);
    let tally = Mutex::new(Tally::default());
    let end = batch.from.saturating_add(batch.seeds);
    std::thread::scope(|scope| {
        for _ in 0..batch.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let mut outcome = run(setup(seed), false);
                    let again = seed.is_multiple_of(100);
                    if again && outcome.violation.is_none() {
                        repeat(&mut outcome, setup(seed));
                    }
                    let Ok(mut tally) = tally.lock() else { return };
                    tally.repeated += u64::from(again);
                    tally.add(outcome);
                    if tally.failed.len() >= batch.failures {
                        return;
                    }
                }
            });
        }
    });
    let mut tally = tally.into_inner().unwrap_or_default();
    tally.failed.sort_by_key(|(seed, _)| *seed);
    tally
}

fn repeat(outcome: &mut Outcome, setup: Setup) {
    let second = run(setup, false);
    if (second.hash, second.events) != (outcome.hash, outcome.events) {
        outcome.violation = Some(Violation {
            at: 0,
            invariant: "I26",
            text: format!("two runs of one seed: {:x} and {:x}", outcome.hash, second.hash),
        });
    }
}
