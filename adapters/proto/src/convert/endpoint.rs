//! Where an agent can be called.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use super::at::{At, shown};

/// The port agents listen on when none is said.
const PORT: u16 = 50_051;
/// Agents of one machine leave the host out.
const HOST: &str = "127.0.0.1";
/// Bytes of the longest DNS name.
const HOST_BYTES: usize = 253;

/// `host:port`, written out: a missing port is the usual one, a missing host this machine.
pub(super) fn endpoint(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    if text.is_empty() {
        return at.refuse("is missing");
    }
    let bad = || at.refuse(format!("\"{}\" is not host:port", shown(text)));
    let (host, port) = match text.rsplit_once(':') {
        // A colon inside brackets belongs to the address.
        Some((host, port)) if !port.ends_with(']') => {
            let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
            match port.parse::<u16>() {
                Ok(port) if digits && port > 0 => (host, port),
                _ => return bad(),
            }
        }
        _ => (text, PORT),
    };
    let host = if host.is_empty() { HOST } else { host };
    if !is_host(host) {
        return bad();
    }
    Some(Arc::from(format!("{host}:{port}")))
}

/// A DNS name, an IPv4 address, or an IPv6 address in brackets; nothing that means "any address".
fn is_host(text: &str) -> bool {
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return inner.parse::<Ipv6Addr>().is_ok_and(|ip| !ip.is_unspecified());
    }
    if text.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified()) {
        return false;
    }
    let label = |part: &str| {
        let bytes = part.as_bytes();
        let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        bytes.len() <= 63
            && edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    text.len() <= HOST_BYTES && text.split('.').all(label)
}
