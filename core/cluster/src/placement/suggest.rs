//! What to change so that a request fits.
//!
//! A node that only one filter refuses is one change away; cpu and memory together count as one,
//! since both are made smaller in the same place. Everything else is too far to suggest.

use std::collections::BTreeMap;
use std::fmt;

use persys_model::id::PoolName;
use persys_model::labels::{Constraint, Taint};
use persys_model::resources::Compute;
use persys_model::spec::HostPort;

use super::explain::Reason;
use super::request::NodeIndex;

/// One change that would make a request fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suggestion {
    /// Ask for no more cpu than this.
    LessCpu {
        /// What would fit.
        millicores: u64,
        /// Where.
        node: NodeIndex,
    },
    /// Ask for no more memory than this.
    LessMemory {
        /// What would fit.
        mib: u64,
        /// Where.
        node: NodeIndex,
    },
    /// Ask for no more cpu and memory than this.
    LessCompute {
        /// What would fit.
        compute: Compute,
        /// Where.
        node: NodeIndex,
    },
    /// Ask for no more disk than this.
    LessDisk {
        /// In which pool; `None` is the default one.
        pool: Option<PoolName>,
        /// What would fit.
        gib: u64,
        /// Where.
        node: NodeIndex,
    },
    /// Drop a constraint.
    WithoutConstraint {
        /// Which.
        constraint: Constraint,
        /// How many nodes would then fit.
        nodes: usize,
    },
    /// Tolerate a taint.
    Tolerate {
        /// Which.
        taint: Taint,
        /// How many nodes would then fit.
        nodes: usize,
    },
    /// Use another port.
    OtherPort {
        /// Which one is taken.
        port: HostPort,
        /// How many nodes would fit without it.
        nodes: usize,
    },
    /// Wait for a closed node, or open it.
    OpenNode {
        /// How many nodes would then fit.
        nodes: usize,
    },
    /// No eligible node is large enough, even when empty.
    BiggerThanAnyNode {
        /// The largest cpu and the largest memory of eligible nodes, possibly of two nodes.
        largest: Compute,
    },
}

/// Gathers suggestions while nodes are judged.
#[derive(Debug)]
pub(super) struct Suggestions {
    need: Compute,
    largest: Compute,
    eligible: bool,
    large_enough: bool,
    closed: usize,
    constraints: BTreeMap<(usize, Constraint), usize>,
    taints: BTreeMap<Taint, usize>,
    ports: BTreeMap<HostPort, usize>,
    cpu: Option<(u64, NodeIndex)>,
    memory: Option<(u64, NodeIndex)>,
    disk: BTreeMap<Option<PoolName>, (u64, NodeIndex)>,
    /// With the parts per thousand that remain of what is asked, in the dimension cut most.
    compute: Option<(u64, NodeIndex, Compute)>,
}

impl Suggestions {
    pub(super) fn new(need: Compute) -> Self {
        Self {
            need,
            largest: Compute::ZERO,
            eligible: false,
            large_enough: false,
            closed: 0,
            constraints: BTreeMap::new(),
            taints: BTreeMap::new(),
            ports: BTreeMap::new(),
            cpu: None,
            memory: None,
            disk: BTreeMap::new(),
            compute: None,
        }
    }

    /// A node whose class admits the request has this capacity.
    pub(super) fn eligible(&mut self, capacity: Compute) {
        self.eligible = true;
        self.large_enough |= capacity.covers(self.need);
        self.largest = Compute {
            cpu_millicores: self.largest.cpu_millicores.max(capacity.cpu_millicores),
            memory_mib: self.largest.memory_mib.max(capacity.memory_mib),
        };
    }

