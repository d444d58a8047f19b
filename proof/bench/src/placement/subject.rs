//! The two sides.

use persys_cluster::placement::{Index, NodeIndex, Request};
use persys_model::labels::Constraint;
use persys_model::resources::{Disk, Resources};
use persys_model::spec::{Strategy, WorkloadType};

use super::fleet::{Labelling, Place, Want, ZONES, capacity, constraint, traits, zone};

/// Something that places workloads and keeps account.
pub(super) trait Subject {
    /// Chooses a node, without taking anything.
    fn pick(&mut self, want: &Want) -> Option<u32>;
    /// Records a workload on a node.
    fn take(&mut self, node: u32, want: &Want);
    /// Takes a workload off a node.
    fn give(&mut self, node: u32, want: &Want);
}

/// The index under test.
pub(super) struct Grid {
    pub(super) index: Index,
    constraints: Constraints,
}

/// Constraints made once, as a stored spec would hold them.
struct Constraints {
    zones: Vec<[Constraint; 1]>,
    hosts: Vec<[Constraint; 1]>,
}

const NO_DISK: &Disk = &Disk::none();

impl Grid {
    pub(super) fn new(nodes: u32, labelling: Labelling) -> Self {
        let mut index = Index::new();
        for node in 0..nodes {
            let (cpu, mem) = capacity(node);
            let capacity = Want { cpu, mem, place: Place::Anywhere }.compute();
            index.set_node(NodeIndex(node), capacity, &[], traits(labelling, node));
        }
        let hosts = if labelling == Labelling::Hosts { nodes } else { 0 };
        let constraints = Constraints {
            zones: (0..ZONES).map(|zone| [constraint("zone", format!("z{zone}"))]).collect(),
            hosts: (0..hosts).map(|host| [constraint("host", format!("h{host}"))]).collect(),
        };
        Self { index, constraints }
    }

    /// Whether a node passes every filter.
    pub(super) fn fits(&self, node: u32, want: &Want) -> bool {
        self.index.fits(NodeIndex(node), &self.constraints.request(want))
    }
}

impl Constraints {
    fn request(&self, want: &Want) -> Request<'_> {
        let constraints: Option<&[Constraint; 1]> = match want.place {
            Place::Anywhere => None,
            Place::Zone(zone) => usize::try_from(zone).ok().and_then(|at| self.zones.get(at)),
            Place::Host(host) => usize::try_from(host).ok().and_then(|at| self.hosts.get(at)),
        };
        Request {
            compute: want.compute(),
            disk: NO_DISK,
            ports: &[],
            constraints: constraints.map_or(&[], |constraints| constraints.as_slice()),
            tolerations: &[],
            workload_type: WorkloadType::Container,
            drivers: &[],
            strategy: Strategy::Spread,
            avoid: &[],
        }
    }
}

impl Subject for Grid {
    fn pick(&mut self, want: &Want) -> Option<u32> {
        self.index.pick(&self.constraints.request(want)).map(|node| node.0)
    }

    fn take(&mut self, node: u32, want: &Want) {
        let what = Resources { compute: want.compute(), disk: Disk::none() };
        self.index.take(NodeIndex(node), &what, &[]);
    }

    fn give(&mut self, node: u32, want: &Want) {
        let what = Resources { compute: want.compute(), disk: Disk::none() };
        self.index.give(NodeIndex(node), &what, &[]);
    }
}

/// One pass over columns, keeping the best: no allocation, no sort, labels as numbers. Anything
/// slower would flatter the index.
pub(super) struct Scan {
    cpu: Vec<u32>,
    mem: Vec<u32>,
    cpu_share: Vec<f32>,
    mem_share: Vec<f32>,
    zones: Vec<u32>,
}

impl Scan {
    pub(super) fn new(nodes: u32) -> Self {
        let share = |amount: u32| 1.0 / single(amount);
        Self {
            cpu: (0..nodes).map(|node| capacity(node).0).collect(),
            mem: (0..nodes).map(|node| capacity(node).1).collect(),
            cpu_share: (0..nodes).map(|node| share(capacity(node).0)).collect(),
            mem_share: (0..nodes).map(|node| share(capacity(node).1)).collect(),
            zones: (0..nodes).map(zone).collect(),
        }
    }

    fn best(&self, want: &Want, admits: impl Fn(u32, u32) -> bool) -> Option<u32> {
        let mut best = None;
        let mut most = -1.0_f32;
        let amounts = self.cpu.iter().zip(&self.mem);
        let shares = self.cpu_share.iter().zip(&self.mem_share);
        for ((node, (cpu, mem)), ((cpu_share, mem_share), zone)) in
            (0..).zip(amounts).zip(shares.zip(&self.zones))
        {
            if *cpu >= want.cpu && *mem >= want.mem && admits(node, *zone) {
                let left =
                    (single(*cpu - want.cpu) * cpu_share).min(single(*mem - want.mem) * mem_share);
                if left > most {
                    most = left;
                    best = Some(node);
                }
            }
        }
        best
    }

    fn change(&mut self, node: u32, change: impl Fn(&mut u32, &mut u32)) {
        if let Ok(at) = usize::try_from(node)
            && let (Some(cpu), Some(mem)) = (self.cpu.get_mut(at), self.mem.get_mut(at))
        {
            change(cpu, mem);
        }
    }
}

impl Subject for Scan {
    fn pick(&mut self, want: &Want) -> Option<u32> {
        match want.place {
            Place::Anywhere => self.best(want, |_, _| true),
            Place::Zone(wanted) => self.best(want, |_, zone| zone == wanted),
            Place::Host(wanted) => self.best(want, |node, _| node == wanted),
        }
    }

    fn take(&mut self, node: u32, want: &Want) {
        self.change(node, |cpu, mem| {
            *cpu -= want.cpu;
            *mem -= want.mem;
        });
    }

    fn give(&mut self, node: u32, want: &Want) {
        self.change(node, |cpu, mem| {
            *cpu += want.cpu;
            *mem += want.mem;
        });
    }
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "a score; amounts here have fewer bits than the mantissa"
)]
fn single(amount: u32) -> f32 {
    amount as f32
}
