//! What is asked of the index, and what it is told of nodes.

use std::collections::BTreeSet;

use persys_model::id::DriverName;
use persys_model::labels::{Constraint, Labels, Taint, Toleration};
use persys_model::resources::{Compute, Disk};
use persys_model::spec::{HostPort, Strategy, WorkloadType};

/// Dense number of a node in the index. The caller gives them out, from 0, and again after removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u32);

impl NodeIndex {
    /// Its position in a column.
    pub(super) const fn wide(self) -> usize {
        wide(self.0)
    }
}

/// What decides whether a node may be used at all, besides free amounts. Nodes with equal traits
/// are judged once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Traits {
    /// Labels as placement sees them.
    pub labels: Labels,
    /// Marks that keep workloads away.
    pub taints: BTreeSet<Taint>,
    /// What it can run.
    pub types: BTreeSet<WorkloadType>,
    /// Which volumes it can store.
    pub drivers: BTreeSet<DriverName>,
}

/// One workload looking for a node.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// CPU and memory it reserves.
    pub compute: Compute,
    /// Disk it reserves.
    pub disk: &'a Disk,
    /// Ports it takes on the node itself.
    pub ports: &'a [HostPort],
    /// Demands on labels; all must hold.
    pub constraints: &'a [Constraint],
    /// Taints it puts up with.
    pub tolerations: &'a [Toleration],
    /// What runs it.
    pub workload_type: WorkloadType,
    /// Storage drivers it needs.
    pub drivers: &'a [DriverName],
    /// Which of the nodes that fit.
    pub strategy: Strategy,
    /// Nodes used only when nothing else fits.
    pub avoid: &'a [NodeIndex],
}

/// CPU and memory in the width the grids count in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Pair {
    pub(super) cpu: u32,
    pub(super) mem: u32,
}

impl Pair {
    /// A demand; `None` if it is too large to be compared in this width.
    pub(super) fn need(compute: Compute) -> Option<Self> {
        let cpu = u32::try_from(compute.cpu_millicores).ok()?;
        let mem = u32::try_from(compute.memory_mib).ok()?;
        Some(Self { cpu, mem })
    }

    /// An offer; more than the width can say is said as its maximum, which covers every demand that
    /// can be said.
    pub(super) fn offer(compute: Compute) -> Self {
        Self {
            cpu: u32::try_from(compute.cpu_millicores).unwrap_or(u32::MAX),
            mem: u32::try_from(compute.memory_mib).unwrap_or(u32::MAX),
        }
    }

    /// Whether this is enough for `need`.
    pub(super) fn covers(self, need: Self) -> bool {
        self.cpu >= need.cpu && self.mem >= need.mem
    }

    /// The larger of each.
    pub(super) fn max(self, other: Self) -> Self {
        Self { cpu: self.cpu.max(other.cpu), mem: self.mem.max(other.mem) }
    }
}

/// A 32-bit number as a position.
#[expect(clippy::as_conversions, reason = "every supported target has at least 32-bit positions")]
pub(super) const fn wide(number: u32) -> usize {
    number as usize
}

/// A position as a 32-bit number. Positions count nodes or classes of nodes, whose numbers are
/// 32-bit themselves.
pub(super) fn narrow(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