    /// A node is refused for all of `faults`.
    pub(super) fn missed(&mut self, at: NodeIndex, faults: &[Reason]) {
        match faults {
            [Reason::Closed] => self.closed += 1,
            [Reason::Constraint(number, constraint)] => {
                *self.constraints.entry((*number, constraint.clone())).or_default() += 1;
            }
            [Reason::Taint(taint)] => *self.taints.entry(taint.clone()).or_default() += 1,
            [Reason::Port(port)] => *self.ports.entry(*port).or_default() += 1,
            [Reason::Cpu(short)] => keep_most(&mut self.cpu, short.most_free, at),
            [Reason::Memory(short)] => keep_most(&mut self.memory, short.most_free, at),
            [Reason::Cpu(cpu), Reason::Memory(memory)] => {
                let kept = |part: u64, of: u64| part.saturating_mul(1000) / of.max(1);
                let least = kept(cpu.most_free, cpu.need).min(kept(memory.most_free, memory.need));
                if self.compute.is_none_or(|(best, node, _)| (least, node) > (best, at)) {
                    let fits = Compute::new(cpu.most_free, memory.most_free);
                    self.compute = Some((least, at, fits));
                }
            }
            [Reason::Disk(pool, short)] if short.most_free > 0 => {
                let best = self.disk.entry(pool.clone()).or_insert((0, at));
                if short.most_free > best.0 {
                    *best = (short.most_free, at);
                }
            }
            _ => {}
        }
    }

    /// All that was found, amounts first.
    pub(super) fn finish(self) -> Vec<Suggestion> {
        let mut found = Vec::new();
        if self.eligible && !self.large_enough {
            found.push(Suggestion::BiggerThanAnyNode { largest: self.largest });
        }
        let memory = self.memory.map(|(mib, node)| Suggestion::LessMemory { mib, node });
        let cpu = self.cpu.map(|(millicores, node)| Suggestion::LessCpu { millicores, node });
        let both = match (&cpu, &memory) {
            (None, None) => self.compute,
            _ => None,
        };
        found.extend(memory);
        found.extend(cpu);
        found.extend(both.map(|(_, node, compute)| Suggestion::LessCompute { compute, node }));
        let disk = self.disk.into_iter();
        found.extend(disk.map(|(pool, (gib, node))| Suggestion::LessDisk { pool, gib, node }));
        found.extend(
            self.constraints.into_iter().map(|((_, constraint), nodes)| {
                Suggestion::WithoutConstraint { constraint, nodes }
            }),
        );
        let taints = self.taints.into_iter();
        found.extend(taints.map(|(taint, nodes)| Suggestion::Tolerate { taint, nodes }));
        let ports = self.ports.into_iter();
        found.extend(ports.map(|(port, nodes)| Suggestion::OtherPort { port, nodes }));
        if self.closed > 0 {
            found.push(Suggestion::OpenNode { nodes: self.closed });
        }
        found
    }
}

/// Keeps the larger amount, and the lowest node among equals; nothing at all is not worth saying.
fn keep_most(best: &mut Option<(u64, NodeIndex)>, amount: u64, at: NodeIndex) {
    let better = best.is_none_or(|(most, node)| amount > most || (amount == most && at < node));
    if amount > 0 && better {
        *best = Some((amount, at));
    }
}

impl fmt::Display for Suggestion {
    /// One sentence, without the name of the node: the caller knows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fit = |nodes: &usize| match nodes {
            1 => "1 node fits".to_owned(),
            _ => format!("{nodes} nodes fit"),
        };
        match self {
            Self::LessCpu { millicores, .. } => write!(f, "cpu <= {millicores}m would fit"),
            Self::LessMemory { mib, .. } => write!(f, "memory <= {mib} MiB would fit"),
            Self::LessCompute { compute: Compute { cpu_millicores, memory_mib }, .. } => {
                write!(f, "cpu <= {cpu_millicores}m with memory <= {memory_mib} MiB would fit")
            }
            Self::LessDisk { pool: None, gib, .. } => write!(f, "disk <= {gib} GiB would fit"),
            Self::LessDisk { pool: Some(pool), gib, .. } => {
                write!(f, "disk <= {gib} GiB in pool {pool} would fit")
            }
            Self::WithoutConstraint { constraint, nodes } => {
                write!(f, "without constraint {constraint} {}", fit(nodes))
            }
            Self::Tolerate { taint, nodes } => {
                write!(f, "{} if taint {} were tolerated", fit(nodes), taint.key)
            }
            Self::OtherPort { port, nodes } => {
                write!(f, "{} with another port than {port}", fit(nodes))
            }
            Self::OpenNode { nodes } => write!(f, "{} once open again", fit(nodes)),
            Self::BiggerThanAnyNode { largest: Compute { cpu_millicores, memory_mib } } => write!(
                f,
                "bigger than any node: the largest have {cpu_millicores}m cpu, {memory_mib} MiB memory"
            ),
        }
    }
}
