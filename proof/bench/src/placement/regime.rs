//! The states a fleet is measured in.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::churn::{Side, Until, assert_accounts, assert_picks, pair};
use super::fleet::{Labelling, Place, Want, capacity};
use super::measure::{Blocks, PAIRS, Spread, clock_cost, singly};
use super::subject::Subject;

/// A state of the fleet and a kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Regime {
    Empty,
    Sixty,
    /// Nothing fits but by luck: cpu-heavy and memory-heavy workloads fill every node.
    Full,
    /// Every request names one of 64 zones.
    Zone,
    /// Every node has a label of its own; a quarter of the requests name one, a quarter a zone.
    Distinct,
    /// A full fleet, and requests that fit nowhere.
    Infeasible,
}

impl Regime {
    pub(super) const ALL: [Self; 6] =
        [Self::Empty, Self::Sixty, Self::Full, Self::Zone, Self::Distinct, Self::Infeasible];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Sixty => "60 %",
            Self::Full => "full churn",
            Self::Zone => "1 of 64 zones",
            Self::Distinct => "labels distinct",
            Self::Infeasible => "infeasible",
        }
    }

    fn labelling(self) -> Labelling {
        match self {
            Self::Empty | Self::Sixty | Self::Full | Self::Infeasible => Labelling::None,
            Self::Zone => Labelling::Zones,
            Self::Distinct => Labelling::Hosts,
        }
    }

    fn until(self) -> Until {
        match self {
            Self::Empty => Until::Sparse,
            Self::Sixty | Self::Zone | Self::Distinct => Until::Percent(60),
            Self::Full | Self::Infeasible => Until::Full,
        }
    }
}

/// What was measured in one regime at one size.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) regime: Regime,
    pub(super) nodes: u32,
    /// What the bench itself costs; taken off the others.
    pub(super) own: f64,
    pub(super) grid: Spread,
    pub(super) scan: Spread,
    pub(super) ratio: Spread,
    pub(super) grid_cpu: f64,
    pub(super) scan_cpu: f64,
    pub(super) p50: Spread,
    pub(super) p99: Spread,
    /// Operations of the index that found no room, in percent.
    pub(super) refused: f64,
    pub(super) fallbacks: u64,
}

/// One operation of a regime, on either side.
fn operate<S: Subject>(side: &mut Side<S>, regime: Regime, tally: &mut Tally) -> Duration {
    let (victim, want) = draw(side, regime);
    let start = tally.singly.then(Instant::now);
    let placed = black_box(side.operate(victim, want));
    let took = start.map(|start| start.elapsed()).unwrap_or_default();
    tally.operations += 1;
    tally.refused += u32::from(!placed);
    took
}

/// What the next operation is about. Looks the victim up, as a caller that removes a workload has its
/// record at hand.
fn draw<S: Subject>(side: &mut Side<S>, regime: Regime) -> (usize, Want) {
    let (victim, mut want) = side.draw();
    if regime == Regime::Infeasible {
        // Nine tenths of the largest machine in both: never free on a full fleet.
        let (cpu, mem) = capacity(2);
        want = Want { cpu: cpu / 10 * 9, mem: mem / 10 * 9, place: Place::Anywhere };
    }
    black_box(side.live.get(victim).copied());
    (victim, black_box(want))
}

#[derive(Debug, Default)]
struct Tally {
    singly: bool,
    operations: u32,
    refused: u32,
}

/// Measures one regime at one size.
pub(super) fn run(regime: Regime, nodes: u32, quick: bool) -> Point {
    let (mut grid, mut scan) = pair(nodes, regime.labelling(), regime.until());
    assert_accounts(&grid);
    assert_picks(&mut grid, if nodes > 10_000 { 200 } else { 2000 });
    let cost = clock_cost();
    let grid_count = if quick { 20_000 } else { 150_000 };
    // About as long as the other side's block, whatever the size.
    let scan_count = (40_000_000 / (2 * nodes + 500)).clamp(50, 40_000) / if quick { 5 } else { 1 };
    let mut tally = Tally::default();
    let mut other = Tally::default();
    let (mut grid_blocks, mut scan_blocks) = (Blocks::default(), Blocks::default());
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    let fallbacks = grid.subject.index.fallbacks();
    // Drawing victims and requests is the bench's own cost.
    let mut own = Blocks::default();
    for _ in 0..PAIRS {
        own.time(grid_count, || {
            black_box(draw(&mut grid, regime));
        });
    }
    let own_cpu = own.cpu_per_operation();
    let own = Spread::of(own.each).least;
    for _ in 0..PAIRS {
        grid_blocks.time(grid_count, || {
            operate(&mut grid, regime, &mut tally);
        });
        scan_blocks.time(scan_count, || {
            operate(&mut scan, regime, &mut other);
        });
        tally.singly = true;
        let [half, most] = singly(grid_count / 4, cost, || operate(&mut grid, regime, &mut tally));
        tally.singly = false;
        p50.push(half);
        p99.push(most);
    }
    assert_accounts(&grid);
    grid_blocks.less(own, own_cpu);
    scan_blocks.less(own, own_cpu);
    let ratios = scan_blocks.each.iter().zip(&grid_blocks.each).map(|(scan, grid)| scan / grid);
    Point {
        regime,
        nodes,
        own,
        ratio: Spread::of(ratios.collect()),
        grid_cpu: grid_blocks.cpu_per_operation(),
        scan_cpu: scan_blocks.cpu_per_operation(),
        grid: Spread::of(grid_blocks.each),
        scan: Spread::of(scan_blocks.each),
        p50: Spread::of(p50),
        p99: Spread::of(p99),
        refused: 100.0 * f64::from(tally.refused) / f64::from(tally.operations.max(1)),
        fallbacks: grid.subject.index.fallbacks() - fallbacks,
    }
}
