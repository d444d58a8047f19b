//! What happens on its own, for the log and the metrics of the process.
//!
//! Nothing here can be answered: a failed handshake or reload concerns nobody who waits. An event
//! never holds key material.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::certificate::{Certificate, shown};
use crate::listen::HandshakeError;
use crate::renew::RenewError;
use crate::watch::ReloadError;

/// Where events go. Called from within the connection's own task, so it must not wait.
pub type Report = Arc<dyn Fn(Event) + Send + Sync>;

/// Between two lines about the same peer and the same fault.
const SAME_FAULT: Duration = Duration::from_mins(1);
/// Most peers and faults that are remembered; beyond that nothing is held back.
const MOST_FAULTS: usize = 1024;

/// Tells the log of the process. A peer that is refused again and again for the same fault has one
/// line a minute, which says how many there were.
#[must_use]
pub fn logged() -> Report {
    let refusals = Mutex::new(Refusals::default());
    Arc::new(move |event: Event| {
        if let Event::HandshakeFailed { remote, fault } = &event {
            let fault = fault.to_string();
            let mut refusals = refusals.lock().unwrap_or_else(PoisonError::into_inner);
            let source = remote.map(|remote| remote.ip().to_canonical());
            let Some(times) = refusals.count(source, &fault, Instant::now()) else { return };
            drop(refusals);
            let peer = remote.map(|remote| remote.to_string());
            tracing::warn!(event = event.name(), peer, fault, times, "a peer was refused");
        } else if event.is_trouble() {
            tracing::warn!(event = event.name(), "{event}");
        } else {
            tracing::info!(event = event.name(), "{event}");
        }
    })
}

/// Refused connections by address and fault, so that their lines can be counted together.
#[derive(Debug, Default)]
struct Refusals(HashMap<(Option<IpAddr>, String), (Instant, u64)>);

impl Refusals {
    /// Counts one; gives how many there were since the last line, if it is time for another.
    fn count(&mut self, source: Option<IpAddr>, fault: &str, now: Instant) -> Option<u64> {
        if self.0.len() >= MOST_FAULTS {
            self.0.retain(|_, (told, _)| now.duration_since(*told) < SAME_FAULT);
        }
        let key = (source, fault.to_owned());
        if let Some((told, held_back)) = self.0.get_mut(&key) {
            *held_back = held_back.saturating_add(1);
            if now.duration_since(*told) < SAME_FAULT {
                return None;
            }
            *told = now;
            return Some(std::mem::take(held_back));
        }
        if self.0.len() < MOST_FAULTS {
            self.0.insert(key, (now, 0));
        }
        Some(1)
    }
}

/// One thing that happened.
#[derive(Debug)]
pub enum Event {
    /// New credentials are in use.
    Reloaded(Certificate),
    /// What is in the files was not taken; what was in use still is.
    ReloadFailed(ReloadError),
    /// Another mapping of certificate names is in use: the file and its number of rows.
    Remapped(PathBuf, usize),
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
            Self::Reloaded(_) | Self::Remapped(..) | Self::Renewed(_) => false,
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
            Self::Remapped(..) => "tls_names_reloaded",
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
            Self::Remapped(path, rows) => {
                write!(f, "certificate names are mapped by the {rows} rows of {}", path.display())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_fault_of_the_same_peer_has_one_line_a_minute() {
        let (mut refusals, begun) = (Refusals::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let (one, two) = (Some(IpAddr::from([192, 0, 2, 1])), Some(IpAddr::from([192, 0, 2, 2])));
        assert_eq!(refusals.count(one, "expired", at(0)), Some(1));
        assert_eq!(refusals.count(one, "expired", at(1)), None);
        assert_eq!(refusals.count(one, "revoked", at(1)), Some(1));
        assert_eq!(refusals.count(two, "expired", at(1)), Some(1));
        assert_eq!(refusals.count(one, "expired", at(59)), None);
        assert_eq!(refusals.count(one, "expired", at(60)), Some(3));
        for peer in 0..2_000_u32 {
            refusals.count(Some(IpAddr::from(peer.to_be_bytes())), "expired", at(61));
        }
        assert!(refusals.0.len() <= MOST_FAULTS);
    }
}
