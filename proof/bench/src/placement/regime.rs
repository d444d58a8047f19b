//! The states a fleet is measured in.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::cpu::thread_time;

use super::churn::{Side, Until, assert_accounts, assert_picks, pair};
use super::fleet::{Labelling, Place, Want, capacity};
use super::measure::{Batch, Blocks, PAIRS, Spread, clock_cost, singly};
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

/// Operations drawn, made and recorded together; only making them is timed.
const BATCH: u32 = 512;

/// A batch of at most `count` operations of a regime, on either side, as a whole or one by one.
fn batch<S: Subject>(side: &mut Side<S>, regime: Regime, count: u32, tally: &mut Tally) -> Batch {
    let mut operations = side.prepare(count.min(BATCH));
    if regime == Regime::Infeasible {
        // Nine tenths of the largest machine in both: never free on a full fleet.
        let (cpu, mem) = capacity(2);
        for operation in &mut operations {
            operation.want = Want { cpu: cpu / 10 * 9, mem: mem / 10 * 9, place: Place::Anywhere };
        }
    }
    let operations = black_box(&mut operations);
    let mut placed = 0;
    let ran = thread_time();
    let start = Instant::now();
    for operation in operations.iter_mut() {
        if let Some(times) = &mut tally.singly {
            let start = Instant::now();
            placed += u32::from(black_box(side.operate(operation)));
            times.push(start.elapsed());
        } else {
            placed += u32::from(black_box(side.operate(operation)));
        }
    }
    let wall = start.elapsed();
    let cpu = thread_time().saturating_sub(ran);
    side.record(operations);
    let operations = u32::try_from(operations.len()).unwrap_or(0);
    tally.operations += operations;
    tally.refused += operations - placed;
    Batch { operations, wall, cpu }
}

#[derive(Debug, Default)]
struct Tally {
    singly: Option<Vec<Duration>>,
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
    for _ in 0..PAIRS {
        grid_blocks.time(grid_count, |count| batch(&mut grid, regime, count, &mut tally));
        scan_blocks.time(scan_count, |count| batch(&mut scan, regime, count, &mut other));
        tally.singly = Some(Vec::new());
        Blocks::default().time(grid_count / 4, |count| batch(&mut grid, regime, count, &mut tally));
        let [half, most] = singly(tally.singly.take().unwrap_or_default(), cost);
        p50.push(half);
        p99.push(most);
    }
    assert_accounts(&grid);
    let ratios = scan_blocks.each.iter().zip(&grid_blocks.each).map(|(scan, grid)| scan / grid);
    Point {
        regime,
        nodes,
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

/// Sizes between which growth is measured.
pub(super) const GROWTH: [u32; 2] = [1000, 100_000];
/// Turns of the two, and operations of each. A turn is short against the minutes in which a busy
/// neighbour comes and goes, and long against filling the caches anew.
const TURNS: usize = 61;
const TURN: u32 = 20_000;

/// The exponent with which the cost of an operation grows, in the regime that hurts most: the two
/// sizes take turns, and each pair of turns gives one.
#[derive(Debug)]
pub(super) struct Growth {
    pub(super) wall: Spread,
    pub(super) cpu: Spread,
}

pub(super) fn growth() -> Growth {
    let mut sides = GROWTH.map(|nodes| pair(nodes, Labelling::None, Until::Full).0);
    let (mut walls, mut cpus) = (Vec::new(), Vec::new());
    let exponent = |[small, large]: [f64; 2]| {
        let [few, many] = GROWTH.map(f64::from);
        (large / small).ln() / (many / few).ln()
    };
    for _ in 0..TURNS {
        let costs = sides.each_mut().map(|side| {
            let mut block = Blocks::default();
            block.time(TURN, |count| batch(side, Regime::Full, count, &mut Tally::default()));
            (Spread::of(block.each.clone()).median, block.cpu_per_operation())
        });
        walls.push(exponent(costs.map(|(wall, _)| wall)));
        cpus.push(exponent(costs.map(|(_, cpu)| cpu)));
    }
    Growth { wall: Spread::of(walls), cpu: Spread::of(cpus) }
}
