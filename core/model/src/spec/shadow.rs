//! A spec as it is ordered in shadow: the same, without the ports it publishes on its node.
//!
//! The user's spec and its revision stay as they are. What an agent gets is a version of its own, so
//! it gets a revision of its own: an agent takes one revision for one content.

use std::net::SocketAddr;
use std::sync::Arc;

use super::canonical::content_revision;
use super::compose::ComposeSource;
use super::container::Port;
use super::secret::Secret;
use super::{Kind, Protocol, Spec};
use crate::id::RevisionId;

/// Digits of the content in the revision that is ordered.
const CONTENT_DIGITS: usize = 8;

/// A file that no runtime starts, in place of one that can no longer be read.
const NOTHING: &str = "services: {}";

/// The spec and the revision that are ordered in shadow; `None` if the spec publishes nothing.
#[must_use]
pub fn in_shadow(spec: &Spec, revision: &RevisionId) -> Option<(Arc<Spec>, RevisionId)> {
    let mut quiet = spec.clone();
    match &mut quiet.kind {
        Kind::Container(body) => body.ports.clear(),
        Kind::Compose(body) => {
            let read = body.read().document;
            let publishes = read.as_ref().is_none_or(|document| !document.ports().is_empty());
            if publishes {
                let file = read.map(|document| document.without_ports().to_file());
                let file = file.unwrap_or_else(|| NOTHING.to_owned());
                // Whoever fetched the repository again would find the ports there.
                body.source = ComposeSource::Inline(Secret::new(&file));
                body.host_ports.clear();
            }
        }
        Kind::Vm(_) => {}
    }
    if quiet == *spec {
        return None;
    }
    let revision = revision.in_shadow(&content_revision(&quiet), CONTENT_DIGITS);
    Some((Arc::new(quiet), revision))
}

/// Ports that are not published in shadow, as people read them: `80/tcp`, or `8080/tcp of the
/// container` where the runtime would choose the port of the node.
#[must_use]
pub fn held_back(spec: &Spec) -> Vec<String> {
    match &spec.kind {
        Kind::Container(body) => body.ports.iter().copied().map(shown).collect(),
        Kind::Compose(body) => {
            let document = body.read().document;
            document.map(|document| document.ports()).unwrap_or_default()
        }
        Kind::Vm(_) => Vec::new(),
    }
}

fn shown(port: Port) -> String {
    let protocol = match port.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    };
    match (port.host, port.address) {
        (Some(host), Some(address)) => format!("{}/{protocol}", SocketAddr::new(address, host)),
        (Some(host), None) => format!("{host}/{protocol}"),
        (None, _) => format!("{}/{protocol} of the container", port.container),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::check::check;
    use crate::spec::draft::{ComposeDraft, ContainerDraft, Draft, PortDraft};

    fn revision() -> RevisionId {
        RevisionId::fixed("r1")
    }

    fn container(ports: Vec<PortDraft>) -> Spec {
        let body = ContainerDraft { image: "web".to_owned(), ports, ..ContainerDraft::default() };
        check(&Draft { container: Some(body), ..Draft::default() }).unwrap()
    }

    fn stack(file: &str) -> Spec {
        let body = ComposeDraft { inline_yaml: file.to_owned(), ..ComposeDraft::default() };
        check(&Draft { compose: Some(body), ..Draft::default() }).unwrap()
    }

    #[test]
    fn a_container_keeps_everything_but_its_ports() {
        let port = PortDraft { host_port: 80, container_port: 8080, ..PortDraft::default() };
        let any = PortDraft { container_port: 9000, ..PortDraft::default() };
        let spec = container(vec![port, any]);
        let (quiet, ordered) = in_shadow(&spec, &revision()).unwrap();
        assert_eq!(*quiet, container(Vec::new()));
        assert!(ordered.as_str().starts_with("r1~"), "{ordered}");
        assert_eq!(held_back(&spec), ["80/tcp", "9000/tcp of the container"]);
        assert_eq!(in_shadow(&quiet, &revision()), None, "nothing is left to hold back");
    }

    #[test]
    fn a_stack_keeps_everything_but_its_ports() {
        let file = |ports: &str| {
            format!(
                "services:\n  web:\n    image: web:1\n    command: [run, \"$$HOME\"]\n{ports}    \
                 volumes: [\"data:/data\"]\n    secrets:\n      - {{source: key, target: /etc/key, \
                 mode: 0440, uid: 7}}\n    deploy: {{resources: {{reservations: {{cpus: '0.25'}}}}}}\n\
                 volumes: {{data: {{}}}}\nsecrets: {{key: {{external: true, name: shop-key}}}}\n"
            )
        };
        let spec = stack(&file("    ports: [\"80:8080\", \"9000\"]\n"));
        let (quiet, _) = in_shadow(&spec, &revision()).unwrap();
        let plain = stack(&file(""));
        let (Kind::Compose(quiet_body), Kind::Compose(plain_body)) = (&quiet.kind, &plain.kind)
        else {
            panic!("two stacks")
        };
        assert_eq!(quiet_body.read().document, plain_body.read().document);
        assert_eq!((quiet.host_ports(), &quiet.resources), (Vec::new(), &spec.resources));
        assert_eq!(held_back(&spec), ["9000/tcp of the container", "80/tcp"]);
        assert_eq!(in_shadow(&plain, &revision()), None);
    }
}
