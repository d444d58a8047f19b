//! A key of our own, and the request to certify it. The key never leaves the host.

use rcgen::{CertificateParams, KeyPair};
use rustls::SignatureScheme;
use zeroize::Zeroizing;

use crate::authority::{AuthorityError, Issued};
use crate::certificate::Certificate;
use crate::credentials::{Bundle, BundleError, Terms};

/// What stands before a request that is signed for renewal: a signature made for this cannot have
/// been made for anything else.
const RENEWAL: &[u8] = b"persys renewal 1\n";

/// What the holder of a certificate signs to get the next one.
pub(crate) fn renewal_message(request_pem: &[u8]) -> Vec<u8> {
    [RENEWAL, request_pem].concat()
}

/// A new key that waits for its certificate.
pub struct NewKey {
    key_pem: Zeroizing<String>,
    request_pem: String,
}

impl NewKey {
    /// Makes one. The request asks for no name: names are the authority's to give.
    pub fn generate() -> Result<Self, AuthorityError> {
        let key = KeyPair::generate().map_err(AuthorityError::Crypto)?;
        let request = CertificateParams::default().serialize_request(&key);
        let request = request.and_then(|request| request.pem()).map_err(AuthorityError::Crypto)?;
        Ok(Self { key_pem: Zeroizing::new(key.serialize_pem()), request_pem: request })
    }

    /// A key that somebody else made for us.
    pub(crate) fn foreign(key_pem: Zeroizing<String>) -> Self {
        Self { key_pem, request_pem: String::new() }
    }

    /// The request: the public key, and the proof that we hold the private one.
    pub fn request_pem(&self) -> &str {
        &self.request_pem
    }

    /// The key with the certificate it got, if both belong together and are valid.
    pub fn with(
        self,
        certificate_pem: String,
        roots_pem: String,
        now: std::time::SystemTime,
    ) -> Result<Issued, BundleError> {
        self.with_terms(certificate_pem, roots_pem, Terms { now: Some(now), mapping: None })
    }

    /// The same, for a certificate that may get its identity from a mapping.
    pub(crate) fn with_terms(
        self,
        certificate_pem: String,
        roots_pem: String,
        terms: Terms,
    ) -> Result<Issued, BundleError> {
        let (certificate, key) = (certificate_pem.as_bytes(), self.key_pem.as_bytes());
        let bundle = Bundle::read_pems((certificate, key, roots_pem.as_bytes()), terms)?;
        let certificate: Certificate = bundle.certificate().clone();
        Ok(Issued { certificate, certificate_pem, key_pem: self.key_pem, roots_pem })
    }
}

impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewKey").finish_non_exhaustive()
    }
}

impl Bundle {
    /// Proves to hold the key of our certificate, to whoever is to certify the next one.
    pub fn prove(&self, request_pem: &str) -> Option<Vec<u8>> {
        let schemes = [SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::ED25519];
        let signer = self.own.key.choose_scheme(&schemes)?;
        signer.sign(&renewal_message(request_pem.as_bytes())).ok()
    }
}
