//! Who is who: names, certificates, and connections that prove them.
//!
//! ```text
//!  Authority ── issues ──▶ file ── load ──▶ Bundle ──▶ Credentials ──▶ Incoming   (servers)
//!  (names are the CA's)     ▲                 ▲         one cell, read by          Connector (clients)
//!                           └── Watcher polls ┘         every new handshake        │
//!                                                                                  ▼
//!                                                                    Peer {role, name, cluster}
//! ```
//!
//! Invariants:
//! - A name in a certificate is set by the authority, never taken from a request.
//! - A role is matched exactly, on both sides: a client refuses a server of another role even when
//!   the same authority signed it.
//! - A reload happens as a whole or not at all; what does not load leaves what is in use in use.
//! - A private key has no textual form except the file it is kept in.

pub mod authority;
pub mod certificate;
pub mod connect;
pub mod credentials;
pub mod event;
pub mod files;
pub mod first;
pub mod issued;
pub mod listen;
pub mod mapping;
pub mod names;
pub mod peer;
pub mod renew;
pub mod request;
pub mod revoked;
pub mod tls;
pub mod token;
pub mod vault;
pub mod watch;
pub mod web;

mod close;
mod cut;
mod disk;
mod vouch;

pub use authority::{Authority, Grant, Hosts, Issued, Validity};
pub use certificate::{Certificate, Serial};
pub use close::Closer;
pub use connect::{ConnectError, Connector, Lasting};
pub use credentials::{Bundle, Credentials};
pub use disk::FileError;
pub use event::{Event, Report, logged};
pub use files::Source;
pub use listen::{ConnectInfo, Connection, Exposure, Incoming};
pub use mapping::{CertificateNames, Mapping};
pub use names::{ClusterName, Identity, Name, Role, TrustDomain};
pub use peer::Peer;
pub use renew::{Issuer, Renewer};
pub use request::NewKey;
pub use revoked::{Denied, Revoked, Subject};
pub use tls::Expected;
pub use token::{Pin, Token};
pub use vouch::vouched;
pub use watch::Watcher;
