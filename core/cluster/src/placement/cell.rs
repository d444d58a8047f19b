//! Nodes with similar free amounts, under a tree of maxima.
//!
//! Entries lie in one vector in no particular order. The cell has a top, the largest free cpu and the
//! largest free memory below; a cell of more than one block of entries has a top for each block, one
//! of many blocks a top for each run of those, and so on. Invariant: a top is exactly the maximum of
//! what it covers. A change climbs only as far as it changes a top, and a search descends only where a
//! top covers the need, so neither grows much with the cell.
#![expect(
    clippy::indexing_slicing,
    reason = "positions come from the vectors' own lengths; each use is next to its bound"
)]

use std::ops::{ControlFlow, Range};

use super::request::{Pair, narrow, wide};

/// Children of one top, as a power of two: entries at the lowest level, tops above it.
const FANS: [u32; LEVELS] = [4, 4, 4];
/// Levels of tops below the cell's own. What the highest level has, that one covers in a row.
const LEVELS: usize = 3;

/// A node as its cell sees it; a quarter of a cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) node: u32,
    pub(super) share: Share,
    pub(super) free: Pair,
}

impl Entry {
    /// Share of the node left free, in its scarcer dimension, once `need` is placed on it; of 2^32.
    pub(super) fn left(&self, need: Pair) -> u64 {
        let cpu = self.share.cpu.of(self.free.cpu.saturating_sub(need.cpu));
        let mem = self.share.mem.of(self.free.mem.saturating_sub(need.mem));
        cpu.min(mem)
    }
}

/// What turns amounts into shares of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Share {
    cpu: Inverse,
    mem: Inverse,
}

impl Share {
    pub(super) fn new(capacity: Pair) -> Self {
        Self { cpu: Inverse::new(capacity.cpu), mem: Inverse::new(capacity.mem) }
    }
}

/// 2^32 over a capacity, its first eleven bits and how far they are shifted. Equal nodes compare
/// exactly, others to a thousandth of their share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Inverse(u16);

impl Inverse {
    const BITS: u32 = 11;

    /// Nothing is no share of nothing.
    fn new(capacity: u32) -> Self {
        let inverse = u32::MAX.checked_div(capacity).unwrap_or(0);
        let shift = (u32::BITS - inverse.leading_zeros()).saturating_sub(Self::BITS);
        let packed = (shift << Self::BITS) | (inverse >> shift);
        Self(u16::try_from(packed).unwrap_or(0))
    }

    fn of(self, amount: u32) -> u64 {
        let digits = self.0 & ((1 << Self::BITS) - 1);
        (u64::from(amount) * u64::from(digits)) << (self.0 >> Self::BITS)
    }
}

