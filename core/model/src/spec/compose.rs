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
    /// Ports its services take on the node; follows from the file.
    pub host_ports: Vec<HostPort>,
    /// Whether it has volumes that must survive; follows from the file.
    pub has_named_volumes: bool,
}

/// Where a Compose file comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ComposeSource {
    /// The file itself, decoded, verbatim.
    Inline(Secret),
    /// A file in a repository, as it was when the spec was applied.
    Git {
        /// Checked address: https, ssh, or file where allowed.
        repository: Arc<str>,
        /// Branch, tag or commit; empty means the default branch.
        reference: Arc<str>,
        /// Where in the repository the file is.
        path: Arc<str>,
        /// The commit it was taken from, by its full name. What the reference names may move.
        commit: Arc<str>,
        /// The file itself, verbatim.
        file: Secret,
    },
}

impl ComposeSource {
    /// The file itself, wherever it came from.
    #[must_use]
    pub fn file(&self) -> &Secret {
        match self {
            Self::Inline(file) | Self::Git { file, .. } => file,
        }
    }
}

impl ComposeSpec {
    /// What its file means with its variables filled in, and what became of every key.
    #[must_use]
    pub fn read(&self) -> persys_compose::Reading {
        let revealed = |(name, value): (&Arc<str>, &Secret)| {
            (name.as_ref().to_owned(), value.reveal().to_owned())
        };
        let variables: BTreeMap<String, String> = self.env.iter().map(revealed).collect();
        persys_compose::read(self.source.file().reveal(), &variables)
    }
}
