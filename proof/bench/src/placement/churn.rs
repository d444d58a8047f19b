//! Filling a fleet, and taking one away to place one.

use persys_cluster::placement::NodeIndex;

use super::fleet::{Chance, Labelling, Place, Want, capacity, want};
use super::subject::{Grid, Scan, Subject};

/// Failures in a row after which a fleet counts as full.
const FULL: u32 = 200;

/// One workload that is placed. Eight bytes, so that the bench's own list leaves the caches to what is
/// measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Live {
    pub(super) node: u32,
    cpu: u16,
    mem: u16,
}

impl Live {
    fn new(node: u32, want: &Want) -> Self {
        let [cpu, mem] = [want.cpu, want.mem].map(|amount| u16::try_from(amount).unwrap_or(0));
        debug_assert!(cpu > 0 && mem > 0, "{want:?} is placed but too large to be listed");
        Self { node, cpu, mem }
    }

    /// The amounts; where it may go no longer matters.
    fn want(self) -> Want {
        Want { cpu: self.cpu.into(), mem: self.mem.into(), place: Place::Anywhere }
    }
}

/// One side with its own list of what is placed and its own, equal, stream of requests.
pub(super) struct Side<S> {
    pub(super) subject: S,
    pub(super) live: Vec<Live>,
    pub(super) chance: Chance,
    pub(super) labelling: Labelling,
    pub(super) nodes: u32,
}

/// How far a fleet is filled.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    /// As many workloads as a tenth of the nodes.
    Sparse,
    /// This share, in percent, of the total cpu or memory.
    Percent(u64),
    /// Nothing fits any more.
    Full,
}

/// Sums over a fleet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) cpu: u64,
    pub(super) mem: u64,
}

pub(super) fn totals(nodes: u32) -> Totals {
    (0..nodes).map(capacity).fold(Totals::default(), |sum, (cpu, mem)| Totals {
        cpu: sum.cpu + u64::from(cpu),
        mem: sum.mem + u64::from(mem),
    })
}

impl<S: Subject> Side<S> {
    /// Places requests of the stream until the fleet is as full as asked.
    pub(super) fn fill(&mut self, until: Until) -> Totals {
        let all = totals(self.nodes);
        let mut placed = Totals::default();
        let mut failures = 0;
        loop {
            let enough = match until {
                Until::Sparse => self.live.len() >= self.nodes.div_ceil(10).try_into().unwrap_or(1),
                Until::Percent(share) => {
                    placed.cpu * 100 >= all.cpu * share || placed.mem * 100 >= all.mem * share
                }
                Until::Full => false,
            };
            if enough || failures == FULL {
                return placed;
            }
            let want = want(&mut self.chance, self.labelling, self.nodes);
            match self.subject.pick(&want) {
                Some(node) => {
                    self.subject.take(node, &want);
                    self.live.push(Live::new(node, &want));
                    placed.cpu += u64::from(want.cpu);
                    placed.mem += u64::from(want.mem);
                    failures = 0;
                }
                None => failures += 1,
            }
        }
    }

    /// Which workload goes and what comes.
    pub(super) fn draw(&mut self) -> (usize, Want) {
        let count = u32::try_from(self.live.len()).unwrap_or(u32::MAX);
        let victim = self.chance.below(count.max(1));
        (victim.try_into().unwrap_or(0), want(&mut self.chance, self.labelling, self.nodes))
    }

    /// Draws up to `count` operations on different workloads, spread over all of them.
    pub(super) fn prepare(&mut self, count: u32) -> Vec<Operation> {
        let all = u32::try_from(self.live.len()).unwrap_or(u32::MAX);
        let stride = all.checked_div(count).unwrap_or(0).max(1);
        (0..count.min(all))
            .filter_map(|number| {
                let victim = usize::try_from(number * stride + self.chance.below(stride)).ok()?;
                let live = *self.live.get(victim)?;
                let want = want(&mut self.chance, self.labelling, self.nodes);
                Some(Operation { victim, live, want })
            })
            .collect()
    }

