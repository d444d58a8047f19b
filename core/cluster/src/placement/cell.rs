//! Nodes with similar free amounts, under their maxima.
//!
//! Entries lie in one vector in no particular order. The cell has a top, and if it is large so
//! has every block of its entries: the largest free cpu and the largest free memory below. Invariant: a top is exactly the
//! maximum of its entries. Where one of the two amounts is known to be enough for the whole cell, the
//! cell's top answers for the other one without a search.
#![expect(
    clippy::indexing_slicing,
    reason = "positions come from the vectors' own lengths; each use is next to its bound"
)]

use std::ops::ControlFlow;

use super::request::{Pair, narrow, wide};

/// Entries of one top.
const FAN: usize = 16;

/// A node as its cell sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) node: u32,
    pub(super) free: Pair,
    /// 2^32 over capacity, to turn an amount into a share of the node.
    pub(super) inverse: Pair,
}

impl Entry {
    /// Share of the node left free, in its scarcer dimension, once `need` is placed on it; of 2^32.
    pub(super) fn left(&self, need: Pair) -> u64 {
        let share = |free: u32, need: u32, inverse: u32| {
            u64::from(free.saturating_sub(need)) * u64::from(inverse)
        };
        share(self.free.cpu, need.cpu, self.inverse.cpu).min(share(
            self.free.mem,
            need.mem,
            self.inverse.mem,
        ))
    }
}

/// One cell of a grid, one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Cell {
    entries: Vec<Entry>,
    /// One for every block; none while there is only one block.
    tops: Vec<Pair>,
    top: Pair,
    /// Where the next sample starts, so that equal nodes take turns.
    cursor: u32,
}

impl Cell {
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Largest free cpu and largest free memory in here, of possibly different nodes.
    pub(super) fn top(&self) -> Pair {
        self.top
    }

    /// Adds an entry and says where it lies.
    pub(super) fn push(&mut self, entry: Entry) -> u32 {
        let position = self.entries.len();
        self.entries.push(entry);
        if position == FAN {
            self.tops.push(self.top);
        }
        match self.tops.get_mut(position / FAN) {
            Some(top) => *top = top.max(entry.free),
            None if position >= FAN => self.tops.push(entry.free),
            None => {}
        }
        self.top = self.top.max(entry.free);
        narrow(position)
    }

    /// Takes the entry at `position` out; says which node lies there now.
    pub(super) fn remove(&mut self, position: usize) -> Option<u32> {
        let last = self.entries.len().checked_sub(1)?;
        if position > last {
            return None;
        }
        let gone = self.entries.swap_remove(position).free;
        let Some(moved) = self.entries.get(position).copied() else {
            self.lost(last, gone);
            return None;
        };
        self.lost(last, moved.free);
        self.replaced(position, gone, moved.free);
        Some(moved.node)
    }

    /// Changes the free amounts of the entry at `position`.
    pub(super) fn set_free(&mut self, position: usize, free: Pair) {
        if let Some(entry) = self.entries.get_mut(position) {
            let before = std::mem::replace(&mut entry.free, free);
            self.replaced(position, before, free);
        }
    }

    /// The entry at `position`, the last, is gone.
    fn lost(&mut self, position: usize, free: Pair) {
        if position.is_multiple_of(FAN)
            && let Some(before) = self.tops.pop()
        {
            self.lowered(before, Pair::default());
            if self.tops.len() == 1 {
                self.tops.clear();
            }
        } else {
            self.replaced(position, free, Pair::default());
        }
    }

    /// An entry in the block of `position` went from `before` to `now`. Only if it held the block's
    /// top, as one in many does, is that recomputed.
    fn replaced(&mut self, position: usize, before: Pair, now: Pair) {
        let index = position / FAN;
        let whole = self.tops.is_empty();
        let top = if whole { &mut self.top } else { &mut self.tops[index] };
        let old = *top;
        if (before.cpu == old.cpu && now.cpu < old.cpu)
            || (before.mem == old.mem && now.mem < old.mem)
        {
            *top = max_of(block(&self.entries, index).iter().map(|entry| entry.free));
        } else {
            *top = old.max(now);
        }
        let new = *top;
        if !whole {
            self.top = self.top.max(new);
            self.lowered(old, new);
        }
    }

