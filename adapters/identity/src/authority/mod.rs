//! The authority: one root in one file, and the certificates it issues.
//!
//! ```text
//!  <folder>/authority.pem   0600   root key and root certificate, together: never one without the other
//!  <folder>/next.pem        0600   the same of the root that comes next, while one replaces the other
//!  <folder>/former.pem      0644   roots that issue no more and are trusted still
//!  <folder>/root.pem        0644   all roots to trust, for those who are to trust them
//! ```
//!
//! Invariants: every name in an issued certificate comes from the [`Grant`]; of a request only the
//! public key is kept, and only when its sender proves to hold the private one; nothing issued
//! outlives the root. Time is an argument.

mod error;
mod profile;
mod renewal;
mod rotation;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType, SerialNumber, SubjectPublicKeyInfo,
};
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, CertificateSigningRequestDer, PrivateKeyDer};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;
use zeroize::Zeroizing;

use crate::certificate::{self, Certificate};
use crate::disk::{self, Existing, Links};
use crate::names::{ClusterName, Identity, TrustDomain, authority_uri};
use crate::token::Pin;

pub use error::AuthorityError;
pub use profile::{Grant, Hosts, usual_lifetime};
pub use renewal::RenewalRefused;
pub use rotation::Stage;

/// The file with the root key.
const AUTHORITY_FILE: &str = "authority.pem";
/// The file with the root certificate alone.
const ROOT_FILE: &str = "root.pem";
/// How long a root lasts: longer than a machine, and rotated before by hand.
const ROOT_LIFETIME: Duration = Duration::from_hours(10 * 365 * 24);
/// How far validity reaches back, for hosts whose clocks are behind.
const BACK_DATED: Duration = Duration::from_mins(5);
/// Longest life of what is issued: an operator's certificate is renewed every year.
const MOST_LIFETIME: Duration = Duration::from_hours(366 * 24);
/// Largest request that is looked at.
const MOST_REQUEST_BYTES: usize = 16 * 1024;
/// Random bytes in a serial number; the most that fit whatever the first bit is.
const SERIAL_BYTES: usize = 16;

/// From when and for how long a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The time of issue.
    pub now: SystemTime,
    /// How long from then on.
    pub lifetime: Duration,
}

/// A certificate with its key, as it goes to whom it is for.
#[derive(Clone)]
pub struct Issued {
    /// What the certificate says.
    pub certificate: Certificate,
    /// The certificate.
    pub certificate_pem: String,
    /// Its private key.
    pub key_pem: Zeroizing<String>,
    /// The roots its owner trusts.
    pub roots_pem: String,
}

/// A certificate for a key that its owner keeps.
#[derive(Debug, Clone)]
pub struct Signed {
    /// What the certificate says.
    pub certificate: Certificate,
    /// The certificate.
    pub certificate_pem: String,
    /// The roots to trust, among them the one that signed it.
    pub roots_pem: String,
}

/// A certificate authority of one cluster.
pub struct Authority {
    trust_domain: TrustDomain,
    cluster: ClusterName,
    folder: PathBuf,
    root: CertificateDer<'static>,
    root_pem: String,
    /// Roots that are trusted beside the one that issues: the next one, and former ones.
    others: Vec<CertificateDer<'static>>,
    stage: Stage,
    expires: SystemTime,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Opens the authority kept in `folder`, whosever it is.
    pub fn open(folder: &Path, now: SystemTime) -> Result<Self, AuthorityError> {
        let path = folder.join(AUTHORITY_FILE);
        let stored = disk::read_private(&path, Links::Refuse)?;
        disk::private_folder(folder)?;
        let authority = Self::from_pem(&path, &stored, now)?.with_others(folder)?;
        authority.publish()?;
        Ok(authority)
    }

    /// Opens the authority kept in `folder`, or makes one there.
    pub fn open_or_create(
        folder: &Path,
        trust_domain: &TrustDomain,
        cluster: &ClusterName,
        now: SystemTime,
    ) -> Result<Self, AuthorityError> {
        disk::private_folder(folder)?;
        let path = folder.join(AUTHORITY_FILE);
        let stored = match disk::read_private(&path, Links::Refuse) {
            Err(disk::FileError::Missing { .. }) => {
                let fresh = new_root(trust_domain, cluster, now)?;
                // Somebody may have been quicker; then theirs is the authority.
                disk::write(&path, fresh.as_bytes(), 0o600, Existing::Keep)?;
                disk::read_private(&path, Links::Refuse)?
            }
            read => read?,
        };
        let authority = Self::from_pem(&path, &stored, now)?.with_others(folder)?;
        if (&authority.trust_domain, &authority.cluster) != (trust_domain, cluster) {
            return Err(AuthorityError::OtherCluster {
                path,
                found: authority_uri(&authority.trust_domain, &authority.cluster),
                wanted: authority_uri(trust_domain, cluster),
            });
        }
        authority.publish()?;
        Ok(authority)
    }

