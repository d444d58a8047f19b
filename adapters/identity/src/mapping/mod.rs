//! Roles for certificates that were made elsewhere and carry no identity URI.
//!
//! An operator writes one file: which certificate name belongs to which role and name. It is consulted
//! only for a certificate that already chains to a configured root and has no identity URI of ours. All
//! rows that match a certificate must agree; a certificate that matches none, or two that disagree, is
//! refused. Revocation is checked afterwards, on the identity that was found.

mod parse;
mod shown;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use parse::Fault;
pub use shown::CertificateNames;

use crate::disk::{self, FileError};
use crate::names::{ClusterName, Identity, Name, Role, TrustDomain, is_label};

/// The setting that names the file, for messages.
pub const SETTING: &str = "tls-names (PERSYS_TLS_NAMES)";
/// Trust domain of mapped identities where the file names none.
const TRUST_DOMAIN: &str = "persys.local";
/// Faults shown in one message.
const MOST_FAULTS_SHOWN: usize = 20;

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MappingError {
    /// It cannot be read, or others could write it.
    #[error(transparent)]
    File(#[from] FileError),
    /// Some of its lines are wrong; all of them are listed.
    #[error("{path}: {}", listed(.faults))]
    Faults {
        /// The file.
        path: PathBuf,
        /// In the order of lines.
        faults: Vec<Fault>,
    },
}

/// A certificate that the file gives no identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unmapped {
    /// No row matches.
    #[error("has no name that {file}, the file of {SETTING}, maps to a role; its names: {names}")]
    NoRow {
        /// The file.
        file: String,
        /// Names of the certificate.
        names: Box<CertificateNames>,
    },
    /// It carries an identity URI, and only mapped names count.
    #[error("carries an identity URI, and {file}, the file of {SETTING}, says `only-mapped`")]
    OwnUri {
        /// The file.
        file: String,
    },
    /// Rows match that say different things.
    #[error(
        "is mapped to {} by line {} and to {} by line {} of {file}, the file of {SETTING}; its names: \
         {names}", .rows.0.1, .rows.0.0, .rows.1.1, .rows.1.0
    )]
    Ambiguous {
        /// The file.
        file: String,
        /// Names of the certificate.
        names: Box<CertificateNames>,
        /// Line and `role/name` of two rows that disagree.
        rows: Box<((usize, String), (usize, String))>,
    },
}

/// A certificate name that a row matches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Pattern {
    CommonName(String),
    Dns(String),
    /// Exactly one label in front of this DNS name.
    DnsBelow(String),
    Address(IpAddr),
    Email(String),
    Uri(String),
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommonName(text) => write!(f, "cn:{text}"),
            Self::Dns(text) => write!(f, "dns:{text}"),
            Self::DnsBelow(text) => write!(f, "dns:*.{text}"),
            Self::Address(address) => write!(f, "ip:{address}"),
            Self::Email(text) => write!(f, "email:{text}"),
            Self::Uri(text) => write!(f, "uri:{text}"),
        }
    }
}

/// The name within a role that a row gives.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RowName {
    Fixed(Name),
    /// The label that the wildcard stood for.
    Label,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    line: usize,
    role: Role,
    name: RowName,
}

/// A mapping file, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    path: PathBuf,
    trust_domain: TrustDomain,
    cluster: ClusterName,
    /// True if certificates that carry an identity URI are refused.
    only_mapped: bool,
    rows: BTreeMap<Pattern, Row>,
}

impl Mapping {
    /// Reads the file. Others must not be able to write it: it hands out roles.
    pub fn load(path: &Path) -> Result<Self, MappingError> {
        let text = disk::read_guarded(path)?;
        Self::parse(path, &text)
    }

