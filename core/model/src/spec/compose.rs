//! A Compose stack as it will be run.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::HostPort;
use super::secret::Secret;

/// A stack of services, placed and run as one unit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ComposeSpec {
    /// Where the file comes from.
    pub source: ComposeSource,
    /// Project name; `None` takes the workload's id.
    pub project: Option<Arc<str>>,
    /// Variables for the file and its services.
    pub env: BTreeMap<Arc<str>, Secret>,
    /// Ports its services take on the node. Filled where the file is parsed; empty before.
    pub host_ports: Vec<HostPort>,
    /// Whether it has volumes that must survive. Filled where the file is parsed.
    pub has_named_volumes: bool,
}

/// Where a Compose file comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ComposeSource {
    /// The file itself, decoded, verbatim.
    Inline(Secret),
    /// A file in a repository.
    Git {
        /// Checked address: https, ssh, or file where allowed.
        repository: Arc<str>,
        /// Branch, tag or commit; empty means the default branch.
        reference: Arc<str>,
    },
}
