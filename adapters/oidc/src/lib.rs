//! Logins: tokens that an `OpenID` provider signed, checked against its published keys.
//!
//! ```text
//!   token ──► header: algorithm on the list? key named? ──► keys ──► signature, issuer, audience,
//!                                                             ▲      expiry, not before ──► Login
//!                    unknown key, and not asked lately ──► fetch
//! ```
//!
//! What is believed is settled here and not by the token: the algorithms are those with public keys,
//! a key is used with its own algorithm, and issuer and audience are compared as a whole. What the
//! provider sends is read within limits, over one address that follows from the issuer, and nobody
//! can have it fetched more often than twice a minute.

mod keys;
mod settings;

use std::sync::Arc;

use jsonwebtoken::{Validation, decode, decode_header};
use serde_json::{Map, Value};
use tokio::sync::RwLock;
use tokio::time::Instant;

pub use settings::{BadSettings, Settings};

use keys::{Keys, allowed};

/// Longest token that is looked at.
const MOST_TOKEN_BYTES: usize = 16 * 1024;
/// Most groups of one user.
const MOST_GROUPS: usize = 256;
/// How far clocks may differ, in seconds.
const LEEWAY_SECONDS: u64 = 30;

/// Who logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The user, by the claim that names them.
    pub user: String,
    /// Their groups.
    pub groups: Vec<String>,
}

/// Why a token is not believed. Nothing of the token is quoted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is no token at all.
    #[error("is not a token of a login: {0}")]
    Malformed(String),
    /// Its algorithm is not on the list, or not that of its key.
    #[error("is signed with an algorithm that is not accepted")]
    Algorithm,
    /// It does not say with which key it is signed.
    #[error("does not name its key")]
    NoKey,
    /// Nobody knows that key.
    #[error("is signed with a key that the provider does not publish")]
    UnknownKey,
    /// Signature, issuer, audience or times are not as they must be.
    #[error("is not good: {0}")]
    Refused(String),
    /// It says nothing, or nothing usable, about who it is for.
    #[error("has no claim {0:?} that names a user")]
    Nobody(String),
    /// The provider's keys cannot be had.
    #[error("the provider cannot be asked: {0}")]
    Provider(String),
}

/// Checks tokens of one provider.
#[derive(Debug)]
pub struct Verifier {
    settings: Settings,
    client: reqwest::Client,
    keys: RwLock<Option<Arc<Keys>>>,
    /// When the provider was last asked; whoever holds it asks.
    asked: tokio::sync::Mutex<Option<Instant>>,
}

impl Verifier {
    /// A verifier; nothing is fetched before the first token.
    pub fn new(settings: Settings) -> Result<Self, BadSettings> {
        let client = settings.client()?;
        Ok(Self { settings, client, keys: RwLock::default(), asked: tokio::sync::Mutex::default() })
    }

    /// Who a token is for, if it is good now.
    pub async fn verify(&self, token: &str) -> Result<Login, Error> {
        if token.len() > MOST_TOKEN_BYTES {
            return Err(Error::Malformed(format!("it is longer than {MOST_TOKEN_BYTES} bytes")));
        }
        let header = decode_header(token).map_err(|why| Error::Malformed(why.to_string()))?;
        if !allowed(header.alg) {
            return Err(Error::Algorithm);
        }
        let id = header.kid.ok_or(Error::NoKey)?;
        let keys = self.keys_with(&id).await?;
        let (algorithm, key) = keys.get(&id).ok_or(Error::UnknownKey)?;
        if !algorithm.contains(&header.alg) {
            return Err(Error::Algorithm);
        }
        let mut validation = Validation::new(header.alg);
        validation.set_issuer(&[self.settings.issuer.as_str()]);
        validation.set_audience(&[self.settings.audience.as_str()]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.validate_nbf = true;
        validation.leeway = LEEWAY_SECONDS;
        let checked = decode::<Map<String, Value>>(token, key, &validation);
        let claims = checked.map_err(|why| Error::Refused(why.to_string()))?.claims;
        self.login(&claims)
    }

    fn login(&self, claims: &Map<String, Value>) -> Result<Login, Error> {
        let named = self.settings.user_claim.as_str();
        // An address counts only where the provider says that it is the user's.
        let unproven = named == "email"
            && claims.get("email_verified").is_some_and(|proven| *proven != Value::Bool(true));
        let user = claims.get(named).and_then(Value::as_str).filter(|user| !user.is_empty());
        let user = user.filter(|_| !unproven).ok_or_else(|| Error::Nobody(named.to_owned()))?;
        let groups = match claims.get(&self.settings.groups_claim) {
            Some(Value::Array(all)) => {
                let texts = all.iter().filter_map(Value::as_str).map(str::to_owned);
                texts.take(MOST_GROUPS).collect()
            }
            Some(_) | None => Vec::new(),
        };
        Ok(Login { user: user.to_owned(), groups })
    }

    /// The provider's keys; asked for anew where `id` is not among them, or they are old.
    async fn keys_with(&self, id: &str) -> Result<Arc<Keys>, Error> {
        let known = self.keys.read().await.clone();
        if let Some(keys) = known.as_ref().filter(|keys| keys.is_fresh() && keys.get(id).is_some())
        {
            return Ok(Arc::clone(keys));
        }
        let mut asked = self.asked.lock().await;
        let known = self.keys.read().await.clone();
        if let Some(keys) = known.as_ref().filter(|keys| keys.is_fresh() && keys.get(id).is_some())
        {
            return Ok(Arc::clone(keys));
        }
        let lately = asked.is_some_and(|at| at.elapsed() < self.settings.rest);
        let usable = known.filter(|keys| keys.is_usable());
        if lately {
            return usable.ok_or_else(|| Error::Provider("it did not answer lately".to_owned()));
        }
        *asked = Some(Instant::now());
        match keys::fetch(&self.client, &self.settings).await {
            Ok(keys) => {
                let keys = Arc::new(keys);
                *self.keys.write().await = Some(Arc::clone(&keys));
                Ok(keys)
            }
            // Keys of before are good for a while: a provider that is away locks nobody out at once.
            Err(why) => usable.ok_or(why),
        }
    }
}