    /// Checks the text of a file; every fault is named with its line.
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self, MappingError> {
        let faulty = |faults| MappingError::Faults { path: path.to_owned(), faults };
        let parsed = parse::parse(text).map_err(faulty)?;
        let parse::Parsed { trust_domain, cluster, only_mapped, rows } = parsed;
        Ok(Self { path: path.to_owned(), trust_domain, cluster, only_mapped, rows })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if it maps nothing.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// True for a URI in our own trust domain or of our own form. A certificate with such a URI is known
    /// by it alone and never mapped: another cluster's certificate must not become one of ours.
    pub(crate) fn is_own_uri(&self, uri: &str) -> bool {
        let ours = format!("spiffe://{}", self.trust_domain);
        let below = uri
            .strip_prefix(&ours)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest.starts_with(':'));
        below || Identity::parse(uri).is_ok()
    }

    /// Refuses a certificate that carries an identity URI, where only mapped names count.
    pub(crate) fn check_own_uri(&self) -> Result<(), Unmapped> {
        if self.only_mapped {
            return Err(Unmapped::OwnUri { file: self.path.display().to_string() });
        }
        Ok(())
    }

    /// The identity of a certificate with these names.
    pub fn identity(&self, names: &CertificateNames) -> Result<Identity, Unmapped> {
        let mut found: Option<(usize, Role, Name)> = None;
        for (line, role, name) in self.matches(names) {
            match &found {
                None => found = Some((line, role, name)),
                Some((_, before, called)) if (*before, called) == (role, &name) => {}
                Some((before, other, called)) => {
                    let one = (*before, format!("{other}/{called}"));
                    let two = (line, format!("{role}/{name}"));
                    let (file, names) = (self.path.display().to_string(), Box::new(names.clone()));
                    return Err(Unmapped::Ambiguous { file, names, rows: Box::new((one, two)) });
                }
            }
        }
        let Some((_, role, name)) = found else {
            let (file, names) = (self.path.display().to_string(), Box::new(names.clone()));
            return Err(Unmapped::NoRow { file, names });
        };
        let (trust_domain, cluster) = (self.trust_domain.clone(), self.cluster.clone());
        Ok(Identity { trust_domain, cluster, role, name })
    }

    /// Line, role and name of every row that matches one of the names.
    fn matches(&self, names: &CertificateNames) -> Vec<(usize, Role, Name)> {
        let mut found = Vec::new();
        let mut exact = |pattern: Pattern| {
            if let Some(Row { line, role, name: RowName::Fixed(name) }) = self.rows.get(&pattern) {
                found.push((*line, *role, name.clone()));
            }
        };
        names.common_names.iter().for_each(|name| exact(Pattern::CommonName(name.clone())));
        names.dns.iter().for_each(|name| exact(Pattern::Dns(name.clone())));
        names.addresses.iter().for_each(|address| exact(Pattern::Address(*address)));
        names.emails.iter().for_each(|name| exact(Pattern::Email(name.clone())));
        names.uris.iter().for_each(|name| exact(Pattern::Uri(name.clone())));
        for dns in &names.dns {
            // A wildcard in a certificate is a promise about many hosts and the name of none.
            let Some((label, below)) = dns.split_once('.') else { continue };
            if !is_label(label) {
                continue;
            }
            let row = self.rows.get(&Pattern::DnsBelow(below.to_owned()));
            if let (Some(Row { line, role, .. }), Ok(name)) = (row, Name::new(label)) {
                found.push((*line, *role, name));
            }
        }
        found
    }
}

/// Reads the names of a certificate and asks the mapping for the identity.
pub(crate) fn identity_of(
    parsed: &x509_parser::certificate::X509Certificate<'_>,
    mapping: &Mapping,
) -> Result<(Identity, Arc<CertificateNames>), Unmapped> {
    let names = CertificateNames::of(parsed);
    let identity = mapping.identity(&names)?;
    Ok((identity, Arc::new(names)))
}

fn listed(faults: &[Fault]) -> String {
    let shown = faults.iter().take(MOST_FAULTS_SHOWN).map(ToString::to_string);
    let text = shown.collect::<Vec<_>>().join("; ");
    match faults.len().saturating_sub(MOST_FAULTS_SHOWN) {
        0 => text,
        more => format!("{text}; and {more} more"),
    }
}

#[cfg(test)]
mod tests;
