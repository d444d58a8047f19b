//! The next certificate for the process that has the authority beside it.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use persys_identity::renew::{Answer, IssueError};
use persys_identity::{Authority, Bundle, Grant, Issuer, Validity, authority};

use crate::office::record;

/// The authority in a folder of this host.
#[derive(Debug, Clone)]
pub struct Local {
    /// Where.
    pub folder: PathBuf,
    /// What is certified.
    pub grant: Grant,
    /// For how long; the usual when not given.
    pub lifetime: Option<Duration>,
}

fn refused(why: &dyn std::fmt::Display) -> IssueError {
    IssueError::Refused(why.to_string())
}

#[async_trait]
impl Issuer for Local {
    async fn issue(
        &self,
        _present: Option<&Bundle>,
        request_pem: &str,
    ) -> Result<Answer, IssueError> {
        let now = SystemTime::now();
        let authority = Authority::open(&self.folder, now).map_err(|why| refused(&why))?;
        let lifetime = self.lifetime.unwrap_or(authority::usual_lifetime(self.grant.role));
        let validity = Validity { now, lifetime };
        let signed = authority.sign(request_pem.as_bytes(), &self.grant, validity);
        let signed = signed.map_err(|why| refused(&why))?;
        record(&authority, &signed.certificate, "issue", now).map_err(|why| refused(&why))?;
        Ok(Answer { certificate: signed.certificate_pem, roots: signed.roots_pem, key: None })
    }

    async fn roots(&self, _present: &Bundle) -> Result<Option<String>, IssueError> {
        let authority = Authority::open(&self.folder, SystemTime::now());
        authority.map(|authority| Some(authority.roots_pem())).map_err(|why| refused(&why))
    }
}
