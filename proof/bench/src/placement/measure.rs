//! Clocks and statistics.
//!
//! The mean of an operation comes from whole blocks, timed once. Percentiles come from operations
//! timed one by one; the cost of reading the clock, measured in the same run, is taken off. Noise on
//! a shared machine only ever adds, so a percentile is the lowest of several repetitions, and the
//! median repetition is printed beside it.

use std::time::{Duration, Instant};

/// How it is measured, for the head of the output.
pub(super) fn method() -> String {
    format!(
        "placement: one operation removes one workload and places one, accounts included;\n\
         drawing and recording them is not timed.\n\
         ns/op: median of {PAIRS} blocks (each the median of {PARTS} parts), alternating index and scan. x: median of the {PAIRS} ratios (min-max).\n\
         cpu: mean thread time over all blocks. p50/p99: operations timed singly, {:.0} ns of clock taken off;\n\
         lowest of {PAIRS} repetitions (median repetition in brackets).",
        nanos(clock_cost())
    )
}

/// Parts of a block.
const PARTS: u32 = 200;
/// Repetitions of everything.
pub(super) const PAIRS: usize = 7;

pub(super) fn nanos(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e9
}

/// What reading the clock twice costs by itself.
pub(super) fn clock_cost() -> Duration {
    let mut costs: Vec<Duration> = (0..20_000)
        .map(|_| {
            let start = Instant::now();
            start.elapsed()
        })
        .collect();
    costs.sort_unstable();
    costs.get(costs.len() / 2).copied().unwrap_or_default()
}

/// The value below which `share` percent of sorted values lie.
pub(super) fn percentile(sorted: &[f64], share: usize) -> f64 {
    let at = (sorted.len() * share / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(0.0)
}

/// Lowest, middle and highest of several repetitions.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spread {
    pub(super) least: f64,
    pub(super) median: f64,
    pub(super) most: f64,
}

impl Spread {
    pub(super) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self {
            least: values.first().copied().unwrap_or(0.0),
            median: percentile(&values, 50),
            most: values.last().copied().unwrap_or(0.0),
        }
    }
}

/// Operations made together.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) operations: u32,
    /// Making them, by the wall.
    pub(super) wall: Duration,
    /// Making them, as this thread ran.
    pub(super) cpu: Duration,
}

/// A running sum of wall and CPU time of blocks.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    pub(super) each: Vec<f64>,
    cpu: Duration,
    operations: u32,
}

impl Blocks {
    /// Makes about `count` operations as one block. The block counts as its median part, since a
    /// whole block rarely runs without being interrupted.
    pub(super) fn time(&mut self, count: u32, mut batch: impl FnMut(u32) -> Batch) {
        let mut parts = Vec::new();
        for _ in 0..PARTS {
            let (mut operations, mut spent) = (0, Duration::ZERO);
            while operations < count.div_ceil(PARTS) {
                let made = batch(count.div_ceil(PARTS) - operations);
                if made.operations == 0 {
                    break;
                }
                operations += made.operations;
                spent += made.wall;
                self.cpu += made.cpu;
            }
            parts.push(nanos(spent) / f64::from(operations.max(1)));
            self.operations += operations;
        }
        self.each.push(Spread::of(parts).median);
    }

    pub(super) fn cpu_per_operation(&self) -> f64 {
        nanos(self.cpu) / f64::from(self.operations.max(1))
    }
}

/// The p50 and p99 of operations timed one by one, in nanoseconds, the clock's cost taken off.
pub(super) fn singly(times: Vec<Duration>, cost: Duration) -> [f64; 2] {
    let less = times.into_iter().map(|time| nanos(time.saturating_sub(cost)));
    let mut times: Vec<f64> = less.collect();
    times.sort_by(f64::total_cmp);
    [percentile(&times, 50), percentile(&times, 99)]
}
