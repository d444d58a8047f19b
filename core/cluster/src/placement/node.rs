//! What the index knows of one node: totals, what is taken, ports.
//!
//! Invariant: taking and giving back the same leaves no trace, even beyond capacity and even if
//! capacity or pools changed in between.

use std::collections::BTreeMap;

use persys_model::id::PoolName;
use persys_model::node::{Pool, first_of};
use persys_model::resources::{Compute, Disk};
use persys_model::spec::HostPort;

use super::cell::{Entry, Share};
use super::grid::Slot;
use super::request::{NodeIndex, Pair, Request};

/// The part every change touches, half a cache line: on a large fleet it is what memory has to
/// deliver for each of them.
#[derive(Debug, Clone)]
#[repr(align(32))]
pub(super) struct Hot {
    /// Capacity less what is taken; below zero where more is taken than there is.
    cpu: i64,
    mem: i64,
    share: Share,
    /// Its group, or [`NO_GROUP`], and where it lies there.
    group: u32,
    position: u32,
    place: u16,
    pub(super) present: bool,
    pub(super) open: bool,
}

const NO_GROUP: u32 = u32::MAX;
const _: () = assert!(size_of::<Hot>() == 32);

impl Default for Hot {
    fn default() -> Self {
        let [cpu, mem] = [0; 2];
        let (group, position, place) = (NO_GROUP, 0, 0);
        Self {
            cpu,
            mem,
            share: Share::default(),
            group,
            position,
            place,
            present: false,
            open: false,
        }
    }
}

impl Hot {
    pub(super) fn free(&self) -> Compute {
        Compute::new(self.cpu.try_into().unwrap_or(0), self.mem.try_into().unwrap_or(0))
    }

    pub(super) fn take(&mut self, what: Compute) {
        self.cpu = self.cpu.saturating_sub_unsigned(what.cpu_millicores);
        self.mem = self.mem.saturating_sub_unsigned(what.memory_mib);
    }

    pub(super) fn give(&mut self, what: Compute) {
        self.cpu = self.cpu.saturating_add_unsigned(what.cpu_millicores);
        self.mem = self.mem.saturating_add_unsigned(what.memory_mib);
    }

    /// Its group, if it is in one: if it is open.
    pub(super) fn group(&self) -> Option<u32> {
        (self.group != NO_GROUP).then_some(self.group)
    }

    pub(super) fn set_group(&mut self, group: Option<u32>) {
        self.group = group.unwrap_or(NO_GROUP);
    }

    /// Where it lies in its group.
    pub(super) fn slot(&self) -> Slot {
        Slot { place: self.place, position: self.position }
    }

    /// This node as its cell sees it.
    pub(super) fn entry(&self, node: u32) -> Entry {
        Entry { node, share: self.share, free: Pair::offer(self.free()) }
    }
}

/// The part only changes of the node itself and requests with disk or ports touch.
#[derive(Debug, Clone, Default)]
pub(super) struct Cold {
    capacity: Compute,
    /// Its class, and where it lies among the class's members.
    pub(super) class: u32,
    pub(super) member: u32,
    pools: Vec<Pool>,
    disk: BTreeMap<Option<PoolName>, u64>,
    ports: BTreeMap<HostPort, u32>,
}

impl Cold {
    pub(super) fn capacity(&self) -> Compute {
        self.capacity
    }

    pub(super) fn set_pools(&mut self, pools: &[Pool]) {
        self.pools = pools.to_vec();
    }

    pub(super) fn take(&mut self, disk: &Disk, ports: &[HostPort]) {
        for (pool, gib) in disk.iter() {
            let sum = self.disk.entry(pool.cloned()).or_default();
            *sum = sum.saturating_add(gib);
        }
        for port in ports {
            *self.ports.entry(*port).or_default() += 1;
        }
    }

