//! Capacity and reservations, in whole numbers.
//!
//! Reservations are added and taken back thousands of times; integers never drift. Arithmetic
//! saturates where a sum is only compared, and is checked where a difference must exist.

use std::collections::BTreeMap;

use crate::id::PoolName;

/// CPU and memory, the two amounts every workload and every node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Compute {
    /// Thousandths of a core.
    pub cpu_millicores: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
}

impl Compute {
    /// Nothing at all.
    pub const ZERO: Self = Self { cpu_millicores: 0, memory_mib: 0 };

    /// An amount of each.
    #[must_use]
    pub const fn new(cpu_millicores: u64, memory_mib: u64) -> Self {
        Self { cpu_millicores, memory_mib }
    }

    /// Whether `self` is enough for `need`, in each dimension.
    #[must_use]
    pub fn covers(self, need: Self) -> bool {
        self.cpu_millicores >= need.cpu_millicores && self.memory_mib >= need.memory_mib
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cpu_millicores: self.cpu_millicores.saturating_add(other.cpu_millicores),
            memory_mib: self.memory_mib.saturating_add(other.memory_mib),
        }
    }

    /// What is left of `self` once `other` is taken; zero where more is taken than there is.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            cpu_millicores: self.cpu_millicores.saturating_sub(other.cpu_millicores),
            memory_mib: self.memory_mib.saturating_sub(other.memory_mib),
        }
    }
}

/// Disk, per pool, in GiB. The key `None` is the node's default pool: the first it declared.
#[derive(Debug, Clone, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub struct Disk(BTreeMap<Option<PoolName>, u64>);

impl Disk {
    /// No disk.
    #[must_use]
    pub const fn none() -> Self {
        Self(BTreeMap::new())
    }

    /// Adds `gib` in `pool`; adding nothing leaves no trace.
    pub fn add(&mut self, pool: Option<PoolName>, gib: u64) {
        if gib > 0 {
            let sum = self.0.entry(pool).or_default();
            *sum = sum.saturating_add(gib);
        }
    }

    /// Pools and amounts, default pool first.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&PoolName>, u64)> {
        self.0.iter().map(|(pool, gib)| (pool.as_ref(), *gib))
    }

    /// The larger amount of both, pool by pool.
    #[must_use]
    pub fn larger(&self, other: &Self) -> Self {
        let mut larger = self.clone();
        for (pool, gib) in &other.0 {
            let amount = larger.0.entry(pool.clone()).or_default();
            *amount = (*amount).max(*gib);
        }
        larger
    }

    /// Whether any disk is meant at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Everything a workload reserves on its node.
#[derive(Debug, Clone, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub struct Resources {
    /// CPU and memory: held while it runs or is about to run.
    pub compute: Compute,
    /// Disk: held as long as its data exists.
    pub disk: Disk,
}

impl Resources {
    /// The larger amount of both, in each dimension: where either fits, this fits.
    #[must_use]
    pub fn larger(&self, other: &Self) -> Self {
        let compute = Compute {
            cpu_millicores: self.compute.cpu_millicores.max(other.compute.cpu_millicores),
            memory_mib: self.compute.memory_mib.max(other.compute.memory_mib),
        };
        Self { compute, disk: self.disk.larger(&other.disk) }
    }

    /// What a workload at rest keeps: its disk, but neither CPU nor memory.
    #[must_use]
    pub fn at_rest(&self) -> Self {
        Self { compute: Compute::ZERO, disk: self.disk.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_never_wrap() {
        let most = Compute::new(u64::MAX, u64::MAX);
        assert_eq!(most.plus(Compute::new(1, 1)), most);
        assert_eq!(Compute::ZERO.minus(most), Compute::ZERO);
        assert!(most.covers(Compute::ZERO) && !Compute::ZERO.covers(Compute::new(0, 1)));
    }

    #[test]
    fn adding_no_disk_leaves_no_trace() {
        let mut disk = Disk::none();
        disk.add(None, 0);
        assert!(disk.is_empty());
        disk.add(None, 2);
        disk.add(None, 3);
        assert_eq!(disk.iter().collect::<Vec<_>>(), vec![(None, 5)]);
    }
}
