//! Both ends of a TLS connection, always with the credentials of the moment.
//!
//! TLS 1.3 alone, a certificate required of each side, and no session resumption: a resumed session
//! keeps the identities of the first handshake, so that a replaced or withdrawn certificate would
//! live on. Each side checks more than the chain: a server takes only callers of its own cluster, a
//! client only the server it dialled, by role and, for an agent, by name.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::credentials::{Credentials, provider};
use crate::names::{Identity, Name, Role};
use crate::peer::{PeerError, neighbour};

/// What is spoken inside.
pub(crate) const HTTP2: &[u8] = b"h2";

/// Whom a client dials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// Any scheduler of our cluster.
    Scheduler,
    /// Any gateway of our cluster.
    Gateway,
    /// The agent of one node of our cluster.
    Agent(Name),
}

impl Expected {
    fn matches(&self, found: &Identity) -> bool {
        match self {
            Self::Scheduler => found.role == Role::Scheduler,
            Self::Gateway => found.role == Role::Gateway,
            Self::Agent(name) => found.role == Role::Agent && found.name == *name,
        }
    }

    /// The DNS name that the certificate of whom we dial must carry.
    fn server_name(&self, ours: &Identity) -> Result<ServerName<'static>, Error> {
        let (role, name) = match self {
            Self::Scheduler => (Role::Scheduler, &ours.name),
            Self::Gateway => (Role::Gateway, &ours.name),
            Self::Agent(name) => (Role::Agent, name),
        };
        let identity = Identity { role, name: name.clone(), ..ours.clone() };
        let host = identity.host_name().unwrap_or_default();
        let named = ServerName::try_from(host.clone());
        named.ok().ok_or_else(|| Error::General(format!("{host:?} is not a DNS name")))
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheduler => f.write_str("a scheduler"),
            Self::Gateway => f.write_str("a gateway"),
            Self::Agent(name) => write!(f, "the agent of {name}"),
        }
    }
}

/// The server's end: shows the current certificate, takes callers of its own cluster.
pub fn server_config(credentials: &Credentials) -> Result<Arc<ServerConfig>, Error> {
    let live = Arc::new(Live(credentials.clone()));
    let verifier: Arc<dyn ClientCertVerifier> = Arc::<Live>::clone(&live);
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(live);
    config.alpn_protocols = vec![HTTP2.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The client's end: shows the current certificate, takes only whom it dialled. The name goes with
/// it: what is dialled is a role, at whatever address it is.
pub fn client_config(
    credentials: &Credentials,
    expected: Expected,
) -> Result<(Arc<ClientConfig>, ServerName<'static>), Error> {
    let server_name = expected.server_name(credentials.current().identity())?;
    let verifier = Arc::new(Dialled { credentials: credentials.clone(), expected });
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(Live(credentials.clone())));
    config.alpn_protocols = vec![HTTP2.to_vec()];
    config.resumption = Resumption::disabled();
    Ok((Arc::new(config), server_name))
}

/// Our own certificate, and whom a server believes.
#[derive(Debug)]
pub(crate) struct Live(pub(crate) Credentials);

impl ResolvesServerCert for Live {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.current().own))
    }
}

impl ResolvesClientCert for Live {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.current().own))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Live {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // A hint would name the roots of one moment; our clients have one certificate anyway.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let bundle = self.0.current();
        let verified = bundle.clients.verify_client_cert(end_entity, intermediates, now)?;
        neighbour(end_entity, &bundle, self.0.revoked())?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.current().clients.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.current().clients.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.current().clients.supported_verify_schemes()
    }
}

/// Whom a client believes: the one it dialled.
#[derive(Debug)]
struct Dialled {
    credentials: Credentials,
    expected: Expected,
}

impl ServerCertVerifier for Dialled {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let bundle = self.credentials.current();
        let chain = bundle.servers.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        let verified = match chain {
            // An authority that hands out names as asked is caught here rather than believed; and
            // "an agent answered" says more than "wrong host name".
            Err(Error::InvalidCertificate(fault)) if is_name_fault(&fault) => {
                let found = neighbour(end_entity, &bundle, self.credentials.revoked())?;
                if found.mapped.is_none() {
                    return Err(self.unexpected(found.identity));
                }
                // The mapping says which names it may have. That its chain is good is asked again, and
                // does not rest on the order in which the library looks at names and signatures.
                bundle.verify_chain(end_entity, intermediates, now)?
            }
            chain => chain?,
        };
        let found = neighbour(end_entity, &bundle, self.credentials.revoked())?.identity;
        if self.expected.matches(&found) { Ok(verified) } else { Err(self.unexpected(found)) }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.credentials.current().servers.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.credentials.current().servers.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.credentials.current().servers.supported_verify_schemes()
    }
}

impl Dialled {
    fn unexpected(&self, found: Identity) -> Error {
        PeerError::Unexpected { found, wanted: self.expected.to_string() }.into()
    }
}

/// The chain is good, the host name is not the one dialled.
fn is_name_fault(fault: &rustls::CertificateError) -> bool {
    matches!(
        fault,
        rustls::CertificateError::NotValidForName
            | rustls::CertificateError::NotValidForNameContext { .. }
    )
}