/// One cell of a grid. What a small cell needs is in its first cache line.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(super) struct Cell {
    entries: Vec<Entry>,
    top: Pair,
    /// Where the next sample starts, so that equal nodes take turns.
    cursor: u32,
    /// Levels of tops in use: as many as it takes for the cell's own to have few below.
    levels: u32,
    tops: [Vec<Pair>; LEVELS],
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
        let mut index = position;
        for (level, fan) in FANS.into_iter().enumerate() {
            if level == wide(self.levels) {
                if index >> fan == 0 {
                    break;
                }
                // So far the cell's top covered all of them.
                self.tops[level].push(self.top);
                self.levels += 1;
            }
            index >>= fan;
            let tops = &mut self.tops[level];
            match tops.get_mut(index) {
                Some(top) => *top = top.max(entry.free),
                None => tops.push(entry.free),
            }
        }
        self.top = self.top.max(entry.free);
        narrow(position)
    }

    /// Takes the entry at `position` out, which has `free`; says which node lies there now.
    pub(super) fn remove(&mut self, position: usize, free: Pair) -> Option<u32> {
        debug_assert_eq!(self.entries.get(position).map(|entry| entry.free), Some(free));
        let last = self.entries.pop()?;
        let end = self.entries.len();
        let Some(entry) = self.entries.get_mut(position) else {
            self.climb(end, last.free, Pair::default());
            return None;
        };
        // Not read first: it is likely far from any cache, and a write need not be waited for.
        *entry = last;
        self.climb(end, last.free, Pair::default());
        self.climb(position, free, last.free);
        Some(last.node)
    }

    /// Changes the free amounts of the entry at `position` from `before`.
    pub(super) fn set_free(&mut self, position: usize, before: Pair, free: Pair) {
        if let Some(entry) = self.entries.get_mut(position) {
            debug_assert_eq!(entry.free, before);
            entry.free = free;
            self.climb(position, before, free);
        }
    }

    /// Corrects the tops over `position`, where the entry went from `before` to `now` or, at the end,
    /// is gone. Only a top that was held by what shrank, as one in many is, is computed anew.
    fn climb(&mut self, position: usize, mut before: Pair, mut now: Pair) {
        let mut index = position;
        for (level, fan) in FANS.into_iter().enumerate().take(wide(self.levels)) {
            let (below, rest) = self.tops.split_at_mut(level);
            let Some((tops, _)) = rest.split_first_mut() else { return };
            let children = run(index, fan);
            index >>= fan;
            let len = below.last().map_or(self.entries.len(), Vec::len);
            if children.start >= len {
                before = tops.pop().unwrap_or_default();
                now = Pair::default();
                if tops.len() == 1 {
                    tops.clear();
                    self.levels -= 1;
                }
                continue;
            }
            let old = tops[index];
            let new = if shrinks(old, before, now) {
                max_below(&self.entries, below.last(), children)
            } else {
                old.max(now)
            };
            if new == old {
                return;
            }
            tops[index] = new;
            (before, now) = (old, new);
        }
        self.top = if shrinks(self.top, before, now) {
            let highest = wide(self.levels).checked_sub(1).map(|level| &self.tops[level]);
            max_below(&self.entries, highest, 0..usize::MAX)
        } else {
            self.top.max(now)
        };
    }

    /// Shows entries that cover `need` to `visit` until it breaks or, once it said yes, to the end of
    /// the block: a second block would be far more to look at. Counts the blocks it went into.
    pub(super) fn search(
        &self,
        need: Pair,
        looks: &mut u32,
        visit: &mut impl FnMut(&Entry) -> ControlFlow<(), bool>,
    ) -> ControlFlow<()> {
        if !self.top.covers(need) {
            return ControlFlow::Continue(());
        }
        self.descend(wide(self.levels), 0..usize::MAX, need, looks, visit)
    }

    /// Searches what lies below `range`, of tops of a level or, at the bottom, of entries.
    fn descend(
        &self,
        levels: usize,
        range: Range<usize>,
        need: Pair,
        looks: &mut u32,
        visit: &mut impl FnMut(&Entry) -> ControlFlow<(), bool>,
    ) -> ControlFlow<()> {
        let Some(level) = levels.checked_sub(1) else {
            *looks += 1;
            let mut enough = false;
            for entry in part(&self.entries, range) {
                if entry.free.covers(need) {
                    enough |= visit(entry)?;
                }
            }
            return if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        };
        let start = range.start;
        for (index, top) in (start..).zip(part(&self.tops[level], range)) {
            if top.covers(need) {
                let fan = FANS[level];
                self.descend(level, index << fan..(index + 1) << fan, need, looks, visit)?;
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

/// Which children a top has in common with the one at `index`.
fn run(index: usize, fan: u32) -> Range<usize> {
    let start = index >> fan << fan;
    start..start + (1 << fan)
}

/// As much of `range` as there is.
fn part<T>(items: &[T], range: Range<usize>) -> &[T] {
    &items[range.start.min(items.len())..range.end.min(items.len())]
}

/// Whether a top loses what held it, in either amount.
fn shrinks(top: Pair, before: Pair, now: Pair) -> bool {
    (before.cpu == top.cpu && now.cpu < top.cpu) || (before.mem == top.mem && now.mem < top.mem)
}

/// The maximum of a range of tops, or of entries.
fn max_below(entries: &[Entry], tops: Option<&Vec<Pair>>, range: Range<usize>) -> Pair {
    match tops {
        Some(tops) => max_of(part(tops, range).iter().copied()),
        None => max_of(part(entries, range).iter().map(|entry| entry.free)),
    }
}

fn max_of(amounts: impl Iterator<Item = Pair>) -> Pair {
    amounts.fold(Pair::default(), Pair::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(node: u32, cpu: u32, mem: u32) -> Entry {
        Entry { node, share: Share::default(), free: Pair { cpu, mem } }
    }

    fn assert_tops(cell: &Cell) {
        let mut below: Vec<Pair> = cell.entries.iter().map(|entry| entry.free).collect();
        assert_eq!(cell.top, max_of(below.iter().copied()));
        for (tops, fan) in cell.tops.iter().zip(FANS) {
            below = below.chunks(1 << fan).map(|run| max_of(run.iter().copied())).collect();
            if below.len() <= 1 {
                below.clear();
            }
            assert_eq!(*tops, below);
        }
        let used = cell.tops.iter().filter(|tops| !tops.is_empty()).count();
        assert_eq!(used, wide(cell.levels));
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
        // Beyond that every level is in use, and looking at all of it each time would take long.
        for node in 600..5000 {
            value = value.wrapping_mul(1_103_515_245).wrapping_add(12345) % 9973;
            cell.push(entry(node, value, 9973 - value));
        }
        assert!(cell.tops.iter().all(|tops| !tops.is_empty()));
        for step in 0..5000_usize {
            let len = cell.entries.len();
            let changed = (step * 31) % len;
            let before = cell.entries[changed].free;
            cell.set_free(changed, before, Pair { cpu: narrow(step), mem: 3 });
            if step % 16 == 0 || len < 600 {
                assert_tops(&cell);
            }
            let removed = (step * 17) % len;
            cell.remove(removed, cell.entries[removed].free);
            if step % 16 == 1 || len < 600 {
                assert_tops(&cell);
            }
        }
        assert!(cell.entries.is_empty());
        assert_eq!(cell.top(), Pair::default());
    }

    #[test]
    fn shares_are_close_and_never_more_than_all() {
        for capacity in [1, 2, 3, 1000, 2047, 2048, 4097, 64_000, 262_144, u32::MAX] {
            let all = Inverse::new(capacity).of(capacity);
            let near = ((1 << 32) / 1000 * 999..=1 << 32).contains(&all);
            assert!(near || capacity == u32::MAX);
        }
        assert_eq!(Inverse::new(0).of(0), 0);
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
            ControlFlow::Continue(false)
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
