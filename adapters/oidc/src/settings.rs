//! What is known of a provider.

use std::path::PathBuf;
use std::time::Duration;

/// Longest wait for the provider.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What is known of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Its name, as tokens carry it: an address.
    pub issuer: String,
    /// Whom its tokens must be for.
    pub audience: String,
    /// The claim that names the user.
    pub user_claim: String,
    /// The claim that lists their groups.
    pub groups_claim: String,
    /// File with roots to trust beside the system's, PEM.
    pub roots: Option<PathBuf>,
    /// How long the provider is left alone after it was asked.
    pub rest: Duration,
}

impl Settings {
    /// The usual way to read the tokens of `issuer` that are for `audience`.
    #[must_use]
    pub fn new(issuer: &str, audience: &str) -> Self {
        Self {
            issuer: issuer.to_owned(),
            audience: audience.to_owned(),
            user_claim: "sub".to_owned(),
            groups_claim: "groups".to_owned(),
            roots: None,
            rest: Duration::from_secs(30),
        }
    }

    pub(crate) fn client(&self) -> Result<reqwest::Client, BadSettings> {
        let url = reqwest::Url::parse(&self.issuer);
        let url = url.map_err(|why| BadSettings::Issuer(why.to_string()))?;
        if !is_safe(&url) {
            return Err(BadSettings::Plain);
        }
        if self.audience.is_empty() || self.user_claim.is_empty() {
            return Err(BadSettings::Missing);
        }
        let mut client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(TIMEOUT);
        if let Some(path) = &self.roots {
            let pem = std::fs::read(path).map_err(|why| BadSettings::Roots(why.to_string()))?;
            let roots = reqwest::Certificate::from_pem_bundle(&pem);
            let roots = roots.map_err(|why| BadSettings::Roots(why.to_string()))?;
            client = client.tls_certs_merge(roots);
        }
        client.build().map_err(|why| BadSettings::Roots(why.to_string()))
    }
}

/// Only over TLS, but for a provider on this machine.
pub(crate) fn is_safe(url: &reqwest::Url) -> bool {
    let here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    url.scheme() == "https" || (url.scheme() == "http" && here)
}

/// Settings that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    /// The issuer is not an address.
    #[error("the issuer is not an address: {0}")]
    Issuer(String),
    /// The issuer would be asked in the open.
    #[error("the issuer must be https")]
    Plain,
    /// Audience or claim are empty.
    #[error("the audience and the claim that names the user must be given")]
    Missing,
    /// The roots cannot be read.
    #[error("the roots cannot be used: {0}")]
    Roots(String),
}
