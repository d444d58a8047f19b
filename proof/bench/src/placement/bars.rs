//! What must hold.

use super::churn::{Fill, Totals};
use super::regime::{Growth, Point, Regime};

/// One bar and how it was met.
#[derive(Debug)]
pub(super) struct Bar {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) limit: f64,
    pub(super) met: bool,
}

fn at_most(name: &'static str, value: f64, limit: f64) -> Bar {
    Bar { name, value, limit, met: value <= limit }
}

/// Judges all bars whose sizes were measured.
pub(super) fn judge(points: &[Point], growth: Option<&Growth>, fills: &[Fill]) -> Vec<Bar> {
    let full = |nodes: u32| {
        points.iter().find(|point| point.regime == Regime::Full && point.nodes == nodes)
    };
    let mut bars = Vec::new();
    if let Some(point) = full(10_000) {
        let (value, limit) = (point.ratio.median, 50.0);
        let name = "full churn, 10k nodes: times faster than the scan, at least";
        bars.push(Bar { name, value, limit, met: value >= limit });
    }
    if let Some(point) = full(100_000) {
        bars.push(at_most("full churn, 100k nodes: p99 in ns", point.p99.least, 2000.0));
    }
    if let (Some(small), Some(large)) = (full(1000), full(100_000)) {
        // The quickest block of each: a busy neighbour only ever adds, and adds more where caches
        // are full.
        let growth = (large.grid.least / small.grid.least).ln() / 100_f64.ln();
        let name = "full churn, 1k to 100k nodes: growth exponent of ns/op (quickest blocks)";
        bars.push(at_most(name, growth, 0.15));
    }
    if let Some(growth) = growth {
        let name = "full churn, 1k to 100k nodes in turns: growth exponent of ns/op";
        bars.push(at_most(name, growth.wall.median, 0.15));
        let name = "full churn, 1k to 100k nodes in turns: growth exponent of CPU ns/op";
        bars.push(at_most(name, growth.cpu.median, 0.15));
    }
    let worst = fills.iter().map(|fill| percent(fill.scan, fill) - percent(fill.grid, fill));
    let worst = worst.fold(f64::NEG_INFINITY, f64::max);
    bars.push(at_most("fill: percentage points behind the scan", worst, 2.0));
    bars
}

/// Share of cpu and memory placed, their mean, in percent.
pub(super) fn percent(placed: Totals, fill: &Fill) -> f64 {
    50.0 * (real(placed.cpu) / real(fill.all.cpu) + real(placed.mem) / real(fill.all.mem))
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "a percentage; sums here have fewer bits than the mantissa"
)]
pub(super) fn real(sum: u64) -> f64 {
    sum as f64
}
