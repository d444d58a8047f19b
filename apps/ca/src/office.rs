//! What the authority decides: whom to certify, as what, for how long.
//!
//! The folder is opened for every decision, so that a root that was rotated by hand issues from the
//! next moment on, without a restart. What was issued is on the list before it is handed over.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use persys_identity::authority::{AuthorityError, RenewalRefused, Signed};
use persys_identity::issued::{Entry, Ledger};
use persys_identity::token::hash_of;
use persys_identity::{Authority, FileError, Grant, Name, Role, Validity, authority};
use persys_model::join::{Admission, Claim};

use crate::register::{Register, RegisterError};

/// How long after its end a certificate still gets the next one.
pub const GRACE: Duration = Duration::from_hours(72);

/// As what somebody joins with a token; all others are certified by hand.
const JOINING: [Role; 2] = [Role::Agent, Role::Gateway];

/// Why nobody was certified.
#[derive(Debug, thiserror::Error)]
pub enum OfficeError {
    /// The request or the authority's own files are of no use.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The list cannot be kept.
    #[error(transparent)]
    File(#[from] FileError),
    /// The certificate that was shown is not good for another.
    #[error(transparent)]
    Renewal(#[from] RenewalRefused),
    /// The token is not good, or nobody can say at present.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// Somebody who is no longer believed.
    #[error("{0} was revoked; `persys ca reinstate {0}` lets it in again")]
    Revoked(String),
    /// Not a name.
    #[error("{0:?} is not a name for a member")]
    Name(String),
}

/// Where certificates are given out.
pub struct Office {
    folder: PathBuf,
    register: Arc<dyn Register>,
    /// How long certificates last of those who renew by themselves; the usual when not given.
    lifetime: Option<Duration>,
}

impl std::fmt::Debug for Office {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Office").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Office {
    /// That of the authority in `folder`.
    pub fn new(folder: PathBuf, register: Arc<dyn Register>, lifetime: Option<Duration>) -> Self {
        Self { folder, register, lifetime }
    }

    /// The register behind it.
    pub(crate) fn register(&self) -> &Arc<dyn Register> {
        &self.register
    }

    /// The authority as it is now.
    pub fn authority(&self, now: SystemTime) -> Result<Authority, AuthorityError> {
        Authority::open(&self.folder, now)
    }

    /// A machine joins with a token.
    pub async fn join(
        &self,
        (id, secret): (&str, &str),
        request_pem: &str,
        wanted: &str,
        now: SystemTime,
    ) -> Result<Signed, OfficeError> {
        let name = Name::new(wanted).ok().ok_or_else(|| OfficeError::Name(wanted.to_owned()))?;
        // Everything that can be wrong is found before the token is used up.
        let key = Authority::key_of(request_pem.as_bytes())?;
        let authority = self.authority(now)?;
        let ledger = Ledger::of(&self.folder);
        let denied = self.register.denied().await?;
        let (mut taken_as, mut revoked_as) = (Vec::new(), Vec::new());
        for role in JOINING {
            let word: Arc<str> = Arc::from(role.as_str());
            if denied.has_identity(role, &name) {
                revoked_as.push(Arc::clone(&word));
            }
            if ledger.is_held(role, &name, now)? {
                taken_as.push(word);
            }
        }
        let claim = Claim {
            id: Arc::from(id),
            hash: Arc::from(hash_of(secret)),
            key: Arc::from(key.to_string()),
            name: Arc::from(name.as_str()),
            taken_as,
            revoked_as,
        };
        let Admission { role, name } = self.register.redeem(claim).await?;
        let role = Role::parse(&role).ok().ok_or_else(|| OfficeError::Name(role.to_string()))?;
        let name = Name::new(&name).ok().ok_or_else(|| OfficeError::Name(name.to_string()))?;
        self.sign(&authority, request_pem, &Grant::new(role, name), ("join", now))
    }

    /// A member gets its next certificate.
    pub async fn renew(
        &self,
        certificate_pem: &str,
        request_pem: &str,
        proof: &[u8],
        now: SystemTime,
    ) -> Result<Signed, OfficeError> {
        let authority = self.authority(now)?;
        let (shown, request) = (certificate_pem.as_bytes(), request_pem.as_bytes());
        let (certificate, grant) = authority.renewable(shown, request, proof, (now, GRACE))?;
        if self.register.denied().await?.has(&certificate) {
            let identity = &certificate.identity;
            return Err(OfficeError::Revoked(format!("{}/{}", identity.role, identity.name)));
        }
        self.sign(&authority, request_pem, &grant, ("renew", now))
    }

    fn sign(
        &self,
        authority: &Authority,
        request_pem: &str,
        grant: &Grant,
        (how, now): (&str, SystemTime),
    ) -> Result<Signed, OfficeError> {
        let usual = authority::usual_lifetime(grant.role);
        let lifetime = self.lifetime.unwrap_or(usual);
        let validity = Validity { now, lifetime };
        let signed = authority.sign(request_pem.as_bytes(), grant, validity)?;
        record(authority, &signed.certificate, how, now)?;
        Ok(signed)
    }
}

/// Puts a certificate on the list of its authority.
pub fn record(
    authority: &Authority,
    certificate: &persys_identity::Certificate,
    how: &str,
    now: SystemTime,
) -> Result<(), OfficeError> {
    let root: String = authority.pin()?.to_string().chars().take(16).collect();
    let entry = Entry::new(certificate, how, &root, now);
    Ok(Ledger::of(authority.folder()).add(&entry, now)?)
}