    pub(super) fn give(&mut self, disk: &Disk, ports: &[HostPort]) {
        for (pool, gib) in disk.iter() {
            let key = pool.cloned();
            if let Some(sum) = self.disk.get_mut(&key) {
                *sum = sum.saturating_sub(gib);
                if *sum == 0 {
                    self.disk.remove(&key);
                }
            }
        }
        for port in ports {
            if let Some(count) = self.ports.get_mut(port) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.ports.remove(port);
                }
            }
        }
    }

    pub(super) fn is_port_taken(&self, port: HostPort) -> bool {
        self.ports.contains_key(&port)
    }

    /// The first of `ports` that is taken.
    pub(super) fn port_conflict(&self, ports: &[HostPort]) -> Option<HostPort> {
        ports.iter().copied().find(|port| self.is_port_taken(*port))
    }

    /// Free disk in `pool`; `None` if this node does not count it.
    pub(super) fn free_disk(&self, pool: Option<&PoolName>) -> Option<u64> {
        if self.pools.is_empty() {
            return if pool.is_some() { Some(0) } else { None };
        }
        let Some(first) = first_of(&self.pools, pool) else { return Some(0) };
        let here = |key: &Option<PoolName>| first_of(&self.pools, key.as_ref()) == Some(first);
        let taken = self.disk.iter().filter(|(key, _)| here(key)).map(|(_, gib)| *gib);
        Some(first.total_gib.saturating_sub(taken.fold(0, u64::saturating_add)))
    }

    /// The first pool of `disk` without room: its key, what is asked of it, what is free.
    pub(super) fn disk_shortage<'a>(
        &self,
        disk: &'a Disk,
    ) -> Option<(Option<&'a PoolName>, u64, u64)> {
        let first = |pool: Option<&PoolName>| first_of(&self.pools, pool).map(|pool| &pool.name);
        disk.iter().find_map(|(pool, gib)| {
            let free = self.free_disk(pool)?;
            // One file system may be asked for twice: by several pools in it, or by the name of the
            // default pool and as the default.
            let also: u64 = disk
                .iter()
                .filter(|(other, _)| *other != pool && first(*other) == first(pool))
                .fold(0, |sum: u64, (_, gib)| sum.saturating_add(gib));
            let need = gib.saturating_add(also);
            (free < need || !self.has_pool(pool)).then_some((pool, need, free))
        })
    }

    fn has_pool(&self, pool: Option<&PoolName>) -> bool {
        pool.is_none_or(|name| self.pools.iter().any(|pool| pool.name == *name))
    }
}

/// All nodes, by number.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    hot: Vec<Hot>,
    cold: Vec<Cold>,
}

impl Nodes {
    /// Makes room for `at`; numbers never set are absent and closed.
    pub(super) fn ensure(&mut self, at: NodeIndex) {
        if at.wide() >= self.hot.len() {
            self.hot.resize_with(at.wide() + 1, Hot::default);
            self.cold.resize_with(at.wide() + 1, Cold::default);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.hot.len()
    }

    pub(super) fn hot(&self, at: NodeIndex) -> Option<&Hot> {
        self.hot.get(at.wide())
    }

    pub(super) fn hot_mut(&mut self, at: NodeIndex) -> Option<&mut Hot> {
        self.hot.get_mut(at.wide())
    }

    pub(super) fn cold(&self, at: NodeIndex) -> Option<&Cold> {
        self.cold.get(at.wide())
    }

    pub(super) fn cold_mut(&mut self, at: NodeIndex) -> Option<&mut Cold> {
        self.cold.get_mut(at.wide())
    }

    /// Changes what a node has; what is taken on it stays taken.
    pub(super) fn set_capacity(&mut self, at: NodeIndex, capacity: Compute) {
        let taken = self.taken(at);
        let Some(cold) = self.cold.get_mut(at.wide()) else { return };
        cold.capacity = capacity;
        if let Some(hot) = self.hot.get_mut(at.wide()) {
            (hot.cpu, hot.mem) = (signed(capacity.cpu_millicores), signed(capacity.memory_mib));
            hot.take(taken);
            hot.share = Share::new(Pair::offer(capacity));
        }
    }

    /// CPU and memory a node has in all.
    pub(super) fn capacity(&self, at: NodeIndex) -> Compute {
        self.cold(at).map_or(Compute::ZERO, |cold| cold.capacity)
    }

    /// CPU and memory taken on a node.
    pub(super) fn taken(&self, at: NodeIndex) -> Compute {
        let Some(hot) = self.hot(at) else { return Compute::ZERO };
        let capacity = self.capacity(at);
        let taken = |capacity: u64, spare: i64| {
            u64::try_from(i128::from(signed(capacity)) - i128::from(spare)).unwrap_or(0)
        };
        Compute::new(taken(capacity.cpu_millicores, hot.cpu), taken(capacity.memory_mib, hot.mem))
    }

    pub(super) fn set_slot(&mut self, at: NodeIndex, slot: Slot) {
        if let Some(hot) = self.hot_mut(at) {
            (hot.place, hot.position) = (slot.place, slot.position);
        }
    }

    /// Whether ports and disk of `request` are free on a node.
    pub(super) fn holds(&self, at: NodeIndex, request: &Request<'_>) -> bool {
        if request.ports.is_empty() && request.disk.is_empty() {
            return true;
        }
        self.cold(at).is_some_and(|cold| {
            cold.port_conflict(request.ports).is_none()
                && cold.disk_shortage(request.disk).is_none()
        })
    }
}

/// A capacity as it is counted; one beyond all reason counts as merely enormous.
fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
