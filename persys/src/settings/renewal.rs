//! Where certificates come from: an authority beside the process, an enrolment elsewhere, Vault, or
//! files that somebody else looks after.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use persys_identity::Source;

use super::Values;
use super::read::{Reach, Reader};
use super::vault::{self, Vault};

/// Where certificates come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Renewal {
    /// The folder of an authority; there may be none in it.
    pub(crate) authority: PathBuf,
    /// Where members join, if there is an authority.
    pub(crate) enrol: Option<SocketAddr>,
    /// How long certificates last; the usual when not given.
    pub(crate) lifetime: Option<Duration>,
    /// Where the own certificate is renewed, `host:port`.
    pub(crate) renew_at: Vec<String>,
    /// Vault, if it is used.
    pub(crate) vault: Option<Vault>,
    /// Whether somebody said where the files are.
    pub(crate) files_given: bool,
}

/// Shortest life of a certificate that anybody can keep up with.
const LEAST_LIFE_MS: u64 = 10_000;

/// What a scheduler is told.
pub(crate) fn scheduler(values: &Values) -> Result<Renewal, Vec<String>> {
    let mut read = Reader::new(values);
    let port = read.perhaps::<u16>("enrol-port", "a port from 0 to 65535, or nothing");
    let enrol = port.and_then(|_| read.address("grpc-addr", "enrol-port", Reach::Anywhere));
    let authority = match read.text("ca-dir") {
        Some(path) => PathBuf::from(path),
        None => read.path("state-dir").join("ca"),
    };
    let lifetime = Duration::from_millis(read.interval_ms("cert-ttl", LEAST_LIFE_MS));
    let renewal = Renewal {
        authority,
        enrol,
        lifetime: values.is_given("cert-ttl").then_some(lifetime),
        renew_at: read.list("enrol-addr"),
        vault: vault::read(&mut read, values),
        files_given: given(values),
    };
    read.finish(Some(renewal))
}

/// What a part is told that has no authority beside it: an agent, or a gateway.
pub(crate) fn member(values: &Values) -> Result<Renewal, Vec<String>> {
    let mut read = Reader::new(values);
    let renewal = Renewal {
        authority: PathBuf::new(),
        enrol: None,
        lifetime: None,
        renew_at: read.list("enrol-addr"),
        vault: vault::read(&mut read, values),
        files_given: given(values),
    };
    read.finish(Some(renewal))
}

fn given(values: &Values) -> bool {
    ["identity", "tls-ca", "tls-cert", "tls-key"].iter().any(|key| values.is_given(key))
}

/// Where the certificate is kept that nobody gave a place.
pub(crate) fn own_source(renewal: &Renewal, told: &Source, state_dir: &std::path::Path) -> Source {
    let own = Source::Bundle(state_dir.join("identity.pem"));
    match told {
        _ if renewal.files_given => told.clone(),
        Source::Mapped { names, .. } => own.mapped(Some(names.clone())),
        Source::Bundle(_) | Source::Separate { .. } => own,
    }
}
