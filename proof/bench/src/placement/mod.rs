//! Placement decisions: the index against an exact scan, in the regimes that hurt.
//!
//! One operation takes one workload away and places another, state included. Both sides start each
//! regime from the same state and get the same stream of requests; blocks of operations alternate.
//! While it measures, the bench also checks: every pick fits, both sides agree on whether one exists,
//! no node holds more than it has, and the index's accounts equal the sum of what was placed.

mod bars;
mod churn;
mod fleet;
mod measure;
mod regime;
mod report;
mod subject;

use std::io;
use std::path::Path;

pub use report::say;

/// Runs every regime whose name starts with `only`, prints the table, writes the JSON; whether all
/// bars are met.
pub fn run(json: &Path, quick: bool, only: &str) -> io::Result<bool> {
    say(&measure::method());
    say(&report::heading());
    let sizes: &[u32] = if quick { &[100, 1000, 10_000] } else { &[100, 1000, 10_000, 100_000] };
    let mut points = Vec::new();
    let regimes = regime::Regime::ALL.into_iter().filter(|regime| regime.word().starts_with(only));
    for regime in regimes {
        for nodes in sizes {
            let point = regime::run(regime, *nodes, quick);
            say(&report::row(&point));
            points.push(point);
        }
    }
    let fills: Vec<_> = [1000, 10_000].into_iter().map(churn::compare_fill).collect();
    let full = points.iter().any(|point| point.regime == regime::Regime::Full);
    let growth = (full && !quick).then(regime::growth);
    let bars = bars::judge(&points, growth.as_ref(), &fills);
    if let Some(growth) = &growth {
        say(&report::growth(growth));
    }
    say(&report::bars(&fills, &bars));
    if let Some(folder) = json.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(json, report::json(&points, &fills, &bars))?;
    Ok(bars.iter().all(|bar| bar.met))
}