    /// Recomputes the cell's top if a block that may have held it went from `before` to `now`. That
    /// is one block in many, or a block among equals, whose top did not change.
    fn lowered(&mut self, before: Pair, now: Pair) {
        let held = (before.cpu == self.top.cpu && now.cpu < before.cpu)
            || (before.mem == self.top.mem && now.mem < before.mem);
        if held {
            self.top = max_of(self.tops.iter().copied());
        }
    }

    /// Shows entries that cover `need` to `visit` until it breaks; counts the blocks it went into.
    pub(super) fn search(
        &self,
        need: Pair,
        looks: &mut u32,
        visit: &mut impl FnMut(&Entry) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if !self.top.covers(need) {
            return ControlFlow::Continue(());
        }
        let tops = if self.tops.is_empty() { std::slice::from_ref(&self.top) } else { &self.tops };
        for (index, top) in tops.iter().enumerate() {
            if !top.covers(need) {
                continue;
            }
            *looks += 1;
            for entry in block(&self.entries, index) {
                if entry.free.covers(need) {
                    visit(entry)?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Shows entries to `visit` in turn until it breaks, starting after where the last sample ended.
    pub(super) fn sample(&mut self, visit: &mut impl FnMut(&Entry) -> ControlFlow<()>) {
        let len = self.entries.len();
        let start = wide(self.cursor).min(len);
        let (before, after) = self.entries.split_at(start);
        let mut seen = 0;
        let flow = after.iter().chain(before).try_for_each(|entry| {
            seen += 1;
            visit(entry)
        });
        let next = if start + seen < len { start + seen } else { start + seen - len };
        self.cursor = if flow.is_break() { narrow(next) } else { 0 };
    }
}

fn block<T>(items: &[T], index: usize) -> &[T] {
    let len = items.len();
    &items[(index * FAN).min(len)..((index + 1) * FAN).min(len)]
}

fn max_of(amounts: impl Iterator<Item = Pair>) -> Pair {
    amounts.fold(Pair::default(), Pair::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(node: u32, cpu: u32, mem: u32) -> Entry {
        Entry { node, free: Pair { cpu, mem }, inverse: Pair { cpu: 1, mem: 1 } }
    }

    fn assert_tops(cell: &Cell) {
        let mut expected: Vec<Pair> =
            cell.entries.chunks(FAN).map(|b| max_of(b.iter().map(|entry| entry.free))).collect();
        assert_eq!(cell.top, max_of(expected.iter().copied()));
        if expected.len() == 1 {
            expected.clear();
        }
        assert_eq!(cell.tops, expected);
    }

    #[test]
    fn tops_are_exact_through_growth_change_and_removal() {
        let mut cell = Cell::default();
        let mut value = 7_u32;
        for node in 0..600 {
            value = value.wrapping_mul(1_103_515_245).wrapping_add(12345) % 9973;
            cell.push(entry(node, value, 9973 - value));
            assert_tops(&cell);
        }
        for step in 0..600_usize {
            let len = cell.entries.len();
            cell.set_free((step * 31) % len, Pair { cpu: narrow(step), mem: 3 });
            assert_tops(&cell);
            cell.remove((step * 17) % len);
            assert_tops(&cell);
        }
        assert!(cell.entries.is_empty() && cell.tops.is_empty());
        assert_eq!(cell.top(), Pair::default());
    }

    #[test]
    fn search_finds_all_that_cover_and_nothing_else() {
        let mut cell = Cell::default();
        for node in 0..1000 {
            cell.push(entry(node, node, 999 - node));
        }
        let mut found = Vec::new();
        let flow = cell.search(Pair { cpu: 400, mem: 590 }, &mut 0, &mut |entry| {
            found.push(entry.node);
            ControlFlow::Continue(())
        });
        assert!(flow.is_continue());
        assert_eq!(found, (400..=409).collect::<Vec<_>>());
    }

    #[test]
    fn samples_take_turns() {
        let mut cell = Cell::default();
        for node in 0..5 {
            cell.push(entry(node, 1, 1));
        }
        let mut seen = Vec::new();
        for _ in 0..4 {
            let mut left = 3;
            cell.sample(&mut |entry| {
                seen.push(entry.node);
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
        }
        assert_eq!(seen, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]);
    }
}
