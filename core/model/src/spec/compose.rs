//! A Compose stack as it will be run.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_compose::{Document, Restart};

use super::container::RestartPolicy;
use super::secret::Secret;
use super::{HostPort, Protocol};

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
    /// When the stack as a whole is started again after something in it ended that should not have,
    /// or ended badly. Where its services have one policy, that is it. Where they differ each is judged
    /// by its own on its node, and only an end that is to be followed by a start counts as one of the
    /// stack: then only a limit of `always` is left to say.
    #[must_use]
    pub fn restart(&self) -> RestartPolicy {
        let document = self.read().document;
        let policies = document.iter().flat_map(Document::services).map(|one| policy(one.restart));
        let policies: Vec<RestartPolicy> = policies.collect();
        match policies.as_slice() {
            [] => RestartPolicy::No,
            [first, rest @ ..] if rest.iter().all(|one| one == first) => *first,
            differ => whole(differ),
        }
    }

    /// Longest time in milliseconds in which its services end by themselves when they are stopped, if
    /// one that names no grace has `default_ms`.
    #[must_use]
    pub fn stop_grace_ms(&self, default_ms: u64) -> u64 {
        self.read().document.map_or(default_ms, |document| document.stop_grace_ms(default_ms))
    }

    /// The addresses of the node that a port is published on; empty if that is every address.
    #[must_use]
    pub fn addresses_of(&self, taken: HostPort) -> Vec<std::net::IpAddr> {
        let protocol = match taken.protocol {
            Protocol::Tcp => persys_compose::Protocol::Tcp,
            Protocol::Udp => persys_compose::Protocol::Udp,
        };
        let port = persys_compose::HostPort { port: taken.port, protocol };
        self.read().document.map(|document| document.addresses_of(port)).unwrap_or_default()
    }

    /// Names of the volumes in its file, whose data must survive updates.
    #[must_use]
    pub fn named_volumes(&self) -> Vec<String> {
        if !self.has_named_volumes {
            return Vec::new();
        }
        let document = self.read().document;
        document.iter().flat_map(Document::named_volumes).map(ToOwned::to_owned).collect()
    }

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

/// The restart policy of a service.
#[must_use]
pub fn policy(service: Restart) -> RestartPolicy {
    match service {
        Restart::No => RestartPolicy::No,
        Restart::OnFailure { max_retries } => RestartPolicy::OnFailure { max_retries },
        Restart::UnlessStopped | Restart::Always { max_retries: 0 } => RestartPolicy::Always,
        Restart::Always { max_retries } => RestartPolicy::AlwaysUpTo { max_retries },
    }
}

/// True if the services of a stack have different restart policies.
#[must_use]
pub fn policies_differ(document: &Document) -> bool {
    let mut policies = document.services().map(|service| policy(service.restart));
    let first = policies.next();
    policies.any(|one| Some(one) != first)
}

/// The policy of a stack whose services differ.
fn whole(policies: &[RestartPolicy]) -> RestartPolicy {
    let again = policies.iter().filter(|policy| **policy != RestartPolicy::No);
    let limits = again.map(|policy| match policy {
        RestartPolicy::AlwaysUpTo { max_retries } => Some(*max_retries),
        RestartPolicy::No
        | RestartPolicy::Always
        | RestartPolicy::UnlessStopped
        | RestartPolicy::OnFailure { .. } => None,
    });
    let most = limits.collect::<Option<Vec<_>>>().and_then(|limits| limits.into_iter().max());
    most.map_or(RestartPolicy::Always, |max_retries| RestartPolicy::AlwaysUpTo { max_retries })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(text: &str) -> ComposeSpec {
        ComposeSpec {
            source: ComposeSource::Inline(Secret::new(text)),
            project: None,
            env: BTreeMap::new(),
            host_ports: Vec::new(),
            has_named_volumes: false,
        }
    }

    #[test]
    fn a_stack_is_started_again_as_its_services_are() {
        use RestartPolicy::{Always, No, OnFailure};
        let of = |policies: &[&str]| {
            let services: Vec<_> = policies
                .iter()
                .enumerate()
                .map(|(at, policy)| format!("  s{at}: {{image: a, restart: '{policy}'}}\n"))
                .collect();
            stack(&format!("services:\n{}", services.concat())).restart()
        };
        assert_eq!(of(&["no", "no"]), No);
        assert_eq!(of(&["on-failure:2"]), OnFailure { max_retries: 2 });
        assert_eq!(of(&["on-failure:2", "on-failure:2"]), OnFailure { max_retries: 2 });
        assert_eq!(of(&["always", "unless-stopped"]), Always);
        // Their limits are counted for each service, by whoever runs them.
        assert_eq!(of(&["no", "on-failure:2"]), Always);
        assert_eq!(of(&["on-failure:2", "on-failure:5"]), Always);
        assert_eq!(of(&["no", "unless-stopped"]), Always);
    }
}
