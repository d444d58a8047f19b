//! What a process proves itself with and whom it believes, and the cell that holds it.
//!
//! A [`Bundle`] is checked once, when it is made: the key belongs to the certificate, the
//! certificate is valid now, names an identity and is signed by one of the roots beside it. What a
//! [`Credentials`] cell holds changes, who it names does not: a file of somebody else, put in the
//! place of ours by mistake, is refused.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use rustls::client::danger::ServerCertVerified;
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio::sync::watch;

use crate::authority::Issued;
use crate::certificate::{self, Certificate, CertificateError, shown, unix_time};
use crate::mapping::Mapping;
use crate::names::Identity;
use crate::renew;
use crate::revoked::Revoked;
use crate::token::Pin;

/// Why certificates and a key do not make a bundle, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// Not PEM where PEM should be.
    #[error("a {0} is not readable as PEM; is the file half written?")]
    Pem(&'static str),
    /// Something is missing.
    #[error("there is no {0}")]
    Missing(&'static str),
    /// The private key is of a kind that cannot be used.
    #[error("the private key cannot be used; P-256 and Ed25519 keys in PKCS #8 can")]
    Key(#[source] rustls::Error),
    /// Key and certificate are of different makes.
    #[error("the private key does not belong to the certificate; replace both together")]
    KeyMismatch,
    /// A certificate cannot be read.
    #[error("the certificate {0}")]
    Certificate(CertificateError),
    /// Too late.
    #[error("the certificate ended on {}; renew it", shown(*.0))]
    Expired(SystemTime),
    /// Too early.
    #[error("the certificate is valid from {} on; is the clock right?", shown(*.0))]
    NotYetValid(SystemTime),
    /// Signed, and then not to be used for what we use it for, or of a form that is not supported.
    #[error(
        "the certificate cannot be used: {0}; it has to be X.509 version 3, not an authority's own, and its extended key usage, where it has one, clientAuth and for servers serverAuth too"
    )]
    Unusable(rustls::Error),
    /// None of the roots signed it.
    #[error("the certificate is not signed by any of the roots beside it; replace all together")]
    Untrusted(#[source] rustls::Error),
    /// The roots cannot be used.
    #[error("the roots cannot be used")]
    Roots(#[source] rustls::Error),
}

impl BundleError {
    /// The fault of a certificate that was checked against the roots beside it.
    fn of_chain(fault: rustls::Error) -> Self {
        if let rustls::Error::InvalidCertificate(inner) = &fault
            && matches!(
                inner,
                rustls::CertificateError::InvalidPurpose
                    | rustls::CertificateError::InvalidPurposeContext { .. }
                    | rustls::CertificateError::BadEncoding
                    | rustls::CertificateError::Other(_)
            )
        {
            return Self::Unusable(fault);
        }
        Self::Untrusted(fault)
    }
}

/// By which moment and which mapping a bundle is judged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Terms {
    /// None: the last moment at which the certificate is valid.
    pub(crate) now: Option<SystemTime>,
    pub(crate) mapping: Option<Arc<Mapping>>,
}

impl Terms {
    fn at(now: SystemTime) -> Self {
        Self { now: Some(now), mapping: None }
    }
}

/// Somebody else's certificate where ours should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the new certificate names {found}, but this is {ours}; restart to become somebody else")]
pub struct IdentityChanged {
    /// Who we are.
    pub ours: Identity,
    /// Who the new one is.
    pub found: Identity,
}

/// Own certificate and key, and the roots that are trusted.
#[derive(Clone)]
pub struct Bundle {
    certificate: Certificate,
    roots: Vec<CertificateDer<'static>>,
    pub(crate) own: Arc<CertifiedKey>,
    pub(crate) clients: Arc<dyn ClientCertVerifier>,
    pub(crate) servers: Arc<WebPkiServerVerifier>,
    anchors: Arc<RootCertStore>,
    mapping: Option<Arc<Mapping>>,
}

impl Bundle {
    /// Reads everything from one text: the key, the certificate, then what signed it. Certificates
    /// that signed themselves are the trusted roots.
    pub fn from_pem(text: &[u8], now: SystemTime) -> Result<Self, BundleError> {
        Self::read_pem(text, Terms::at(now))
    }

    /// The same, valid now or not: good for asking for the next one, and for nothing else.
    pub(crate) fn read_pem(text: &[u8], terms: Terms) -> Result<Self, BundleError> {
        let Terms { now, mapping } = terms;
        let (mut chain, mut roots) = (Vec::new(), Vec::new());
        for found in certificates(text)? {
            let parsed = certificate::parse(&found).map_err(BundleError::Certificate)?;
            let self_signed = parsed.subject().as_raw() == parsed.issuer().as_raw();
            if self_signed { roots.push(found) } else { chain.push(found) }
        }
        Self::checked(chain, text, roots, Terms { now, mapping })
    }

    /// Reads the certificate and what signed it, the key, and the roots from a text each.
    pub fn from_pems(
        certificate: &[u8],
        key: &[u8],
        roots: &[u8],
        now: SystemTime,
    ) -> Result<Self, BundleError> {
        Self::read_pems((certificate, key, roots), Terms::at(now))
    }

    /// The same, valid now or not.
    pub(crate) fn read_pems(
        (certificate, key, roots): (&[u8], &[u8], &[u8]),
        terms: Terms,
    ) -> Result<Self, BundleError> {
        Self::checked(certificates(certificate)?, key, certificates(roots)?, terms)
    }

    /// What the authority just gave.
    pub fn from_issued(issued: &Issued, now: SystemTime) -> Result<Self, BundleError> {
        let Issued { certificate_pem, key_pem, roots_pem, .. } = issued;
        Self::from_pems(certificate_pem.as_bytes(), key_pem.as_bytes(), roots_pem.as_bytes(), now)
    }

    /// What our own certificate says.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Who we are.
    pub fn identity(&self) -> &Identity {
        &self.certificate.identity
    }

    /// The trusted roots.
    pub fn roots_pem(&self) -> String {
        self.roots.iter().map(|root| certificate::to_pem(root)).collect()
    }

    /// Our own certificate and what signed it.
    pub fn certificate_pem(&self) -> String {
        self.own.cert.iter().map(|one| certificate::to_pem(one)).collect()
    }

    /// What recognises the root that signed our certificate.
    pub fn issuer_pin(&self) -> Option<Pin> {
        let own = certificate::parse(self.own.cert.first()?).ok()?;
        let signed = |root: &&CertificateDer<'_>| {
            certificate::parse(root).is_ok_and(|root| {
                own.issuer().as_raw() == root.subject().as_raw()
                    && own.verify_signature(Some(root.public_key())).is_ok()
            })
        };
        self.roots.iter().find(signed).and_then(|root| Pin::of(root))
    }

    pub(crate) fn roots(&self) -> &[CertificateDer<'static>] {
        &self.roots
    }

    /// True if both hold the same certificates and the same mapping.
    pub fn same_as(&self, other: &Self) -> bool {
        self.has_same_certificates(other) && self.mapping == other.mapping
    }

    pub(crate) fn has_same_certificates(&self, other: &Self) -> bool {
        self.own.cert == other.own.cert && self.roots == other.roots
    }

    /// Roles for certificates made elsewhere.
    pub fn mapping(&self) -> Option<&Mapping> {
        self.mapping.as_deref()
    }

    /// Checks that a server's certificate is valid now and chains to one of the roots, whatever its
    /// names are.
    pub(crate) fn verify_chain(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let algorithms = provider().signature_verification_algorithms.all;
        let anchors = &self.anchors;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            anchors,
            intermediates,
            now,
            algorithms,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn checked(
        chain: Vec<CertificateDer<'static>>,
        key_pem: &[u8],
        roots: Vec<CertificateDer<'static>>,
        Terms { now, mapping }: Terms,
    ) -> Result<Self, BundleError> {
        let [first, intermediates @ ..] = chain.as_slice() else {
            return Err(BundleError::Missing("certificate"));
        };
        if roots.is_empty() {
            return Err(BundleError::Missing("root certificate"));
        }
        let certificate = Certificate::read_mapped(first, mapping.as_deref());
        let certificate = certificate.map_err(BundleError::Certificate)?;
        // One that is over is judged by the last moment it was valid at.
        let now = now.unwrap_or(certificate.not_after);
        if now > certificate.not_after {
            return Err(BundleError::Expired(certificate.not_after));
        }
        if now < certificate.not_before {
            return Err(BundleError::NotYetValid(certificate.not_before));
        }
        let provider = provider();
        let anchors = anchors(&roots)?;
        let (clients, servers) = verifiers(&anchors, &provider)?;
        let verified = clients.verify_client_cert(first, intermediates, unix_time(now));
        verified.map_err(BundleError::of_chain)?;
        let own = Arc::new(certified(chain, key_pem, &provider)?);
        Ok(Self { certificate, roots, own, clients, servers, anchors, mapping })
    }
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle")
            .field("certificate", &self.certificate)
            .field("roots", &self.roots.len())
            .finish_non_exhaustive()
    }
}

