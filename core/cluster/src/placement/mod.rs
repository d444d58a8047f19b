//! Where a workload goes.
//!
//! The [`Index`] keeps what every node has, what is taken of it, and answers "which node fits?" at a
//! cost that does not grow with the fleet. It knows nothing of workloads, clocks or stores: the
//! caller gives it amounts and asks for a number of a node.
//!
//! ```text
//! request ─▶ selector ─▶ groups of nodes it admits ─▶ grid of each group ─▶ cell ─▶ node
//!            (cached)    (nodes no cached selector     (free cpu × free    (tree of maxima)
//!                         tells apart, equal size)      memory)
//! ```
//!
//! Invariants: a picked node passes every filter; a node is picked if and only if one fits; the same
//! calls give the same answers.

mod cell;
mod class;
mod explain;
mod grid;
mod group;
mod index;
mod node;
mod pick;
mod request;
mod scan;
mod selector;
mod suggest;
mod verdict;

pub use explain::{Explanation, Reason, Refusal, Shortage};
pub use index::Index;
pub use request::{NodeIndex, Request, Traits};
pub use suggest::Suggestion;
pub use verdict::{NodeVerdict, Own};

#[cfg(test)]
mod tests;
