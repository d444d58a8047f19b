//! Doors for browsers and other HTTP clients: HTTP/1.1 beside HTTP/2, and, where that is wanted, also
//! for callers who show no certificate and prove who they are in another way.
//!
//! Whoever does show one is held to the same rules as at every other door.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::TLS13;
use rustls::{DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::credentials::{Credentials, provider};
use crate::listen::{HANDSHAKE_TIMEOUT, HandshakeError};
use crate::peer::{self, Peer};
use crate::tls::Live;

/// Whether callers have to show a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Nobody gets in without.
    Required,
    /// Those who have one show it.
    Optional,
}

/// A door.
#[derive(Clone)]
pub struct WebDoor(TlsAcceptor, Credentials);

impl std::fmt::Debug for WebDoor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WebDoor")
    }
}

/// Somebody who came in.
#[derive(Debug)]
pub struct Guest {
    /// The connection.
    pub stream: TlsStream<TcpStream>,
    /// Who it is, if a certificate says so.
    pub peer: Option<Peer>,
    /// From where.
    pub remote: SocketAddr,
    /// Whether HTTP/2 was agreed on.
    pub is_http2: bool,
}

impl WebDoor {
    /// A door that shows our certificate of the moment.
    pub fn new(credentials: &Credentials, asked: Asked) -> Result<Self, Error> {
        let live = Arc::new(Live(credentials.clone()));
        let verifier: Arc<dyn ClientCertVerifier> = match asked {
            Asked::Required => Arc::<Live>::clone(&live),
            Asked::Optional => Arc::new(Lenient(Arc::clone(&live))),
        };
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(live);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // A resumed session would keep an identity that may have been taken away since.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self(TlsAcceptor::from(Arc::new(config)), credentials.clone()))
    }

    /// Shakes hands with one caller, within the time there is for that.
    pub async fn admit(
        &self,
        stream: TcpStream,
        remote: SocketAddr,
    ) -> Result<Guest, HandshakeError> {
        let Ok(shaken) = timeout(HANDSHAKE_TIMEOUT, self.0.accept(stream)).await else {
            return Err(HandshakeError::TimedOut);
        };
        let stream = shaken.map_err(|failure| {
            peer::reason(&failure)
                .map_or_else(|| HandshakeError::Tls(failure), HandshakeError::Peer)
        })?;
        let (_, session) = stream.get_ref();
        let is_http2 = session.alpn_protocol() == Some(b"h2");
        let bundle = self.1.current();
        let certified = |chain: &[CertificateDer<'_>]| Peer::certified(chain, bundle.mapping());
        let peer = session.peer_certificates().map(certified).transpose()?;
        Ok(Guest { stream, peer, remote, is_http2 })
    }
}

/// Takes callers without a certificate too.
#[derive(Debug)]
struct Lenient(Arc<Live>);

impl ClientCertVerifier for Lenient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.0.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
