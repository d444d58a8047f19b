//! Groups: open nodes that no broad selector tells apart and that are about equally large.
//!
//! Equal size makes a step of the grid the same share of every node in it. Invariants: every open
//! node is in exactly one group, every closed one in none; each broad selector's lists name exactly
//! the groups it admits; a disk bound is never less than the largest free amount in its group.

use std::collections::BTreeMap;

use persys_model::id::PoolName;
use persys_model::resources::Disk;

use super::grid::Grid;
use super::node::Cold;
use super::request::{Pair, narrow, wide};
use super::selector::{Signature, Verdict};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    signature: Signature,
    cpu: u32,
    mem: u32,
}

/// One group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) grid: Grid,
    /// For pools that were once found short: no node here has more.
    disk: BTreeMap<Option<PoolName>, u64>,
}

impl Group {
    /// Whether some node may have room for `disk`; a quick refusal.
    pub(super) fn may_hold(&self, disk: &Disk) -> bool {
        self.disk.is_empty()
            || disk
                .iter()
                .all(|(pool, gib)| self.disk.get(&pool.cloned()).is_none_or(|bound| *bound >= gib))
    }

    /// Keeps the bounds true after a node came in or was given disk back.
    pub(super) fn raise(&mut self, cold: &Cold) {
        for (pool, bound) in &mut self.disk {
            *bound = (*bound).max(cold.free_disk(pool.as_ref()).unwrap_or(u64::MAX));
        }
    }

    /// Notes the largest free amount of a pool.
    pub(super) fn set_bound(&mut self, pool: Option<&PoolName>, most: u64) {
        self.disk.insert(pool.cloned(), most);
    }
}

/// Groups admitted by one broad selector.
#[derive(Debug, Default, Clone)]
pub(super) struct Reach {
    pub(super) admitted: Vec<u32>,
    pub(super) reluctant: Vec<u32>,
}

/// All groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    table: Vec<Group>,
    by_key: BTreeMap<Key, u32>,
    reaches: Vec<Reach>,
}

impl Groups {
    /// No groups, for selectors numbered below `numbers`.
    pub(super) fn with_numbers(numbers: u8) -> Self {
        Self { reaches: vec![Reach::default(); usize::from(numbers)], ..Self::default() }
    }

    /// Makes room for one more selector, which admits no group yet.
    pub(super) fn add_number(&mut self) {
        self.reaches.push(Reach::default());
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn table(&self) -> &[Group] {
        &self.table
    }

    pub(super) fn get_mut(&mut self, group: u32) -> Option<&mut Group> {
        self.table.get_mut(wide(group))
    }

    /// The reach of a selector, and all groups to look into.
    pub(super) fn reach(&mut self, number: u8) -> Option<(&Reach, &mut [Group])> {
        Some((self.reaches.get(usize::from(number))?, &mut self.table))
    }

    /// The group for nodes with these bits and about this capacity, made if need be.
    pub(super) fn group_for(&mut self, signature: Signature, capacity: Pair) -> u32 {
        let limit = Pair { cpu: round_up(capacity.cpu), mem: round_up(capacity.mem) };
        let key = Key { signature, cpu: limit.cpu, mem: limit.mem };
        if let Some(group) = self.by_key.get(&key) {
            return *group;
        }
        let group = narrow(self.table.len());
        self.table.push(Group { grid: Grid::new(limit), disk: BTreeMap::new() });
        self.by_key.insert(key, group);
        for (number, reach) in (0..).zip(&mut self.reaches) {
            match signature.verdict(number) {
                Verdict::Refused => {}
                Verdict::Reluctant => reach.reluctant.push(group),
                Verdict::Admitted => reach.admitted.push(group),
            }
        }
        group
    }
}

/// The largest amount counted as about equal: four steps to each doubling.
fn round_up(amount: u32) -> u32 {
    let octave = amount.checked_ilog2().unwrap_or(0);
    let fine = (1_u32 << octave.saturating_sub(2)) - 1;
    amount | fine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_by_less_than_a_quarter() {
        for amount in [0, 1, 2, 3, 4, 5, 7, 8, 100, 4000, 64_000, 65_536, u32::MAX] {
            let up = round_up(amount);
            assert!(up >= amount && round_up(up) == up, "{amount} -> {up}");
            assert!(u64::from(up) <= u64::from(amount) + u64::from(amount) / 4, "{amount} -> {up}");
        }
    }
}