    /// Takes one away and places another; whether there was room for it.
    pub(super) fn operate(&mut self, operation: &mut Operation) -> bool {
        let Operation { live, want, .. } = operation;
        self.subject.give(live.node, &live.want());
        let picked = self.subject.pick(want);
        if let Some(node) = picked {
            *live = Live::new(node, want);
        }
        // Where nothing fits, what was taken away goes back: the fleet stays as full as it was.
        self.subject.take(live.node, &live.want());
        picked.is_some()
    }

    /// Writes operations back to the list of what is placed.
    pub(super) fn record(&mut self, operations: &[Operation]) {
        for operation in operations {
            if let Some(live) = self.live.get_mut(operation.victim) {
                *live = operation.live;
            }
        }
    }
}

/// One workload goes, another comes. Carries its own record, as a caller has it at hand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    victim: usize,
    live: Live,
    pub(super) want: Want,
}

/// Two sides in one state: the index fills, the scan is told.
pub(super) fn pair(nodes: u32, labelling: Labelling, until: Until) -> (Side<Grid>, Side<Scan>) {
    let subject = Grid::new(nodes, labelling);
    let mut grid = Side { subject, live: Vec::new(), chance: Chance(7), labelling, nodes };
    grid.fill(until);
    let mut scan = Side {
        subject: Scan::new(nodes),
        live: grid.live.clone(),
        chance: grid.chance.clone(),
        labelling,
        nodes,
    };
    for live in &scan.live {
        scan.subject.take(live.node, &live.want());
    }
    (grid, scan)
}

/// Panics unless what is placed equals the index's accounts and no node holds more than it has.
pub(super) fn assert_accounts(side: &Side<Grid>) {
    let mut sums = vec![Totals::default(); usize::try_from(side.nodes).unwrap_or(0)];
    for live in &side.live {
        if let Some(sum) = usize::try_from(live.node).ok().and_then(|at| sums.get_mut(at)) {
            sum.cpu += u64::from(live.cpu);
            sum.mem += u64::from(live.mem);
        }
    }
    for (node, sum) in (0..).zip(&sums) {
        let taken = side.subject.index.taken(NodeIndex(node));
        assert_eq!((taken.cpu_millicores, taken.memory_mib), (sum.cpu, sum.mem), "node {node}");
        let (cpu, mem) = capacity(node);
        assert!(sum.cpu <= u64::from(cpu) && sum.mem <= u64::from(mem), "node {node} is overfull");
    }
}

/// Panics unless the index agrees with a scan of its own state, and its picks fit.
pub(super) fn assert_picks(side: &mut Side<Grid>, count: u32) {
    let mut scan = Scan::new(side.nodes);
    for live in &side.live {
        scan.take(live.node, &live.want());
    }
    for _ in 0..count {
        let (victim, want) = side.draw();
        let Some(live) = side.live.get_mut(victim) else { return };
        side.subject.give(live.node, &live.want());
        scan.give(live.node, &live.want());
        let picked = side.subject.pick(&want);
        assert_eq!(picked.is_some(), scan.pick(&want).is_some(), "{want:?}");
        if let Some(node) = picked {
            assert!(side.subject.fits(node, &want), "{want:?} on {node}");
            *live = Live::new(node, &want);
        }
        side.subject.take(live.node, &live.want());
        scan.take(live.node, &live.want());
    }
}

/// How full each side gets a fleet from nothing, with the same requests and the same stop rule.
#[derive(Debug)]
pub(super) struct Fill {
    pub(super) nodes: u32,
    pub(super) grid: Totals,
    pub(super) scan: Totals,
    pub(super) all: Totals,
}

pub(super) fn compare_fill(nodes: u32) -> Fill {
    fn filled<S: Subject>(subject: S, nodes: u32) -> Totals {
        let labelling = Labelling::None;
        Side { subject, live: Vec::new(), chance: Chance(11), labelling, nodes }.fill(Until::Full)
    }
    Fill {
        nodes,
        grid: filled(Grid::new(nodes, Labelling::None), nodes),
        scan: filled(Scan::new(nodes), nodes),
        all: totals(nodes),
    }
}
