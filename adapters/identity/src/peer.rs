//! Who is at the other end.
//!
//! A peer is made in two ways only: from a certificate that a handshake has verified, or, on a plain
//! connection of a cluster run without certificates, as the operator `anonymous`, with nothing that
//! proves it.

use std::io;
use std::sync::Arc;

use rustls::{CertificateError as TlsCertificateError, Error as TlsError, OtherError};
use rustls_pki_types::CertificateDer;

use crate::certificate::{Certificate, CertificateError};
use crate::credentials::Bundle;
use crate::listen::ConnectInfo;
use crate::mapping::Mapping;
use crate::names::{ClusterName, Identity, Name, Role};
use crate::revoked::Revoked;
use crate::vouch;

/// Why somebody with a valid certificate is still not let through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// The certificate is of no use as a name.
    #[error("the peer's certificate {0}")]
    Certificate(CertificateError),
    /// Nobody at all.
    #[error("the peer shows no certificate")]
    Nobody,
    /// Of another cluster or trust domain.
    #[error("the peer is {found}, of another cluster than {ours}")]
    OtherCluster {
        /// Who it is.
        found: Identity,
        /// Who we are.
        ours: Identity,
    },
    /// Somebody who is no longer believed.
    #[error("{found} was revoked")]
    Revoked {
        /// Who it is.
        found: Identity,
    },
    /// A certificate that somebody else was shown, and that we would not take.
    #[error("the certificate passed on is not believed: {0}")]
    NotBelieved(String),
    /// Not whom we dialled.
    #[error("the peer is {found}, but {wanted} was dialled")]
    Unexpected {
        /// Who it is.
        found: Identity,
        /// Whom we wanted.
        wanted: String,
    },
}

impl From<PeerError> for TlsError {
    fn from(fault: PeerError) -> Self {
        Self::InvalidCertificate(TlsCertificateError::Other(OtherError(Arc::new(fault))))
    }
}

/// Who is calling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// As what.
    pub role: Role,
    /// Who.
    pub name: Name,
    /// In which cluster.
    pub cluster: ClusterName,
    /// What proves it; nothing on a plain connection.
    pub certificate: Option<Arc<Certificate>>,
}

impl Peer {
    /// The peer of a verified certificate: the one it names, or the one the mapping makes of it.
    pub(crate) fn certified(
        chain: &[CertificateDer<'_>],
        mapping: Option<&Mapping>,
    ) -> Result<Self, PeerError> {
        let first = chain.first().ok_or(PeerError::Nobody)?;
        let read = Certificate::read_mapped(first, mapping);
        let mut certificate = read.map_err(PeerError::Certificate)?;
        let Identity { role, name, cluster, .. } = certificate.identity.clone();
        if role == Role::Operator {
            certificate.chain = Arc::from(vouch::text(chain));
        }
        Ok(Self { role, name, cluster, certificate: Some(Arc::new(certificate)) })
    }

    /// Whoever it is, in a cluster run without certificates.
    pub fn anonymous(cluster: ClusterName) -> Self {
        Self { role: Role::Operator, name: Name::fixed("anonymous"), cluster, certificate: None }
    }

    /// Somebody who has no certificate yet and can do nothing but ask for one.
    pub fn stranger(cluster: ClusterName) -> Self {
        Self { role: Role::User, name: Name::fixed("stranger"), cluster, certificate: None }
    }

    /// Who made a request, when it came through an [`Incoming`](crate::Incoming).
    pub fn of<T>(request: &tonic::Request<T>) -> Option<&Self> {
        request.extensions().get::<ConnectInfo>().map(|info| &info.peer)
    }
}

/// Our own reason within a failed handshake. The TLS library carries it, but shows it to nobody.
pub(crate) fn reason<R>(failure: &io::Error) -> Option<R>
where
    R: std::error::Error + Clone + 'static,
{
    let Some(TlsError::InvalidCertificate(TlsCertificateError::Other(other))) =
        failure.get_ref().and_then(|inner| inner.downcast_ref())
    else {
        return None;
    };
    other.0.downcast_ref().cloned()
}

/// Reads a verified certificate; an error unless it belongs to our cluster and is not revoked.
pub(crate) fn neighbour(
    der: &[u8],
    bundle: &Bundle,
    revoked: &Revoked,
) -> Result<Certificate, PeerError> {
    let read = Certificate::read_mapped(der, bundle.mapping());
    let certificate = read.map_err(PeerError::Certificate)?;
    let (found, ours) = (&certificate.identity, bundle.identity());
    if revoked.has(&certificate) {
        return Err(PeerError::Revoked { found: found.clone() });
    }
    if (&found.trust_domain, &found.cluster) == (&ours.trust_domain, &ours.cluster) {
        Ok(certificate)
    } else {
        Err(PeerError::OtherCluster { found: found.clone(), ours: ours.clone() })
    }
}
