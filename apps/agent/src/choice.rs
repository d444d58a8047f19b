//! Runtimes of a node, as they are configured.

use std::path::PathBuf;

use persys_runtime::sim::Sim;

/// Settings of Compose stacks on a node whose Docker runs their containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComposeChoice {
    /// True if the node offers to run stacks.
    pub enabled: bool,
    /// The Compose program, a path or a name; looked for in the usual folders when not given.
    pub program: Option<PathBuf>,
}

impl Default for ComposeChoice {
    fn default() -> Self {
        Self { enabled: true, program: None }
    }
}

/// Runtimes of a node.
#[derive(Debug, Clone)]
pub enum RuntimeChoice {
    /// Docker at this address; the usual one when not given.
    Docker {
        /// `unix://…` or `tcp://…`.
        host: Option<String>,
    },
    /// Docker at this address runs nothing new; what it ran before is seen and can be removed.
    DockerSwitchedOff {
        /// `unix://…` or `tcp://…`.
        host: Option<String>,
    },
    /// Nothing really runs.
    Sim(Option<Sim>),
}
