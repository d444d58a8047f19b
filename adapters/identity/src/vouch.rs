//! Certificates that somebody else was shown.
//!
//! A gateway is shown an operator's certificate and passes it on. Whoever receives it does not take
//! the gateway's word: the chain is verified here again, and so are cluster and revocation. A gateway
//! can therefore speak only for operators who came to it, and only while their certificate is valid.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::server::danger::ClientCertVerifier as _;
use rustls_pki_types::CertificateDer;

use crate::certificate::unix_time;
use crate::credentials::Credentials;
use crate::peer::{Peer, PeerError};
use crate::tls::Live;

/// Longest text of a chain that is looked at.
const LONGEST: usize = 12 * 1024;
/// Certificates of a chain: one's own, and those of authorities between it and a root.
const MOST: usize = 4;

/// The text of a chain: base64, joined by commas. Empty for a chain that is too long to pass on.
pub(crate) fn text(chain: &[CertificateDer<'_>]) -> String {
    let encoded: Vec<_> = chain.iter().map(|one| STANDARD.encode(one)).collect();
    let text = encoded.join(",");
    if chain.len() <= MOST && text.len() <= LONGEST { text } else { String::new() }
}

/// The peer that a chain names, if we would believe it of a caller of our own.
pub fn vouched(credentials: &Credentials, text: &str, now: SystemTime) -> Result<Peer, PeerError> {
    if text.len() > LONGEST {
        return Err(PeerError::NotBelieved("it is too long".to_owned()));
    }
    let decoded: Result<Vec<_>, _> = text.split(',').map(|one| STANDARD.decode(one)).collect();
    let decoded = decoded.map_err(|fault| PeerError::NotBelieved(fault.to_string()))?;
    let chain: Vec<_> = decoded.into_iter().map(CertificateDer::from).collect();
    let (first, rest) = chain.split_first().ok_or(PeerError::Nobody)?;
    if chain.len() > MOST {
        return Err(PeerError::NotBelieved("it has too many certificates".to_owned()));
    }
    Live(credentials.clone())
        .verify_client_cert(first, rest, unix_time(now))
        .map_err(|fault| PeerError::NotBelieved(fault.to_string()))?;
    Peer::certified(&chain, credentials.current().mapping())
}