    /// The root certificate that issues.
    pub fn root_pem(&self) -> &str {
        &self.root_pem
    }

    /// All roots to trust, the one that issues first.
    pub fn roots_pem(&self) -> String {
        let others = self.others.iter().map(|root| certificate::to_pem(root));
        std::iter::once(self.root_pem.clone()).chain(others).collect()
    }

    /// What a machine that knows nobody recognises the authority by.
    pub fn pin(&self) -> Result<Pin, AuthorityError> {
        Pin::of(&self.root).ok_or(AuthorityError::Broken {
            path: self.folder.join(AUTHORITY_FILE),
            problem: "its certificate is unusable",
        })
    }

    /// Whose it is.
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// Where it is kept.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// When the root ends, and with it all it signed.
    pub fn expires(&self) -> SystemTime {
        self.expires
    }

    /// Makes a key and certifies it.
    pub fn issue(&self, grant: &Grant, validity: Validity) -> Result<Issued, AuthorityError> {
        let key = KeyPair::generate().map_err(AuthorityError::Crypto)?;
        let Signed { certificate, certificate_pem, roots_pem } =
            self.certify(&key, grant, validity)?;
        let key_pem = Zeroizing::new(key.serialize_pem());
        Ok(Issued { certificate, certificate_pem, key_pem, roots_pem })
    }

    /// Certifies the public key of a request (PEM, PKCS #10) under the names of `grant`. Whatever
    /// the request asks for itself is not looked at.
    pub fn sign(
        &self,
        request_pem: &[u8],
        grant: &Grant,
        validity: Validity,
    ) -> Result<Signed, AuthorityError> {
        self.certify(&requested_key(request_pem)?, grant, validity)
    }

    /// What recognises the key of a request that proves to hold it; the reason if it does not.
    pub fn key_of(request_pem: &[u8]) -> Result<Pin, AuthorityError> {
        requested_key(request_pem).map(|key| Pin::of_key(&key.subject_public_key_info()))
    }

    fn certify(
        &self,
        key: &impl PublicKeyData,
        grant: &Grant,
        validity: Validity,
    ) -> Result<Signed, AuthorityError> {
        let Validity { now, lifetime } = validity;
        if lifetime.is_zero() || lifetime > MOST_LIFETIME {
            return Err(AuthorityError::Lifetime { lifetime, most: MOST_LIFETIME });
        }
        let Some(until) = now.checked_add(lifetime).filter(|_| now < self.expires) else {
            return Err(AuthorityError::RootExpired { since: self.expires });
        };
        let identity = Identity {
            trust_domain: self.trust_domain.clone(),
            cluster: self.cluster.clone(),
            role: grant.role,
            name: grant.name.clone(),
        };
        let mut params = CertificateParams::default();
        params.distinguished_name = display_name(&format!("{} {}", grant.role, grant.name));
        params.subject_alt_names = profile::names(&identity, &grant.hosts)?;
        params.extended_key_usages = profile::purposes(grant.role);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.serial_number = Some(random_serial()?);
        params.not_before = back_dated(now).into();
        params.not_after = until.min(self.expires).into();
        let issued = params.signed_by(key, &self.issuer).map_err(AuthorityError::Crypto)?;
        Ok(Signed {
            certificate: Certificate::read(issued.der()).map_err(AuthorityError::Issued)?,
            certificate_pem: issued.pem(),
            roots_pem: self.roots_pem(),
        })
    }

