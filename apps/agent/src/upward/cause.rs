//! Why a scheduler did not answer, in words for the log.

use std::error::Error;

use persys_identity::ConnectError;
use tonic::{Code, Status};

/// The cause of a failed call to the scheduler at `address`.
pub(super) fn of(status: &Status, address: &str) -> String {
    format!("{address}: {}", cause(status))
}

fn cause(status: &Status) -> String {
    match ConnectError::within(status) {
        Some(ConnectError::Address { .. }) => "not an address".to_owned(),
        Some(ConnectError::NotListening { .. }) => "connection refused".to_owned(),
        Some(ConnectError::Unreachable { source, .. }) => format!("cannot be reached: {source}"),
        Some(ConnectError::WrongPeer { source, .. }) => format!("wrong certificate: {source}"),
        Some(ConnectError::Handshake { source, .. }) => refused_or("TLS handshake failed", source),
        None => match deepest(status) {
            Some(below) => refused_or("the connection broke", below),
            None => answered(status),
        },
    }
}

/// A server refuses a certificate with an alert, which comes after the client's own handshake.
fn refused_or(otherwise: &str, below: &dyn Error) -> String {
    let text = below.to_string();
    if text.contains("alert") {
        format!("the scheduler refuses the certificate of this agent: {text}")
    } else {
        format!("{otherwise}: {text}")
    }
}

/// The scheduler itself said no.
fn answered(status: &Status) -> String {
    let (code, message) = (status.code(), status.message());
    if matches!(code, Code::Unauthenticated | Code::PermissionDenied) {
        format!("refused: {message}")
    } else if code == Code::Unavailable {
        format!("not available: {message}")
    } else {
        format!("{code}: {message}")
    }
}

/// The first error of a chain: what really happened.
fn deepest(status: &Status) -> Option<&dyn Error> {
    let mut found = status.source()?;
    while let Some(next) = found.source() {
        found = next;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use super::*;

    fn below(error: impl Error + Send + Sync + 'static) -> Status {
        let mut status = Status::unavailable("transport error");
        status.set_source(Arc::new(error));
        status
    }

    #[test]
    fn each_kind_of_failure_has_words_of_its_own() {
        let address = || "s:1".to_owned();
        let handshake = |text: &str| ConnectError::Handshake {
            address: address(),
            source: io::Error::other(text.to_owned()),
        };
        let away = io::Error::from(io::ErrorKind::HostUnreachable);
        for (status, words) in [
            (below(ConnectError::NotListening { address: address() }), "s:1: connection refused"),
            (
                below(ConnectError::Unreachable { address: address(), source: away }),
                "s:1: cannot be reached: host unreachable",
            ),
            (
                below(handshake("invalid peer certificate: UnknownIssuer")),
                "s:1: TLS handshake failed: invalid peer certificate: UnknownIssuer",
            ),
            (
                below(io::Error::other("received fatal alert: UnknownCA")),
                "s:1: the scheduler refuses the certificate of this agent: received fatal alert: UnknownCA",
            ),
            (
                below(io::Error::other("connection reset")),
                "s:1: the connection broke: connection reset",
            ),
            (Status::permission_denied("not this node"), "s:1: refused: not this node"),
            (Status::unavailable("does not lead"), "s:1: not available: does not lead"),
        ] {
            assert_eq!(of(&status, "s:1"), words);
        }
    }
}