/// The cell that every new handshake reads.
#[derive(Debug, Clone)]
pub struct Credentials(Arc<Cell>);

#[derive(Debug)]
struct Cell {
    bundle: ArcSwap<Bundle>,
    /// How often it was replaced.
    generation: watch::Sender<u64>,
    revoked: Revoked,
    /// Why what is in the files is not in use.
    trouble: Mutex<Option<String>>,
}

impl Credentials {
    /// A cell that holds `bundle`.
    pub fn new(bundle: Bundle) -> Self {
        let (bundle, generation) = (ArcSwap::from_pointee(bundle), watch::Sender::new(0));
        let (revoked, trouble) = (Revoked::default(), Mutex::default());
        Self(Arc::new(Cell { bundle, generation, revoked, trouble }))
    }

    /// What is in use now.
    pub fn current(&self) -> Arc<Bundle> {
        self.0.bundle.load_full()
    }

    /// Who is no longer believed, on every connection made with these.
    pub fn revoked(&self) -> &Revoked {
        &self.0.revoked
    }

    /// What somebody should look after: files that cannot be used, or a certificate that should have
    /// been renewed by now.
    pub fn trouble(&self, now: SystemTime) -> Option<String> {
        let files = self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let bundle = self.current();
        let late = renew::is_overdue(bundle.certificate(), now).then(|| {
            let ends = shown(bundle.certificate().not_after);
            format!("the certificate ends on {ends} and was not renewed yet")
        });
        files.or(late)
    }

