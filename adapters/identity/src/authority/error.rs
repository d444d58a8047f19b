//! What can go wrong with an authority.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::certificate::{CertificateError, shown};
use crate::disk::FileError;
use crate::names::Role;

/// Why there is no authority, or no certificate from it.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file or folder of its own.
    #[error(transparent)]
    File(#[from] FileError),
    /// The stored root cannot be used.
    #[error("{path} is damaged: {problem}; restore it from a backup")]
    Broken {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        problem: &'static str,
    },
    /// The folder belongs to another cluster.
    #[error(
        "{path} is the authority of {found}, not of {wanted}; give each cluster its own folder"
    )]
    OtherCluster {
        /// Which file.
        path: PathBuf,
        /// Whose it is.
        found: String,
        /// Whose it should be.
        wanted: String,
    },
    /// There is one already, where a new one should be made.
    #[error("{path} is there already; `persys ca rotate` replaces an authority without a gap")]
    Exists {
        /// Which file.
        path: PathBuf,
    },
    /// The root is no longer valid.
    #[error("the root certificate ended on {}; a new authority is needed", shown(*.since))]
    RootExpired {
        /// Since when.
        since: SystemTime,
    },
    /// A life of no length, or a longer one than allowed.
    #[error("a certificate may live up to {most:?}, but not {lifetime:?}")]
    Lifetime {
        /// What was asked for.
        lifetime: Duration,
        /// The limit.
        most: Duration,
    },
    /// The role may not have hosts of its own.
    #[error("a certificate for the role {role} carries no further host, such as {host}")]
    HostRefused {
        /// For whom.
        role: Role,
        /// The first host asked for.
        host: String,
    },
    /// A host in the cluster's own domain, which only roles get.
    #[error("{host} is in the domain of the cluster, whose names go with roles alone")]
    HostReserved {
        /// Which.
        host: String,
    },
    /// Not a DNS name.
    #[error("{host:?} is not a DNS name; its labels may have up to 63 characters, in all 253")]
    HostName {
        /// Which.
        host: String,
    },
    /// A request that cannot be signed.
    #[error("the certificate request {0}")]
    Request(&'static str),
    /// What was issued cannot be read back: a bug here.
    #[error("the issued certificate {0}")]
    Issued(CertificateError),
    /// Making a key or a signature failed.
    #[error("cannot make a key or sign with one")]
    Crypto(#[source] rcgen::Error),
    /// No randomness.
    #[error("the system gives no random numbers")]
    Random,
}
