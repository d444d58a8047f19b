//! What happens on its own, for the log and the metrics of the process.
//!
//! Nothing here can be answered: a failed handshake or reload concerns nobody who waits. An event
//! never holds key material.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::certificate::{Certificate, shown};
use crate::listen::HandshakeError;
use crate::renew::RenewError;
use crate::watch::ReloadError;

/// Where events go. Called from within the connection's own task, so it must not wait.
pub type Report = Arc<dyn Fn(Event) + Send + Sync>;

/// Tells the log of the process.
#[must_use]
pub fn logged() -> Report {
    Arc::new(|event: Event| {
        if event.is_trouble() {
            tracing::warn!(event = event.name(), "{event}");
        } else {
            tracing::info!(event = event.name(), "{event}");
        }
    })
}

/// One thing that happened.
#[derive(Debug)]
pub enum Event {
    /// New credentials are in use.
    Reloaded(Certificate),
    /// What is in the files was not taken; what was in use still is.
    ReloadFailed(ReloadError),
    /// A new certificate is in the files.
    Renewed(Certificate),
    /// There is no next certificate yet; it is tried again.
    RenewalFailed(RenewError),
    /// A connection came to nothing.
    HandshakeFailed {
        /// From where, when that is known.
        remote: Option<SocketAddr>,
        /// Why.
        fault: HandshakeError,
    },
    /// The system gave no connection; the listener goes on after a pause.
    AcceptFailed(io::Error),
}

impl Event {
    /// Whether somebody should look after it.
    pub fn is_trouble(&self) -> bool {
        match self {
            Self::Reloaded(_) | Self::Renewed(_) => false,
            Self::ReloadFailed(_)
            | Self::RenewalFailed(_)
            | Self::HandshakeFailed { .. }
            | Self::AcceptFailed(_) => true,
        }
    }

    /// The word for it in logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reloaded(_) => "tls_reloaded",
            Self::ReloadFailed(_) => "tls_reload_failed",
            Self::Renewed(_) => "tls_renewed",
            Self::RenewalFailed(_) => "tls_renewal_failed",
            Self::HandshakeFailed { .. } => "tls_handshake_failed",
            Self::AcceptFailed(_) => "accept_failed",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reloaded(Certificate { identity, serial, not_after, .. }) => {
                write!(f, "{identity} now uses certificate {serial}, until {}", shown(*not_after))
            }
            Self::ReloadFailed(fault) => write!(f, "kept the certificate in use: {fault}"),
            Self::Renewed(Certificate { identity, serial, not_after, .. }) => {
                write!(f, "{identity} got certificate {serial}, until {}", shown(*not_after))
            }
            Self::RenewalFailed(fault) => write!(f, "no new certificate yet: {fault}"),
            Self::HandshakeFailed { remote: Some(remote), fault } => {
                write!(f, "refused {remote}: {fault}")
            }
            Self::HandshakeFailed { remote: None, fault } => write!(f, "refused a peer: {fault}"),
            Self::AcceptFailed(fault) => write!(f, "cannot accept connections: {fault}"),
        }
    }
}