    fn from_pem(path: &Path, stored: &[u8], now: SystemTime) -> Result<Self, AuthorityError> {
        let broken = |problem| AuthorityError::Broken { path: path.to_owned(), problem };
        let root = CertificateDer::from_pem_slice(stored)
            .ok()
            .ok_or_else(|| broken("it holds no root certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(stored)
            .ok()
            .ok_or_else(|| broken("it holds no private key"))?;
        let key =
            KeyPair::try_from(&key).ok().ok_or_else(|| broken("its private key is unusable"))?;
        let parsed =
            certificate::parse(&root).ok().ok_or_else(|| broken("its certificate is unusable"))?;
        if !parsed.is_ca() {
            return Err(broken("its certificate is not that of an authority"));
        }
        if parsed.public_key().raw != key.subject_public_key_info() {
            return Err(broken("its key does not belong to its certificate"));
        }
        let expires = certificate::moment(parsed.validity().not_after)
            .ok()
            .ok_or_else(|| broken("its certificate has no usable end"))?;
        if expires <= now {
            return Err(AuthorityError::RootExpired { since: expires });
        }
        let named = certificate::uris(&parsed).ok().and_then(|uris| match uris.as_slice() {
            [uri] => uri.strip_prefix("spiffe://")?.split_once('/'),
            _ => None,
        });
        let (trust_domain, cluster) = named.ok_or_else(|| broken("its cluster is not named"))?;
        let (Ok(trust_domain), Ok(cluster)) =
            (TrustDomain::new(trust_domain), ClusterName::new(cluster))
        else {
            return Err(broken("the name of its cluster is not a name"));
        };
        let issuer = Issuer::from_ca_cert_der(&root, key).map_err(AuthorityError::Crypto)?;
        let root_pem = certificate::to_pem(&root);
        let folder = path.parent().unwrap_or_else(|| Path::new(".")).to_path_buf();
        let (root, others, stage) = (root.into_owned(), Vec::new(), Stage::Settled);
        Ok(Self { trust_domain, cluster, folder, root, root_pem, others, stage, expires, issuer })
    }

    /// Keeps the copy of the root certificates that others read equal to those in use.
    fn publish(&self) -> Result<(), AuthorityError> {
        let (path, roots) = (self.folder.join(ROOT_FILE), self.roots_pem());
        match disk::read_public(&path) {
            Ok(published) if published.as_slice() == roots.as_bytes() => {}
            _ => {
                disk::write(&path, roots.as_bytes(), 0o644, Existing::Replace)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = authority_uri(&self.trust_domain, &self.cluster);
        f.debug_struct("Authority").field("of", &of).finish_non_exhaustive()
    }
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

fn new_root(
    trust_domain: &TrustDomain,
    cluster: &ClusterName,
    now: SystemTime,
) -> Result<Zeroizing<String>, AuthorityError> {
    let key = KeyPair::generate().map_err(AuthorityError::Crypto)?;
    let uri = authority_uri(trust_domain, cluster);
    let mut params = CertificateParams::default();
    params.distinguished_name = display_name(&format!("Persys authority of {cluster}"));
    // Two roots of one cluster must be told apart while one replaces the other.
    let serial = random_serial()?;
    params.distinguished_name.push(DnType::OrganizationalUnitName, serial.to_string());
    params.serial_number = Some(serial);
    params.subject_alt_names =
        vec![SanType::URI(uri.as_str().try_into().map_err(AuthorityError::Crypto)?)];
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = back_dated(now).into();
    params.not_after = now.checked_add(ROOT_LIFETIME).unwrap_or(now).into();
    let root = params.self_signed(&key).map_err(AuthorityError::Crypto)?;
    let key_pem = Zeroizing::new(key.serialize_pem());
    Ok(Zeroizing::new(format!("{}{}", *key_pem, root.pem())))
}

/// The public key of a request whose sender holds the private one.
fn requested_key(request_pem: &[u8]) -> Result<SubjectPublicKeyInfo, AuthorityError> {
    if request_pem.len() > MOST_REQUEST_BYTES {
        return Err(AuthorityError::Request("is larger than any request"));
    }
    let der = CertificateSigningRequestDer::from_pem_slice(request_pem)
        .ok()
        .ok_or(AuthorityError::Request("is not a PEM certificate request"))?;
    let Ok(([], request)) = X509CertificationRequest::from_der(&der) else {
        return Err(AuthorityError::Request("is not a PKCS #10 certificate request"));
    };
    if request.verify_signature().is_err() {
        let problem = "is not signed with the key it is for, so it proves nothing";
        return Err(AuthorityError::Request(problem));
    }
    let key = SubjectPublicKeyInfo::from_der(request.certification_request_info.subject_pki.raw)
        .ok()
        .ok_or(AuthorityError::Request("has a key of an unknown kind"))?;
    let known = [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ED25519];
    if known.contains(&key.algorithm()) {
        Ok(key)
    } else {
        Err(AuthorityError::Request("has a key that is neither P-256 nor Ed25519"))
    }
}

fn random_serial() -> Result<SerialNumber, AuthorityError> {
    let mut bytes = [0; SERIAL_BYTES];
    let random = aws_lc_rs::default_provider().secure_random;
    match random.fill(&mut bytes) {
        Ok(()) => Ok(SerialNumber::from_slice(&bytes)),
        Err(_) => Err(AuthorityError::Random),
    }
}

fn back_dated(now: SystemTime) -> SystemTime {
    now.checked_sub(BACK_DATED).unwrap_or(now)
}

/// For people and tools that show one line; never decided on.
fn display_name(text: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, text.chars().take(64).collect::<String>());
    name
}

#[cfg(test)]
mod tests;
