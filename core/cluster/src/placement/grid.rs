//! Nodes of one group, laid out by what they have free.
//!
//! Free cpu chooses the row and free memory the column, in 16 to 64 equal steps of the largest
//! capacity of the group, more steps for more nodes. A cell above the request in both fits by construction. A cell in the request's own
//! row is enough in memory, and its largest free cpu says whether one of its nodes fits; a cell in
//! the request's own column likewise. Only the corner, the one cell in both, may need a search.
//!
//! ```text
//!  cpu ▲  c S S S      S  surely fits
//!      │  c S S S      r  enough memory: look at the cell's largest free cpu
//!      │  x r r r      c  enough cpu: look at its largest free memory
//!      │  . . . .      x  corner: search its tree
//!      └────────▶ memory
//! ```
//!
//! The distance of a cell from the request's row and column, whichever is less, is what is left in
//! the scarcer dimension: spreading takes the farthest, packing the nearest.
//!
//! Up to [`FLAT`] nodes there is a single cell, and the best node is chosen by looking at all.
//! Invariants: bit maps and maxima agree with the cells; a node's slot says where its entry lies.
#![expect(
    clippy::indexing_slicing,
    reason = "rows and columns come from `step` or from set bits, both below the grid's size"
)]

use std::ops::ControlFlow;

use persys_model::spec::Strategy;

use super::cell::{Cell, Entry};
use super::node::Nodes;
use super::request::{NodeIndex, Pair, wide};

/// Nodes up to which all are looked at.
pub(super) const FLAT: usize = 256;
/// From how many nodes on there are how many rows and columns, as a power of two. A row or a column
/// is a word of bits, so 64 are the most.
const SIZES: [(usize, u32); 3] = [(FLAT + 1, 4), (2048, 5), (65_536, 6)];
/// Nodes compared by their true share once a cell is chosen.
const SAMPLE: u32 = 4;
/// Blocks of a corner cell looked at before the search counts as a fallback.
const LOOKS: u32 = 64;

/// Where a node's entry lies.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot {
    /// Row and column in one number.
    pub(super) place: u16,
    pub(super) position: u32,
}

/// How far one pick may go, and how it went.
#[derive(Debug)]
pub(super) struct Probe {
    /// Fitting nodes that may still be refused by filters the grid does not know.
    pub(super) patience: u32,
    /// Whether nodes were left unseen, so that finding none proves nothing.
    pub(super) gave_up: bool,
    /// Whether a corner needed a long search.
    pub(super) long: bool,
}

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Aim {
    pub(super) need: Pair,
    pub(super) strategy: Strategy,
}

impl Aim {
    /// Whether a node with `left` is better than one with `other`.
    pub(super) fn prefers(self, left: u64, other: u64) -> bool {
        match self.strategy {
            Strategy::Spread => left > other,
            Strategy::BinPack => left < other,
        }
    }
}

/// The best node so far: share left, and its number. Ties go to the lowest number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Best {
    pub(super) left: u64,
    pub(super) node: u32,
}

impl Best {
    /// Keeps the better of `best` and the new one.
    pub(super) fn offer(best: &mut Option<Self>, aim: Aim, left: u64, node: u32) {
        let better = best.is_none_or(|best| {
            aim.prefers(left, best.left) || (left == best.left && node < best.node)
        });
        if better {
            *best = Some(Self { left, node });
        }
    }
}

/// The grid.
#[derive(Debug)]
pub(super) struct Grid {
    limit: Pair,
    len: usize,
    /// Rows and columns, as a power of two; zero while flat.
    shift: u32,
    /// Nodes at which there should be more rows and columns.
    grow_at: usize,
    /// Steps per amount, of 2^32.
    cpu_scale: u64,
    mem_scale: u64,
    /// Row by row; a single one while flat.
    cells: Vec<Cell>,
    /// Occupied columns of each row, rows of each column.
    rows: Vec<u64>,
    columns: Vec<u64>,
    /// Occupied columns of each row and all rows above it.
    above: Vec<u64>,
    /// Largest free cpu of each cell, by row; largest free memory, by column.
    cpu_tops: Vec<u32>,
    mem_tops: Vec<u32>,
}

