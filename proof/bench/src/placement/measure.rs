//! Clocks and statistics.
//!
//! The mean of an operation comes from whole blocks, timed once. Percentiles come from operations
//! timed one by one; the cost of reading the clock, measured in the same run, is taken off. Noise on
//! a shared machine only ever adds, so a percentile is the lowest of several repetitions, and the
//! median repetition is printed beside it.

use std::fs;
use std::time::{Duration, Instant};

/// How it is measured, for the head of the output.
pub(super) fn method() -> String {
    format!(
        "placement: one operation removes one workload and places one, accounts included;\n\
         drawing them (own) is measured by itself and taken off.\n\
         ns/op: median of {PAIRS} blocks (each the median of {PARTS} parts), alternating index and scan. x: median of the {PAIRS} ratios (min-max).\n\
         cpu: thread time over all blocks. p50/p99: operations timed singly, {:.0} ns of clock taken off;\n\
         lowest of {PAIRS} repetitions (median repetition in brackets).",
        nanos(clock_cost())
    )
}

/// Parts of a block.
const PARTS: u32 = 25;
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

/// CPU time of this thread; zero where the kernel does not say.
pub(super) fn thread_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ran = text.split_whitespace().next().and_then(|first| first.parse().ok());
    Duration::from_nanos(ran.unwrap_or(0))
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

/// A running sum of wall and CPU time of blocks.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    pub(super) each: Vec<f64>,
    cpu: Duration,
    operations: u32,
    own_cpu: f64,
}

impl Blocks {
    /// Times about `count` operations as one block. The block counts as its median part, since a
    /// whole block rarely runs without being interrupted.
    pub(super) fn time(&mut self, count: u32, mut operation: impl FnMut()) {
        let before = thread_time();
        let part = count.div_ceil(PARTS);
        let parts = (0..PARTS).map(|_| {
            let start = Instant::now();
            for _ in 0..part {
                operation();
            }
            nanos(start.elapsed()) / f64::from(part)
        });
        self.each.push(Spread::of(parts.collect()).median);
        self.cpu += thread_time().saturating_sub(before);
        self.operations += part * PARTS;
    }

    /// Takes off what the bench itself costs per operation.
    pub(super) fn less(&mut self, own: f64, own_cpu: f64) {
        for each in &mut self.each {
            *each -= own;
        }
        self.own_cpu = own_cpu;
    }

    pub(super) fn cpu_per_operation(&self) -> f64 {
        nanos(self.cpu) / f64::from(self.operations.max(1)) - self.own_cpu
    }
}

/// Times operations one by one; p50 and p99 in nanoseconds, the clock's cost taken off.
pub(super) fn singly(
    count: u32,
    cost: Duration,
    mut operation: impl FnMut() -> Duration,
) -> [f64; 2] {
    let mut times: Vec<f64> = (0..count).map(|_| nanos(operation().saturating_sub(cost))).collect();
    times.sort_by(f64::total_cmp);
    [percentile(&times, 50), percentile(&times, 99)]
}
