//! The next certificate for somebody who holds the present one.
//!
//! Whoever asks shows the certificate and signs the request with its key: that proves as much as a
//! handshake would, and works also for a while after the certificate has ended, when no handshake
//! would. A request that is heard again gives its sender nothing: the key it is for is not theirs.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ED25519, UnparsedPublicKey};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

use super::{Authority, Grant, Hosts};
use crate::certificate::{self, Certificate, CertificateError, shown};
use crate::names::Identity;
use crate::request::renewal_message;

/// Why somebody gets no next certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenewalRefused {
    /// Not one certificate.
    #[error("what is shown is not a certificate")]
    Encoding,
    /// A certificate of no use.
    #[error("the certificate {0}")]
    Certificate(CertificateError),
    /// Not ours.
    #[error("the certificate was issued by another authority; join again with a token")]
    Foreign,
    /// Of another cluster.
    #[error("the certificate is that of {0}, of another cluster")]
    OtherCluster(Identity),
    /// Too late.
    #[error("the certificate ended on {}, too long ago; join again with a token", shown(*.0))]
    TooLate(SystemTime),
    /// Somebody who only saw the certificate.
    #[error("the request is not signed with the key of the certificate")]
    Proof,
}

impl Authority {
    /// Whose certificate this is, if it may be renewed: what it says, and what the next one is to
    /// say, which is the same.
    pub fn renewable(
        &self,
        certificate_pem: &[u8],
        request_pem: &[u8],
        proof: &[u8],
        (now, grace): (SystemTime, Duration),
    ) -> Result<(Certificate, Grant), RenewalRefused> {
        let der = CertificateDer::from_pem_slice(certificate_pem).ok();
        let der = der.ok_or(RenewalRefused::Encoding)?;
        let certificate = Certificate::read(&der).map_err(RenewalRefused::Certificate)?;
        let parsed = certificate::parse(&der).map_err(RenewalRefused::Certificate)?;
        if !self.issued(&parsed) {
            return Err(RenewalRefused::Foreign);
        }
        let identity = certificate.identity.clone();
        if (&identity.trust_domain, &identity.cluster) != (&self.trust_domain, &self.cluster) {
            return Err(RenewalRefused::OtherCluster(identity));
        }
        let until = certificate.not_after.checked_add(grace).unwrap_or(certificate.not_after);
        if now > until {
            return Err(RenewalRefused::TooLate(certificate.not_after));
        }
        if !proves(&parsed, &renewal_message(request_pem), proof) {
            return Err(RenewalRefused::Proof);
        }
        let hosts = hosts(&parsed, &identity);
        let grant = Grant { role: identity.role, name: identity.name, hosts };
        Ok((certificate, grant))
    }

    /// Whether one of the trusted roots signed it.
    fn issued(&self, parsed: &X509Certificate<'_>) -> bool {
        std::iter::once(&self.root).chain(&self.others).any(|root| {
            certificate::parse(root).is_ok_and(|root| {
                parsed.issuer().as_raw() == root.subject().as_raw()
                    && parsed.verify_signature(Some(root.public_key())).is_ok()
            })
        })
    }
}

fn proves(parsed: &X509Certificate<'_>, message: &[u8], proof: &[u8]) -> bool {
    let key = &parsed.public_key().subject_public_key.data;
    let by = |kind| UnparsedPublicKey::new(kind, key).verify(message, proof).is_ok();
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key).verify(message, proof).is_ok()
        || by(&ED25519)
}

/// The hosts that the authority once granted beside the name of the role.
fn hosts(parsed: &X509Certificate<'_>, identity: &Identity) -> Hosts {
    let own = identity.host_name();
    let mut hosts = Hosts::default();
    let names = parsed.subject_alternative_name().ok().flatten();
    for name in names.map(|names| names.value.general_names.as_slice()).unwrap_or_default() {
        if let GeneralName::DNSName(host) = name {
            if own.as_deref() != Some(*host) {
                hosts.names.push((*host).to_owned());
            }
        } else if let GeneralName::IPAddress(bytes) = name {
            let four = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let address = four.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
            hosts.addresses.extend(address);
        }
    }
    hosts
}
