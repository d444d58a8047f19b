//! One root replaces another, and nobody notices.
//!
//! ```text
//!   Settled ──prepare──► Prepared ──switch──► Switched ──finish──► Settled
//!   one root             the next is          the next issues,     the former
//!                        trusted, too         the former trusted   is forgotten
//! ```
//!
//! Each step is one file that appears, moves or goes, so that a crash leaves one stage or the next. The
//! key of a former root is gone with the switch: the file that held it now holds the next one.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use super::{AUTHORITY_FILE, Authority, AuthorityError, new_root};
use crate::certificate;
use crate::disk::{self, Existing, FileError, Links};

/// The root that comes next, with its key.
const NEXT_FILE: &str = "next.pem";
/// Roots that issue no more.
const FORMER_FILE: &str = "former.pem";

/// How far a replacement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// One root, trusted and issuing.
    Settled,
    /// The next one is trusted and does not issue yet.
    Prepared,
    /// The next one issues; the former is trusted still.
    Switched,
}

impl Authority {
    /// How far a replacement of the root is.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Makes the next root, to be trusted from now on.
    pub fn prepare(&self, now: SystemTime) -> Result<(), AuthorityError> {
        let fresh = new_root(&self.trust_domain, &self.cluster, now)?;
        let path = self.folder.join(NEXT_FILE);
        disk::write(&path, fresh.as_bytes(), 0o600, Existing::Keep)?;
        self.republish(now)
    }

    /// Issues from the next root from now on.
    pub fn switch(&self, now: SystemTime) -> Result<(), AuthorityError> {
        let (next, path) = (self.folder.join(NEXT_FILE), self.folder.join(AUTHORITY_FILE));
        // It must be one that can issue before it takes the place of one that can.
        Self::from_pem(&next, &disk::read_private(&next, Links::Refuse)?, now)?;
        let former = read_roots(&self.folder.join(FORMER_FILE))?;
        let mut text = self.root_pem.clone();
        text.extend(
            former.iter().filter(|one| **one != self.root).map(|one| certificate::to_pem(one)),
        );
        disk::write(&self.folder.join(FORMER_FILE), text.as_bytes(), 0o644, Existing::Replace)?;
        disk::rename(&next, &path)?;
        self.republish(now)
    }

    /// Trusts former roots no more.
    pub fn finish(&self, now: SystemTime) -> Result<(), AuthorityError> {
        let path = self.folder.join(FORMER_FILE);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(FileError::Write { path, source }.into());
            }
            Ok(()) | Err(_) => {}
        }
        self.republish(now)
    }

    fn republish(&self, now: SystemTime) -> Result<(), AuthorityError> {
        Self::open(&self.folder, now).map(|_| ())
    }

    /// Finds the roots beside the one that issues.
    pub(super) fn with_others(mut self, folder: &Path) -> Result<Self, AuthorityError> {
        let next = folder.join(NEXT_FILE);
        let next = match disk::read_private(&next, Links::Refuse) {
            Err(FileError::Missing { .. }) => None,
            read => {
                let root = CertificateDer::from_pem_slice(&read?).ok();
                let problem = "it holds no root certificate";
                Some(root.ok_or(AuthorityError::Broken { path: next, problem })?)
            }
        };
        let mut former = read_roots(&folder.join(FORMER_FILE))?;
        former.retain(|one| *one != self.root);
        self.stage = match (&next, former.is_empty()) {
            (Some(_), _) => Stage::Prepared,
            (None, false) => Stage::Switched,
            (None, true) => Stage::Settled,
        };
        self.others = next.into_iter().map(CertificateDer::into_owned).chain(former).collect();
        Ok(self)
    }
}

fn read_roots(path: &Path) -> Result<Vec<CertificateDer<'static>>, AuthorityError> {
    let text = match disk::read_public(path) {
        Err(FileError::Missing { .. }) => return Ok(Vec::new()),
        read => read?,
    };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let problem = "it is not a list of certificates";
    found.ok().ok_or(AuthorityError::Broken { path: path.to_owned(), problem })
}
