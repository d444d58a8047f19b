//! Nodes with similar free amounts, under a tree of maxima.
//!
//! Entries lie in one vector in no particular order. Above them every sixteen entries have a top,
//! every sixteen tops have a top, up to one root: the largest free cpu and the largest free memory
//! below. Invariant: a top is exactly the maximum of its children. Where one of the two amounts is
//! known to be enough for the whole cell, the root answers for the other one without a search.
#![expect(
    clippy::indexing_slicing,
    reason = "positions come from the vectors' own lengths; each use is next to its bound"
)]

use std::ops::ControlFlow;

use super::request::{Pair, narrow};

/// Children of one top. A block of entries is five cache lines.
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

/// One cell of a grid.
#[derive(Debug, Default)]
pub(super) struct Cell {
    entries: Vec<Entry>,
    /// Tops of entries first, the root last.
    levels: Vec<Vec<Pair>>,
    /// Where the next sample starts, so that equal nodes take turns.
    cursor: usize,
}

impl Cell {
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Largest free cpu and largest free memory in here, of possibly different nodes.
    pub(super) fn top(&self) -> Pair {
        self.levels.last().and_then(|level| level.first()).copied().unwrap_or_default()
    }

    /// Adds an entry and says where it lies.
    pub(super) fn push(&mut self, entry: Entry) -> u32 {
        let position = self.entries.len();
        self.entries.push(entry);
        let mut index = position / FAN;
        for depth in 0.. {
            if depth == self.levels.len() {
                let below = match depth {
                    0 => entry.free,
                    _ => max_of(&self.levels[depth - 1]),
                };
                self.levels.push(vec![below]);
                break;
            }
            let level = &mut self.levels[depth];
            match level.get_mut(index) {
                Some(top) if top.covers(entry.free) => break,
                Some(top) => *top = top.max(entry.free),
                None => level.push(entry.free),
            }
            if level.len() == 1 {
                break;
            }
            index /= FAN;
        }
        narrow(position)
    }

    /// Takes the entry at `position` out; says which node lies there now.
    pub(super) fn remove(&mut self, position: usize) -> Option<u32> {
        let last = self.entries.len().checked_sub(1)?;
        if position > last {
            return None;
        }
        self.entries.swap_remove(position);
        self.trim();
        self.refresh(last);
        let moved = self.entries.get(position)?.node;
        self.refresh(position);
        Some(moved)
    }

    /// Changes the free amounts of the entry at `position`.
    pub(super) fn set_free(&mut self, position: usize, free: Pair) {
        if let Some(entry) = self.entries.get_mut(position) {
            entry.free = free;
            self.refresh(position);
        }
    }

    /// Drops tops that have no children left.
    fn trim(&mut self) {
        let mut tops = self.entries.len().div_ceil(FAN);
        for depth in 0..self.levels.len() {
            self.levels[depth].truncate(tops);
            if tops <= 1 {
                self.levels.truncate(depth + tops);
                return;
            }
            tops = tops.div_ceil(FAN);
        }
    }

    /// Recomputes the tops above `position`, as far up as they change.
    fn refresh(&mut self, position: usize) {
        let mut index = position / FAN;
        for depth in 0..self.levels.len() {
            if index < self.levels[depth].len() {
                let top = match depth {
                    0 => block(&self.entries, index)
                        .iter()
                        .fold(Pair::default(), |top, entry| top.max(entry.free)),
                    _ => max_of(block(&self.levels[depth - 1], index)),
                };
                if self.levels[depth][index] == top {
                    return;
                }
                self.levels[depth][index] = top;
            }
            index /= FAN;
        }
    }

    /// Shows entries that cover `need` to `visit` until it breaks; counts the tops and entries it
    /// looked at.
    pub(super) fn search(
        &self,
        need: Pair,
        looks: &mut u32,
        visit: &mut impl FnMut(&Entry) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if self.top().covers(need) {
            self.descend(self.levels.len(), 0, need, looks, visit)
        } else {
            ControlFlow::Continue(())
        }
    }

    fn descend(
        &self,
        depth: usize,
        index: usize,
        need: Pair,
        looks: &mut u32,
        visit: &mut impl FnMut(&Entry) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        *looks += 1;
        if depth == 0 {
            // A block is one top's worth of entries: `index` is that top's own position.
            return block(&self.entries, index)
                .iter()
                .filter(|entry| entry.free.covers(need))
                .try_for_each(visit);
        }
        let level = &self.levels[depth - 1];
        let children = if depth == self.levels.len() { 0..1 } else { span(index, level.len()) };
        for child in children {
            if level[child].covers(need) {
                self.descend(depth - 1, child, need, looks, visit)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Shows entries to `visit` in turn until it breaks, starting after where the last sample ended.
    pub(super) fn sample(&mut self, visit: &mut impl FnMut(&Entry) -> ControlFlow<()>) {
        let (before, after) = self.entries.split_at(self.cursor.min(self.entries.len()));
        let mut seen = 0;
        let flow = after.iter().chain(before).try_for_each(|entry| {
            seen += 1;
            visit(entry)
        });
        let next = self.cursor + seen;
        self.cursor = match flow {
            ControlFlow::Continue(()) => 0,
            ControlFlow::Break(()) if next >= self.entries.len() => {
                next.saturating_sub(self.entries.len())
            }
            ControlFlow::Break(()) => next,
        };
    }
}

fn span(index: usize, len: usize) -> std::ops::Range<usize> {
    (index * FAN).min(len)..((index + 1) * FAN).min(len)
}

fn block<T>(items: &[T], index: usize) -> &[T] {
    &items[span(index, items.len())]
}

fn max_of(tops: &[Pair]) -> Pair {
    tops.iter().fold(Pair::default(), |top, child| top.max(*child))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(node: u32, cpu: u32, mem: u32) -> Entry {
        Entry { node, free: Pair { cpu, mem }, inverse: Pair { cpu: 1, mem: 1 } }
    }

    fn assert_tops(cell: &Cell) {
        let mut below: Vec<Pair> = cell.entries.iter().map(|entry| entry.free).collect();
        for level in &cell.levels {
            let expected: Vec<Pair> = below.chunks(FAN).map(max_of).collect();
            assert_eq!(level, &expected);
            below = expected;
        }
        assert!(below.len() <= 1, "the last level is one root");
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
        assert!(cell.entries.is_empty() && cell.levels.is_empty());
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