impl Grid {
    /// A grid for nodes with at most `limit`.
    pub(super) fn new(limit: Pair) -> Self {
        Self {
            limit,
            len: 0,
            shift: 0,
            grow_at: FLAT + 1,
            cpu_scale: 0,
            mem_scale: 0,
            cells: vec![Cell::default()],
            rows: Vec::new(),
            columns: Vec::new(),
            above: Vec::new(),
            cpu_tops: Vec::new(),
            mem_tops: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All its nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = u32> {
        self.cells.iter().flat_map(|cell| cell.entries().iter().map(|entry| entry.node))
    }

    fn is_flat(&self) -> bool {
        self.shift == 0
    }

    /// Whether some node may have `need`; a quick refusal.
    pub(super) fn may_cover(&self, need: Pair) -> bool {
        if self.is_flat() {
            return self.cells[0].top().covers(need);
        }
        self.limit.covers(need)
            && (self.above[wide(self.row(need.cpu))] >> self.column(need.mem)) != 0
    }

    fn row(&self, cpu: u32) -> u32 {
        step(cpu, self.cpu_scale)
    }

    fn column(&self, mem: u32) -> u32 {
        step(mem, self.mem_scale)
    }

    /// Where free amounts belong; if they are beyond the limit, at the edge.
    fn place_of(&self, free: Pair) -> u16 {
        let last = (1 << self.shift) - 1;
        self.place(self.row(free.cpu).min(last), self.column(free.mem).min(last))
    }

    fn place(&self, row: u32, column: u32) -> u16 {
        u16::try_from((row << self.shift) | column).unwrap_or(u16::MAX)
    }

    /// Adds a node.
    pub(super) fn insert(&mut self, nodes: &mut Nodes, entry: Entry) {
        self.len += 1;
        if self.len >= self.grow_at {
            self.grow(nodes);
        }
        self.put(nodes, entry);
    }

    fn put(&mut self, nodes: &mut Nodes, entry: Entry) {
        let place = self.place_of(entry.free);
        let position = self.cells[usize::from(place)].push(entry);
        nodes.set_slot(NodeIndex(entry.node), Slot { place, position });
        self.note(place);
    }

    /// Takes out the node at `slot`, which has `free`.
    pub(super) fn remove(&mut self, nodes: &mut Nodes, slot: Slot, free: Pair) {
        self.len -= 1;
        self.lift(nodes, slot, free);
    }

    fn lift(&mut self, nodes: &mut Nodes, slot: Slot, free: Pair) {
        if let Some(moved) = self.cells[usize::from(slot.place)].remove(wide(slot.position), free) {
            nodes.set_slot(NodeIndex(moved), slot);
        }
        self.note(slot.place);
    }

    /// Moves a node to where its free amounts, which were `before`, belong.
    pub(super) fn change(&mut self, nodes: &mut Nodes, slot: Slot, before: Pair, entry: Entry) {
        if self.place_of(entry.free) == slot.place {
            self.cells[usize::from(slot.place)].set_free(wide(slot.position), before, entry.free);
            self.note(slot.place);
        } else {
            self.lift(nodes, slot, before);
            self.put(nodes, entry);
        }
    }

    /// Lays the nodes out over as many cells as their number asks for.
    fn grow(&mut self, nodes: &mut Nodes) {
        let size = SIZES.iter().rev().find(|(from, _)| self.len >= *from);
        self.shift = size.map_or(0, |(_, shift)| *shift);
        let larger = SIZES.iter().find(|(from, _)| *from > self.len);
        self.grow_at = larger.map_or(usize::MAX, |(from, _)| *from);
        let steps = 1_usize << self.shift;
        let scale = |limit: u32| (1_u64 << (32 + self.shift)) / (u64::from(limit) + 1);
        self.cpu_scale = scale(self.limit.cpu);
        self.mem_scale = scale(self.limit.mem);
        self.cpu_tops = vec![0; steps * steps];
        self.mem_tops = vec![0; steps * steps];
        self.rows = vec![0; steps];
        self.columns = vec![0; steps];
        self.above = vec![0; steps];
        let mut cells = Vec::new();
        cells.resize_with(steps * steps, Cell::default);
        for cell in std::mem::replace(&mut self.cells, cells) {
            for entry in cell.entries() {
                self.put(nodes, *entry);
            }
        }
    }

    /// Brings bit maps and maxima in line with the cell at `place`.
    fn note(&mut self, place: u16) {
        if self.is_flat() {
            return;
        }
        let cell = &self.cells[usize::from(place)];
        let place = usize::from(place);
        let (row, column) = (place >> self.shift, place & ((1 << self.shift) - 1));
        let top = cell.top();
        self.cpu_tops[(row << self.shift) + column] = top.cpu;
        self.mem_tops[(column << self.shift) + row] = top.mem;
        let (row_bit, column_bit) = (1_u64 << row, 1_u64 << column);
        let occupied = !cell.entries().is_empty();
        if occupied == (self.rows[row] & column_bit != 0) {
            return;
        }
        self.rows[row] ^= column_bit;
        self.columns[column] ^= row_bit;
        let mut from_above = self.above.get(row + 1).copied().unwrap_or(0);
        for (above, row) in self.above.iter_mut().zip(&self.rows).take(row + 1).rev() {
            from_above |= row;
            if *above == from_above {
                break;
            }
            *above = from_above;
        }
    }

    /// The best node, or in a large grid a good one, that covers the need and that `admit` accepts.
    pub(super) fn pick(
        &mut self,
        aim: Aim,
        probe: &mut Probe,
        admit: &mut impl FnMut(u32) -> bool,
    ) -> Option<Best> {
        if !self.may_cover(aim.need) {
            return None;
        }
        if self.is_flat() {
            return self.pick_flat(aim, admit);
        }
        let (row, column) = (self.row(aim.need.cpu), self.column(aim.need.mem));
        match aim.strategy {
            Strategy::Spread => {
                let farthest = self.farthest(row, column);
                (1..=farthest)
                    .rev()
                    .find_map(|level| {
                        self.pick_level(row + level, column + level, aim, probe, admit)
                    })
                    .or_else(|| self.pick_boundary(row, column, aim, probe, admit))
            }
            Strategy::BinPack => self.pick_boundary(row, column, aim, probe, admit).or_else(|| {
                (1..=self.farthest(row, column)).find_map(|level| {
                    self.pick_level(row + level, column + level, aim, probe, admit)
                })
            }),
        }
    }

    /// The largest distance from `row` and `column` alike that has a node.
    fn farthest(&self, row: u32, column: u32) -> u32 {
        let last = (1 << self.shift) - 1;
        let reaches = |level: u32| self.above[wide(row + level)] >> (column + level) != 0;
        // Nodes that far away are also nearer. On a full fleet all are near: double the distance
        // until it is too far, then halve what is in question until it is one.
        let (mut near, mut far, mut step) = (0, last - row.max(column), 1);
        while near < far {
            let middle = (near + step).min(far);
            if reaches(middle) {
                near = middle;
                step *= 2;
            } else {
                far = middle - 1;
                break;
            }
        }
        while near < far {
            let middle = (near + far).div_ceil(2);
            if reaches(middle) {
                near = middle;
            } else {
                far = middle - 1;
            }
        }
        near
    }

    /// The best node of the flat cell: all are looked at.
    pub(super) fn pick_flat(&self, aim: Aim, admit: &mut impl FnMut(u32) -> bool) -> Option<Best> {
        let mut best: Option<Best> = None;
        for cell in &self.cells {
            for entry in cell.entries() {
                if !entry.free.covers(aim.need) {
                    continue;
                }
                let left = entry.left(aim.need);
                let worse = best.is_some_and(|best| aim.prefers(best.left, left));
                if !worse && admit(entry.node) {
                    Best::offer(&mut best, aim, left, entry.node);
                }
            }
        }
        best
    }

    /// A node of the cells whose scarcer distance is this level; all of them fit.
    fn pick_level(
        &mut self,
        row: u32,
        column: u32,
        aim: Aim,
        probe: &mut Probe,
        admit: &mut impl FnMut(u32) -> bool,
    ) -> Option<Best> {
        let mut columns = self.rows[wide(row)] & (u64::MAX << column);
        let mut rows = self.columns[wide(column)] & (u64::MAX << row);
        let mut best = None;
        while best.is_none() && columns != 0 {
            let found = columns.trailing_zeros();
            columns &= columns - 1;
            self.sample(self.place(row, found), aim, probe, admit, &mut best);
        }
        let in_row = best.is_some();
        while (best.is_none() || in_row) && rows != 0 {
            let found = rows.trailing_zeros();
            rows &= rows - 1;
            self.sample(self.place(found, column), aim, probe, admit, &mut best);
            if in_row {
                break;
            }
        }
        best
    }

    /// Compares a few nodes of a cell that all fit.
    fn sample(
        &mut self,
        place: u16,
        aim: Aim,
        probe: &mut Probe,
        admit: &mut impl FnMut(u32) -> bool,
        best: &mut Option<Best>,
    ) {
        let mut compared = 0;
        self.cells[usize::from(place)].sample(&mut |entry| {
            if admit(entry.node) {
                compared += 1;
                Best::offer(best, aim, entry.left(aim.need), entry.node);
            } else if probe.patience == 0 {
                probe.gave_up = true;
                return ControlFlow::Break(());
            } else {
                probe.patience -= 1;
            }
            if compared == SAMPLE { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }

    /// A node of the request's own row, column or corner.
    fn pick_boundary(
        &self,
        row: u32,
        column: u32,
        aim: Aim,
        probe: &mut Probe,
        admit: &mut impl FnMut(u32) -> bool,
    ) -> Option<Best> {
        let (in_row, in_column) = (wide(row) << self.shift, wide(column) << self.shift);
        let above = |from: u32| u64::MAX.checked_shl(from + 1).unwrap_or(0);
        let mut best = None;
        let mut columns = self.rows[wide(row)] & above(column);
        while best.is_none() && columns != 0 {
            let found = columns.trailing_zeros();
            columns &= columns - 1;
            if self.cpu_tops[in_row + wide(found)] >= aim.need.cpu {
                self.search(self.place(row, found), aim, probe, admit, &mut best);
            }
        }
        let mut rows = self.columns[wide(column)] & above(row);
        while best.is_none() && rows != 0 {
            let found = rows.trailing_zeros();
            rows &= rows - 1;
            if self.mem_tops[in_column + wide(found)] >= aim.need.mem {
                self.search(self.place(found, column), aim, probe, admit, &mut best);
            }
        }
        if best.is_none() && (self.rows[wide(row)] >> column) & 1 == 1 {
            self.search(self.place(row, column), aim, probe, admit, &mut best);
        }
        best
    }

    /// Looks in a cell of which only some nodes fit.
    fn search(
        &self,
        place: u16,
        aim: Aim,
        probe: &mut Probe,
        admit: &mut impl FnMut(u32) -> bool,
        best: &mut Option<Best>,
    ) {
        let mut looks = 0;
        let mut compared = 0;
        let cell = &self.cells[usize::from(place)];
        // Breaking only ends the search; what was found is in `best`.
        let (ControlFlow::Continue(()) | ControlFlow::Break(())) =
            cell.search(aim.need, &mut looks, &mut |entry| {
                if !admit(entry.node) {
                    if probe.patience == 0 {
                        probe.gave_up = true;
                        return ControlFlow::Break(());
                    }
                    probe.patience -= 1;
                    return ControlFlow::Continue(false);
                }
                compared += 1;
                Best::offer(best, aim, entry.left(aim.need), entry.node);
                if compared == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(true) }
            });
        probe.long |= looks > LOOKS;
    }
}

/// In which of equal steps an amount lies. Monotone in the amount, which is at most the limit the
/// scale was made for.
fn step(amount: u32, scale: u64) -> u32 {
    u32::try_from(u64::from(amount).saturating_mul(scale) >> 32).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_monotone_and_in_range() {
        for limit in [0, 1, 63, 64, 1000, 64_000, u32::MAX] {
            let mut grid = Grid::new(Pair { cpu: limit, mem: limit });
            grid.len = 100_000;
            grid.grow(&mut Nodes::default());
            let mut before = 0;
            for part in 0..=200_u32 {
                let amount = u32::try_from(u64::from(limit) * u64::from(part) / 200).unwrap();
                let now = grid.row(amount);
                assert!(now >= before && now < 64, "{amount} of {limit}");
                before = now;
            }
        }
    }
}
