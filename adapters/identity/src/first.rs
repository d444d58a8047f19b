//! The first contact: one side has no certificate yet.
//!
//! The server shows its certificate and behind it all its roots; the client looks among these for the
//! one whose hash it was given, and believes that one alone. A name it cannot know yet, so it takes the
//! one that the certificate of a scheduler of that cluster must carry.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore,
    ServerConfig, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::certificate::Certificate;
use crate::credentials::{Credentials, provider};
use crate::names::Role;
use crate::peer::PeerError;
use crate::tls::HTTP2;
use crate::token::Pin;

/// What a client without a certificate asks for; no server decides on it.
const ANY_NAME: &str = "enrol.persys";

/// Why a server is not believed by somebody who only has a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the authority there is not the one the token is for; was the token made for another cluster, or before its authority was rotated? Nothing was sent"
)]
pub struct WrongAuthority;

/// The server's end: shows who it is, asks for nothing.
pub(crate) fn server_config(credentials: &Credentials) -> Result<Arc<ServerConfig>, Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(WithRoots(credentials.clone())));
    config.alpn_protocols = vec![HTTP2.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The client's end: believes the authority with this key, and shows nothing.
pub(crate) fn client_config(pin: Pin) -> Result<(Arc<ClientConfig>, ServerName<'static>), Error> {
    let name = ServerName::try_from(ANY_NAME);
    let name = name.ok().ok_or_else(|| Error::General("the name is none".to_owned()))?;
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned(pin)))
        .with_no_client_auth();
    config.alpn_protocols = vec![HTTP2.to_vec()];
    config.resumption = Resumption::disabled();
    Ok((Arc::new(config), name))
}

/// Our certificate, and the roots behind it.
#[derive(Debug)]
struct WithRoots(Credentials);

impl ResolvesServerCert for WithRoots {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let bundle = self.0.current();
        let chain = bundle.own.cert.iter().chain(bundle.roots()).cloned().collect();
        Some(Arc::new(CertifiedKey::new(chain, Arc::clone(&bundle.own.key))))
    }
}

/// Believes one authority, and schedulers alone.
#[derive(Debug)]
struct Pinned(Pin);

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let wrong = || Error::from(CertificateError::Other(OtherError(Arc::new(WrongAuthority))));
        let root = intermediates.iter().find(|one| Pin::of(one) == Some(self.0));
        let root = root.ok_or_else(wrong)?;
        let found = Certificate::read(end_entity).map_err(PeerError::Certificate)?.identity;
        let host = found.host_name().and_then(|host| ServerName::try_from(host).ok());
        let Some(host) = host.filter(|_| found.role == Role::Scheduler) else {
            return Err(PeerError::Unexpected { found, wanted: "a scheduler".to_owned() }.into());
        };
        let mut store = RootCertStore::empty();
        store.add(root.clone().into_owned())?;
        let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider())
            .build()
            .map_err(|fault| Error::General(fault.to_string()))?;
        match chain.verify_server_cert(end_entity, intermediates, &host, ocsp_response, now) {
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => Err(wrong()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