    pub(crate) fn set_trouble(&self, trouble: Option<String>) {
        *self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// How often what is in use has changed. A connection made under a smaller number shows an older
    /// certificate: whoever keeps one makes a new one for the next call.
    pub fn generation(&self) -> u64 {
        *self.0.generation.borrow()
    }

    /// The same, for waiting.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.generation.subscribe()
    }

    /// Uses `bundle` from the next handshake on. It must name the same identity.
    pub fn replace(&self, bundle: Bundle) -> Result<(), IdentityChanged> {
        let current = self.current();
        let (ours, found) = (current.identity(), bundle.identity());
        if ours != found {
            return Err(IdentityChanged { ours: ours.clone(), found: found.clone() });
        }
        let remapped = current.mapping != bundle.mapping;
        self.0.bundle.store(Arc::new(bundle));
        if remapped {
            // Open connections of those who are mapped look again.
            self.0.revoked.wake();
        }
        self.0.generation.send_modify(|count| *count = count.wrapping_add(1));
        Ok(())
    }
}

/// The one crypto library. Passed everywhere, installed nowhere: no global is needed.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, BundleError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    found.ok().ok_or(BundleError::Pem("certificate"))
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key_pem: &[u8],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, BundleError> {
    let key = match PrivateKeyDer::from_pem_slice(key_pem) {
        Ok(key) => key,
        Err(rustls_pki_types::pem::Error::NoItemsFound) => {
            return Err(BundleError::Missing("private key"));
        }
        Err(_) => return Err(BundleError::Pem("private key")),
    };
    match CertifiedKey::from_der(chain, key, provider) {
        Ok(own) => Ok(own),
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(BundleError::KeyMismatch)
        }
        Err(source) => Err(BundleError::Key(source)),
    }
}

type Verifiers = (Arc<dyn ClientCertVerifier>, Arc<WebPkiServerVerifier>);

fn anchors(roots: &[CertificateDer<'static>]) -> Result<Arc<RootCertStore>, BundleError> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root.clone()).map_err(BundleError::Roots)?;
    }
    Ok(Arc::new(store))
}

fn verifiers(
    store: &Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<Verifiers, BundleError> {
    let unusable = |fault: rustls::server::VerifierBuilderError| {
        BundleError::Roots(rustls::Error::General(fault.to_string()))
    };
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(store), Arc::clone(provider))
            .build()
            .map_err(unusable)?;
    let servers =
        WebPkiServerVerifier::builder_with_provider(Arc::clone(store), Arc::clone(provider))
            .build()
            .map_err(unusable)?;
    Ok((clients, servers))
}
