//! What a certificate says: who it is for, which one it is, and when it is valid.
//!
//! Reading is strict: exactly one URI in the certificate, and it is an identity. A certificate with
//! two could be taken for one by one reader and for the other by the next.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls_pki_types::UnixTime;
use time::OffsetDateTime;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;
use x509_parser::time::ASN1Time;

use crate::mapping::{self, CertificateNames, Mapping, SETTING, Unmapped};
use crate::names::{Identity, IdentityError};

/// Why a certificate says nothing that can be relied on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// Not a certificate.
    #[error("is not an X.509 certificate")]
    Encoding,
    /// No identity, and no mapping that gives one.
    #[error(
        "names nobody: it has no identity URI, so no Persys authority issued it; the setting {SETTING} \
         maps such certificates to roles; its names: {0}"
    )]
    Nameless(Box<CertificateNames>),
    /// A mapping that gives it no identity.
    #[error(transparent)]
    Unmapped(Box<Unmapped>),
    /// More than one.
    #[error("has {0} URIs where exactly one is allowed")]
    Ambiguous(usize),
    /// A URI that is no identity.
    #[error("has a URI that names nobody: {0}")]
    Identity(IdentityError),
}

impl From<Unmapped> for CertificateError {
    fn from(why: Unmapped) -> Self {
        Self::Unmapped(Box::new(why))
    }
}

/// The number its authority gave a certificate, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial(Arc<str>);

impl Serial {
    fn new(bytes: &[u8]) -> Self {
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
        let digits = digits.filter_map(|digit| char::from_digit(u32::from(digit), 16));
        Self(Arc::from(digits.collect::<String>()))
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a certificate says. Whether to believe it was decided before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Who it is for.
    pub identity: Identity,
    /// Which one it is.
    pub serial: Serial,
    /// Valid from.
    pub not_before: SystemTime,
    /// Valid until.
    pub not_after: SystemTime,
    /// Names by which a mapping gave it its identity; none for a certificate with an identity URI.
    pub mapped: Option<Arc<CertificateNames>>,
    /// The chain as it was shown, for [`vouched`](crate::vouched) elsewhere; kept of operators only.
    pub chain: Arc<str>,
}

impl Certificate {
    /// Reads an encoded certificate that carries its identity.
    pub fn read(der: &[u8]) -> Result<Self, CertificateError> {
        Self::read_mapped(der, None)
    }

    /// The same; a certificate without a URI of our form gets its identity from `mapping`.
    pub fn read_mapped(der: &[u8], mapping: Option<&Mapping>) -> Result<Self, CertificateError> {
        let parsed = parse(der)?;
        let uris = uris(&parsed)?;
        let foreign = |mapping: &&Mapping| !uris.iter().any(|uri| mapping.is_own_uri(uri));
        let (identity, mapped) = if let Some(mapping) = mapping.filter(foreign) {
            let (identity, names) = mapping::identity_of(&parsed, mapping)?;
            (identity, Some(names))
        } else {
            mapping.map_or(Ok(()), Mapping::check_own_uri)?;
            (carried(&parsed, &uris)?, None)
        };
        Ok(Self {
            identity,
            serial: Serial::new(parsed.raw_serial()),
            not_before: moment(parsed.validity().not_before)?,
            not_after: moment(parsed.validity().not_after)?,
            mapped,
            chain: Arc::from(""),
        })
    }
}

/// The identity that stands in the certificate itself.
fn carried(parsed: &X509Certificate<'_>, uris: &[&str]) -> Result<Identity, CertificateError> {
    match uris {
        [uri] => Identity::parse(uri).map_err(CertificateError::Identity),
        [] => Err(CertificateError::Nameless(Box::new(CertificateNames::of(parsed)))),
        several => Err(CertificateError::Ambiguous(several.len())),
    }
}

/// Takes a certificate apart; what follows it is not ignored.
pub(crate) fn parse(der: &[u8]) -> Result<X509Certificate<'_>, CertificateError> {
    match X509Certificate::from_der(der) {
        Ok(([], parsed)) => Ok(parsed),
        Ok(_) | Err(_) => Err(CertificateError::Encoding),
    }
}

/// All URIs among its names.
pub(crate) fn uris<'a>(parsed: &'a X509Certificate<'_>) -> Result<Vec<&'a str>, CertificateError> {
    let Ok(names) = parsed.subject_alternative_name() else {
        return Err(CertificateError::Encoding);
    };
    let names = names.map(|extension| extension.value.general_names.as_slice()).unwrap_or_default();
    let uri = |name: &'a GeneralName<'_>| {
        if let GeneralName::URI(uri) = name { Some(*uri) } else { None }
    };
    Ok(names.iter().filter_map(uri).collect())
}

/// A moment as a certificate writes it; none is before 1970.
pub(crate) fn moment(written: ASN1Time) -> Result<SystemTime, CertificateError> {
    let seconds = u64::try_from(written.timestamp()).ok();
    let moment = seconds.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    moment.ok_or(CertificateError::Encoding)
}

/// A certificate as it is kept.
pub(crate) fn to_pem(der: &[u8]) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new("CERTIFICATE", der), config)
}

/// The same moment as the TLS library counts it.
pub(crate) fn unix_time(moment: SystemTime) -> UnixTime {
    UnixTime::since_unix_epoch(moment.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// A moment, for people.
pub fn shown(moment: SystemTime) -> impl fmt::Display {
    let moment = OffsetDateTime::from(moment);
    let (date, (hour, minute, second)) = (moment.date(), moment.time().as_hms());
    format!("{date} {hour:02}:{minute:02}:{second:02} UTC")
}
