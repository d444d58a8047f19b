//! The keys a provider publishes.

use std::collections::BTreeMap;
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use tokio::time::Instant;

use crate::Error;
use crate::settings::{Settings, is_safe};

/// Largest document that is read.
const MOST_BYTES: usize = 256 * 1024;
/// Most keys that are kept.
const MOST_KEYS: usize = 64;
/// After so long the keys are asked for anew.
const FRESH: Duration = Duration::from_mins(10);
/// So long they are used while the provider does not answer.
const USABLE: Duration = Duration::from_hours(24);

const RSA: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// Whether tokens may be signed with it: with public keys alone. A shared secret would make whoever
/// can check a token able to make one.
pub(crate) fn allowed(algorithm: Algorithm) -> bool {
    let elliptic = [Algorithm::ES256, Algorithm::ES384, Algorithm::EdDSA];
    RSA.contains(&algorithm) || elliptic.contains(&algorithm)
}

/// Keys by their ids, each with the algorithms it may be used with.
#[derive(Debug)]
pub(crate) struct Keys {
    by_id: BTreeMap<String, (Vec<Algorithm>, DecodingKey)>,
    at: Instant,
}

impl Keys {
    pub(crate) fn get(&self, id: &str) -> Option<&(Vec<Algorithm>, DecodingKey)> {
        self.by_id.get(id)
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.at.elapsed() < FRESH
    }

    pub(crate) fn is_usable(&self) -> bool {
        self.at.elapsed() < USABLE
    }
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

/// Asks a provider for its keys.
pub(crate) async fn fetch(client: &reqwest::Client, settings: &Settings) -> Result<Keys, Error> {
    let issuer = settings.issuer.trim_end_matches('/');
    let at = format!("{issuer}/.well-known/openid-configuration");
    let found: Discovery = read(client, &at).await?;
    if found.issuer != settings.issuer {
        return Err(Error::Provider("it says that it is another issuer".to_owned()));
    }
    let url = reqwest::Url::parse(&found.jwks_uri).ok().filter(is_safe);
    let url = url.ok_or_else(|| Error::Provider("its keys are at no safe address".to_owned()))?;
    let set: JwkSet = read(client, url.as_str()).await?;
    let mut by_id = BTreeMap::new();
    for jwk in set.keys.iter().take(MOST_KEYS) {
        if let (Some(id), Some(use_with)) = (&jwk.common.key_id, algorithms(jwk))
            && let Ok(key) = DecodingKey::from_jwk(jwk)
        {
            by_id.insert(id.clone(), (use_with, key));
        }
    }
    Ok(Keys { by_id, at: Instant::now() })
}

/// What a key may be used with: its own algorithm where it names one, else those of its kind.
/// Nothing where it is a shared secret, or not for signatures.
fn algorithms(jwk: &Jwk) -> Option<Vec<Algorithm>> {
    if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return None;
    }
    let of_kind = if let AlgorithmParameters::RSA(_) = &jwk.algorithm {
        RSA.to_vec()
    } else if let AlgorithmParameters::EllipticCurve(key) = &jwk.algorithm {
        let known =
            [(EllipticCurve::P256, Algorithm::ES256), (EllipticCurve::P384, Algorithm::ES384)];
        let fitting = known.iter().find(|(curve, _)| *curve == key.curve);
        fitting.map(|(_, algorithm)| vec![*algorithm])?
    } else if let AlgorithmParameters::OctetKeyPair(_) = &jwk.algorithm {
        vec![Algorithm::EdDSA]
    } else {
        return None;
    };
    match jwk.common.key_algorithm {
        None => Some(of_kind),
        Some(named) => {
            let named: Algorithm = named.to_string().parse().ok()?;
            of_kind.contains(&named).then(|| vec![named])
        }
    }
}

/// One document, no larger than it may be.
async fn read<T: serde::de::DeserializeOwned>(
    client: &reqwest::Client,
    at: &str,
) -> Result<T, Error> {
    let failed = |why: reqwest::Error| Error::Provider(why.without_url().to_string());
    let mut response = client.get(at).send().await.map_err(failed)?;
    if !response.status().is_success() {
        return Err(Error::Provider(format!("it answers {}", response.status())));
    }
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(failed)? {
        if bytes.len() + piece.len() > MOST_BYTES {
            return Err(Error::Provider(format!("it sends more than {MOST_BYTES} bytes")));
        }
        bytes.extend_from_slice(&piece);
    }
    serde_json::from_slice(&bytes).map_err(|why| Error::Provider(why.to_string()))
}
