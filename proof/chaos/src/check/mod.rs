//! The checker: judges what was seen against what was asked. It uses no code of the product.
//!
//! - [`settled`]: at rest, records, nodes and runtimes say the same, and nothing that was answered is
//!   lost;
//! - [`witnesses`]: exclusive work never ran twice, and data was never exchanged;
//! - [`room`]: no node was promised more than it has.

pub mod room;
pub mod settled;
pub mod witnesses;

use std::collections::BTreeMap;

/// What is seen of a cluster at one moment.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Mode of each scheduler; empty if it does not answer.
    pub modes: BTreeMap<String, String>,
    /// Its workloads.
    pub workloads: Vec<Row>,
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// Differences it has on record.
    pub drifts: Vec<String>,
    /// What the runtime of each node has.
    pub copies: BTreeMap<String, Vec<Copy>>,
    /// Workloads whose lock is held.
    pub held: Vec<String>,
}

/// A workload, as it is listed.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// Its name.
    pub id: String,
    /// What it is to be.
    pub desired: String,
    /// What it is.
    pub status: String,
    /// Its revision.
    pub revision: String,
    /// Its node.
    pub node: String,
    /// Why it is so.
    pub why: String,
}

/// A node, as it is listed.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// Its name.
    pub id: String,
    /// Its condition.
    pub condition: String,
    /// Thousandths of a core.
    pub total: i64,
    /// Those that are not reserved.
    pub available: i64,
}

/// A copy of a workload in a runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copy {
    /// The workload.
    pub workload: String,
    /// Its revision.
    pub revision: String,
    /// True if it runs.
    pub running: bool,
}
