//! Who asks: what the connection, a token or a session says, and how it is passed on.
//!
//! The gateway has no rights of its own. It names the user with every call, and the scheduler judges
//! the user: a token is forwarded as it came and checked there, a certificate that was verified here
//! is forwarded as the identity it proves.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use persys_identity::{Name, Peer, Role};
use tonic::metadata::MetadataMap;

use persys_model::hex::hex;

/// Names the user to a scheduler: `<role>/<name>`. Taken only from a gateway's certificate.
const ON_BEHALF_OF: &str = "persys-on-behalf-of";
/// From where the user asks. Taken only from a gateway's certificate.
const SOURCE: &str = "persys-source";
/// Says by which certificate the user was known here, so that the scheduler, which knows what was
/// revoked, can refuse that one too.
const CERTIFICATE: &str = "persys-certificate";
/// The certificate an operator showed here, which the scheduler verifies itself.
const CHAIN: &str = "persys-certificate-chain";

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Keeps `text`.
    pub fn new(text: &str) -> Self {
        Self(Arc::from(text))
    }

    /// The text itself, for whoever has to pass it on.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A cluster and the key of a caller there.
pub type CallerAt = (String, Arc<str>);

/// What says who asks.
#[derive(Debug, PartialEq, Eq)]
enum Proof {
    /// A token, which the scheduler checks.
    Token(Secret),
    /// A certificate, which was verified here.
    Certified { role: Role, name: Name, serial: Option<Box<str>>, chain: Arc<str> },
    /// Nothing, in an installation that runs without certificates.
    Nothing,
}

/// Who asks. Copies are the same and cost nothing.
#[derive(Debug, Clone)]
pub struct Caller {
    proof: Arc<Proof>,
    key: Arc<str>,
}

impl PartialEq for Caller {
    fn eq(&self, other: &Self) -> bool {
        self.proof == other.proof
    }
}

impl Eq for Caller {}

impl Caller {
    /// Somebody with a token.
    pub fn token(token: Secret) -> Self {
        let key = format!("token/{}", fingerprint(token.reveal()));
        Self { proof: Arc::new(Proof::Token(token)), key: key.into() }
    }

    /// Somebody known by a certificate with this serial number; none for those the gateway itself
    /// speaks for.
    pub fn certified(role: Role, name: Name, serial: Option<&str>) -> Self {
        Self::showing(role, name, serial, Arc::from(""))
    }

    fn showing(role: Role, name: Name, serial: Option<&str>, chain: Arc<str>) -> Self {
        // One certificate may be revoked while another of the same user is not.
        let key = format!("{role}/{name}/{}", serial.unwrap_or_default());
        let serial = serial.map(Box::from);
        Self { proof: Arc::new(Proof::Certified { role, name, serial, chain }), key: key.into() }
    }

    /// Whoever it is, in an installation that runs without certificates.
    pub fn anonymous() -> Self {
        Self { proof: Arc::new(Proof::Nothing), key: "anonymous".into() }
    }

    /// Whoever this peer speaks for; nobody where it has nothing to ask for here.
    pub fn of(peer: &Peer) -> Option<Self> {
        match peer.role {
            Role::Operator | Role::User => {
                let shown = peer.certificate.as_ref();
                let serial = shown.map(|shown| shown.serial.as_str());
                let chain = shown.map(|shown| Arc::clone(&shown.chain)).unwrap_or_default();
                Some(Self::showing(peer.role, peer.name.clone(), serial, chain))
            }
            // Known, but nobody who may ask for anything here: only pages that are for all.
            Role::Scheduler | Role::Agent | Role::Gateway | Role::Metrics => None,
        }
    }

    /// Whether nothing says who it is.
    pub fn is_anonymous(&self) -> bool {
        *self.proof == Proof::Nothing
    }

    /// Whether only a token says who it is.
    pub fn has_token(&self) -> bool {
        matches!(*self.proof, Proof::Token(_))
    }

    /// The same text for the same caller, which gives nothing away.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// How the caller is called by people.
    pub fn shown(&self) -> String {
        match &*self.proof {
            Proof::Token(token) => {
                let short = fingerprint(token.reveal());
                format!("token {}", short.get(..8).unwrap_or_default())
            }
            Proof::Certified { role, name, .. } => format!("{role} {name}"),
            Proof::Nothing => "everybody on this machine".to_owned(),
        }
    }

    /// Names the caller in a call, and where they ask from: a scheduler that hears many bad tokens
    /// is to stop listening to whoever sent them, and not to us.
    pub fn attach(&self, source: Option<IpAddr>, to: &mut MetadataMap) {
        if let Some(source) = source.and_then(|source| source.to_string().parse().ok()) {
            to.insert(SOURCE, source);
        }
        let (key, text) = match &*self.proof {
            Proof::Token(token) => ("authorization", format!("Bearer {}", token.reveal())),
            Proof::Certified { role, name, serial, chain } => {
                if let Some(Ok(serial)) = serial.as_ref().map(|serial| serial.parse()) {
                    to.insert(CERTIFICATE, serial);
                }
                if let (false, Ok(chain)) = (chain.is_empty(), chain.parse()) {
                    to.insert(CHAIN, chain);
                }
                (ON_BEHALF_OF, format!("{role}/{name}"))
            }
            Proof::Nothing => return,
        };
        // A token that no header can hold was refused when it came.
        if let Ok(value) = text.parse() {
            to.insert(key, value);
        }
    }
}

/// A text of a secret by which it is found again, and from which it is not.
pub(crate) fn fingerprint(secret: &str) -> String {
    hex(digest(&SHA256, secret.as_bytes()).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_passed_on_and_never_shown() {
        let caller = Caller::token(Secret::new("persys_abc"));
        let mut metadata = MetadataMap::new();
        caller.attach(Some([10, 0, 0, 1].into()), &mut metadata);
        assert_eq!(metadata.get("authorization").unwrap(), "Bearer persys_abc");
        assert_eq!(metadata.get(SOURCE).unwrap(), "10.0.0.1");
        assert!(metadata.get(ON_BEHALF_OF).is_none());
        for shown in [format!("{caller:?}"), caller.key().to_string(), caller.shown()] {
            assert!(!shown.contains("abc"), "{shown}");
        }
    }

    #[test]
    fn a_certificate_is_passed_on_as_whom_it_names() {
        let caller = Caller::certified(Role::User, Name::fixed("alice"), Some("0af3"));
        let mut metadata = MetadataMap::new();
        caller.attach(Some([10, 0, 0, 1].into()), &mut metadata);
        assert_eq!(metadata.get(ON_BEHALF_OF).unwrap(), "user/alice");
        assert_eq!(metadata.get(CERTIFICATE).unwrap(), "0af3");
        assert!(metadata.get("authorization").is_none());
    }
}
