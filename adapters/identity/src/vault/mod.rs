//! Certificates from Vault's PKI, for those who run one.
//!
//! ```text
//!   login (token, or AppRole) ──► pki/sign/<role> with our request ──► certificate
//!                                  └─ 404, an older server: pki/issue/<role>, which makes the key
//! ```
//!
//! Our key stays here where the server can sign requests. The certificate must carry our identity as a
//! URI; the role in Vault has to allow it (`allowed_uri_sans`). When Vault is away, sealed or tired of
//! our token, what is in the files stays in use and it is tried again.

mod kv;
mod session;
mod wire;

pub use kv::{Engine, KvReader, ReadError, ReadFault};

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use zeroize::Zeroizing;

use crate::credentials::Bundle;
use crate::names::Identity;
use crate::renew::{Answer, IssueError, Issuer};
use session::Session;
use wire::{Failure, Fault, Issued};

/// A text that is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Keeps it.
    pub fn new(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// How we log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// With a token somebody gave us. It is renewed as long as Vault lets it.
    Token(Secret),
    /// As an application.
    AppRole {
        /// Which.
        role_id: String,
        /// Its password.
        secret_id: Secret,
    },
}

/// What is known of a Vault, and who we are to it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its URL.
    pub address: String,
    /// How we log in.
    pub auth: Auth,
    /// Where its PKI is mounted.
    pub mount: String,
    /// The role of that PKI we ask for.
    pub role: String,
    /// How long certificates are to last.
    pub ttl: Duration,
    /// The name of the service, for people.
    pub service: String,
    /// The domain it is in, if any.
    pub domain: Option<String>,
    /// An address it is reached at from outside.
    pub external_ip: Option<IpAddr>,
    /// Who we are.
    pub identity: Identity,
}

/// Settings nobody can use.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadSettings(String);

/// Gets certificates from a Vault.
pub struct VaultIssuer {
    settings: Settings,
    session: Session,
}

impl fmt::Debug for VaultIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VaultIssuer").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl VaultIssuer {
    /// Asks nothing yet.
    pub fn new(settings: Settings) -> Result<Self, BadSettings> {
        let session = Session::new(&settings.address, settings.auth.clone())?;
        Ok(Self { settings, session })
    }

    async fn certificate(&self, request_pem: &str) -> Result<Issued, Failure> {
        let login = self.session.login().await?;
        let wanted = self.wanted();
        let Settings { mount, role, .. } = &self.settings;
        match self.session.vault().sign(&login, (mount, role), &wanted, request_pem).await {
            // Servers that speak only a part of the protocol make the key themselves.
            Err(Failure { fault: Fault::NoSuchPath, .. }) => {
                self.session.vault().issue(&login, (mount, role), &wanted).await
            }
            answered => answered,
        }
    }

    fn wanted(&self) -> wire::Wanted {
        let Settings { service, domain, identity, external_ip, ttl, .. } = &self.settings;
        let common_name = match domain {
            Some(domain) => format!("{service}.{domain}"),
            None => service.clone(),
        };
        let hosts = identity.host_name().into_iter().chain([common_name.clone()]);
        wire::Wanted {
            alt_names: hosts.collect::<Vec<_>>().join(","),
            common_name,
            uri_sans: identity.to_string(),
            ip_sans: external_ip.map(|ip| ip.to_string()).unwrap_or_default(),
            ttl: format!("{}s", ttl.as_secs()),
        }
    }
}

#[async_trait]
impl Issuer for VaultIssuer {
    async fn issue(
        &self,
        _present: Option<&Bundle>,
        request_pem: &str,
    ) -> Result<Answer, IssueError> {
        let mut answered = self.certificate(request_pem).await;
        if let Err(Failure { fault: Fault::Forbidden, .. }) = &answered {
            // What we were logged in with may have been taken back; the next login tells.
            self.session.forget().await;
            answered = self.certificate(request_pem).await;
        }
        let issued = answered.map_err(|failure| match failure.fault {
            Fault::Away => IssueError::Unreachable(failure.text),
            Fault::Forbidden | Fault::NoSuchPath | Fault::Refused => {
                IssueError::Refused(failure.text)
            }
        })?;
        let Issued { certificate, issuing_ca, ca_chain, private_key } = issued;
        let (mut chain, mut roots) = (certificate, String::new());
        let mut above = ca_chain.all();
        if above.is_empty() {
            above.push(issuing_ca);
        }
        for one in above {
            let part = format!("{}\n", one.trim());
            if is_root(part.as_bytes()) {
                roots.push_str(&part);
            } else {
                chain = format!("{}\n{part}", chain.trim());
            }
        }
        if roots.is_empty() {
            let why =
                "Vault names no root: its PKI is signed from elsewhere; add the root to its chain";
            return Err(IssueError::Refused(why.to_owned()));
        }
        let certificate = format!("{}\n", chain.trim());
        Ok(Answer { certificate, roots, key: private_key.map(Zeroizing::new) })
    }

    async fn roots(&self, _present: &Bundle) -> Result<Option<String>, IssueError> {
        Ok(None)
    }
}

fn is_root(text: &[u8]) -> bool {
    pem::parse(text).is_ok_and(|part| {
        crate::certificate::parse(part.contents())
            .is_ok_and(|parsed| parsed.subject().as_raw() == parsed.issuer().as_raw())
    })
}
