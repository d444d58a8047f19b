//! What is going to happen, in order: by virtual time, then by the order it was planned in.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The events that wait for their time.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    planned: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: u64,
    number: u64,
    event: E,
}

impl<E> Queue<E> {
    /// Nothing planned.
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), planned: 0 }
    }

    /// Plans `event` for the virtual millisecond `at`.
    pub(crate) fn push(&mut self, at: u64, event: E) {
        self.planned += 1;
        self.heap.push(Entry { at, number: self.planned, event });
    }

    /// All that is planned, in no order.
    pub(crate) fn planned(&self) -> impl Iterator<Item = &E> {
        self.heap.iter().map(|entry| &entry.event)
    }

    /// The next event and its time.
    pub(crate) fn pop(&mut self) -> Option<(u64, E)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap gives its greatest first; the earliest is to come first.
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_moment_come_in_the_order_they_were_planned() {
        let mut queue = Queue::new();
        for (at, event) in [(5, 'c'), (1, 'a'), (5, 'd'), (3, 'b')] {
            queue.push(at, event);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [(1, 'a'), (3, 'b'), (5, 'c'), (5, 'd')]);
    }
}
