//! A real provider on this machine, and those who would be somebody else.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use axum::Router;
use axum::routing::get;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use persys_oidc::{Error, Login, Settings, Verifier};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

const AUDIENCE: &str = "persys";

/// A provider that counts how often its keys are fetched.
struct Provider {
    issuer: String,
    jwks: Arc<Mutex<Value>>,
    fetched: Arc<AtomicU64>,
}

fn rsa() -> EncodingKey {
    let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let whole: Pkcs8V1Der<'_> = pair.as_der().unwrap();
    // The key itself stands behind 26 bytes that say that it is one.
    EncodingKey::from_rsa_der(&whole.as_ref()[26..])
}

fn published(key: &EncodingKey, id: &str) -> Value {
    let mut jwk = Jwk::from_encoding_key(key, Algorithm::RS256).unwrap();
    jwk.common.key_id = Some(id.to_owned());
    serde_json::to_value(jwk).unwrap()
}

impl Provider {
    async fn start(keys: Vec<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let jwks = Arc::new(Mutex::new(json!({ "keys": keys })));
        let fetched = Arc::new(AtomicU64::new(0));
        let about = json!({ "issuer": issuer, "jwks_uri": format!("{issuer}/keys") }).to_string();
        let (shown, count) = (Arc::clone(&jwks), Arc::clone(&fetched));
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(move || async move { about }))
            .route(
                "/keys",
                get(move || async move {
                    count.fetch_add(1, Ordering::SeqCst);
                    shown.lock().await.to_string()
                }),
            );
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { issuer, jwks, fetched }
    }

    fn verifier(&self, rest: Duration) -> Verifier {
        Verifier::new(Settings { rest, ..Settings::new(&self.issuer, AUDIENCE) }).unwrap()
    }

    fn claims(&self) -> Value {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        json!({
            "iss": self.issuer, "aud": AUDIENCE, "sub": "ada", "groups": ["ops", "web"],
            "iat": now, "nbf": now - 1, "exp": now + 300,
        })
    }
}

fn signed(claims: &Value, key: &EncodingKey, algorithm: Algorithm, id: Option<&str>) -> String {
    let header = Header { kid: id.map(str::to_owned), ..Header::new(algorithm) };
    encode(&header, claims, key).unwrap()
}

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

fn without(mut claims: Value, name: &str) -> Value {
    claims.as_object_mut().unwrap().remove(name);
    claims
}

#[tokio::test]
async fn a_good_token_tells_who_it_is_and_the_keys_are_fetched_once() {
    let key = rsa();
    let provider = Provider::start(vec![published(&key, "k1")]).await;
    let verifier = provider.verifier(Duration::from_mins(1));
    let ada = Login { user: "ada".to_owned(), groups: vec!["ops".to_owned(), "web".to_owned()] };
    for _ in 0..5 {
        let token = signed(&provider.claims(), &key, Algorithm::RS256, Some("k1"));
        assert_eq!(verifier.verify(&token).await, Ok(ada.clone()));
    }
    assert_eq!(provider.fetched.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn whatever_is_wrong_with_a_token_it_is_refused() {
    let (key, other) = (rsa(), rsa());
    let provider = Provider::start(vec![published(&key, "k1")]).await;
    let verifier = provider.verifier(Duration::from_mins(1));
    let claims = provider.claims();
    let good = |claims: &Value| signed(claims, &key, Algorithm::RS256, Some("k1"));
    let now = claims["iat"].as_u64().unwrap();
    for (what, token) in [
        ("another issuer", good(&with(claims.clone(), "iss", json!("http://127.0.0.1:1")))),
        ("the issuer with a slash", {
            good(&with(claims.clone(), "iss", json!(format!("{}/", provider.issuer))))
        }),
        ("another audience", good(&with(claims.clone(), "aud", json!("persys-other")))),
        ("no audience", good(&without(claims.clone(), "aud"))),
        ("no issuer", good(&without(claims.clone(), "iss"))),
        ("expired", good(&with(claims.clone(), "exp", json!(now - 120)))),
        ("never expires", good(&without(claims.clone(), "exp"))),
        ("not yet good", good(&with(claims.clone(), "nbf", json!(now + 600)))),
        ("another key", signed(&claims, &other, Algorithm::RS256, Some("k1"))),
    ] {
        let refused = verifier.verify(&token).await;
        assert!(matches!(refused, Err(Error::Refused(_))), "{what}: {refused:?}");
    }
    let nobody = verifier.verify(&good(&without(claims.clone(), "sub"))).await;
    assert_eq!(nobody, Err(Error::Nobody("sub".to_owned())));
    let nameless = signed(&claims, &key, Algorithm::RS256, None);
    assert_eq!(verifier.verify(&nameless).await, Err(Error::NoKey));
    for garbage in ["", "a", "a.b.c", "....", &"x".repeat(20_000)] {
        let refused = verifier.verify(garbage).await;
        assert!(matches!(refused, Err(Error::Malformed(_))), "{garbage:.9}: {refused:?}");
    }
}

/// The header says how a token is to be checked; it does not decide it.
#[tokio::test]
async fn a_token_does_not_choose_how_it_is_checked() {
    let key = rsa();
    let jwk = published(&key, "k1");
    let provider = Provider::start(vec![jwk.clone()]).await;
    let verifier = provider.verifier(Duration::from_mins(1));
    let claims = provider.claims();
    // The public key, in every form somebody might try it as a secret.
    let modulus = jwk["n"].as_str().unwrap().to_owned();
    for secret in [modulus.as_bytes(), jwk.to_string().as_bytes(), b""] {
        let hmac = EncodingKey::from_secret(secret);
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            let token = signed(&claims, &hmac, algorithm, Some("k1"));
            assert_eq!(verifier.verify(&token).await, Err(Error::Algorithm));
        }
    }
    // The key is for RS256, as it says of itself.
    let token = signed(&claims, &key, Algorithm::RS512, Some("k1"));
    assert_eq!(verifier.verify(&token).await, Err(Error::Algorithm));
    // No signature at all.
    let good = signed(&claims, &key, Algorithm::RS256, Some("k1"));
    let body = good.split('.').nth(1).unwrap();
    for none in ["eyJhbGciOiJub25lIiwia2lkIjoiazEifQ", "eyJhbGciOiJOT05FIiwia2lkIjoiazEifQ"] {
        for token in [format!("{none}.{body}."), format!("{none}.{body}.c2ln")] {
            let refused = verifier.verify(&token).await;
            assert!(matches!(refused, Err(Error::Malformed(_))), "{refused:?}");
        }
    }
    // A provider that publishes a secret does not make it a key.
    let secret = EncodingKey::from_secret(b"shared");
    let mut shared = Jwk::from_encoding_key(&secret, Algorithm::HS256).unwrap();
    assert!(matches!(shared.algorithm, AlgorithmParameters::OctetKey(_)));
    shared.common.key_id = Some("shared".to_owned());
    let careless = Provider::start(vec![serde_json::to_value(shared).unwrap()]).await;
    let verifier = careless.verifier(Duration::from_mins(1));
    let token = signed(&careless.claims(), &secret, Algorithm::HS256, Some("shared"));
    assert_eq!(verifier.verify(&token).await, Err(Error::Algorithm));
}

#[tokio::test]
async fn an_unknown_key_is_asked_for_and_not_too_often() {
    let (old, new) = (rsa(), rsa());
    let provider = Provider::start(vec![published(&old, "k1")]).await;
    let patient = provider.verifier(Duration::from_mins(1));
    let made_up = signed(&provider.claims(), &new, Algorithm::RS256, Some("k2"));
    for _ in 0..20 {
        assert_eq!(patient.verify(&made_up).await, Err(Error::UnknownKey));
    }
    assert_eq!(provider.fetched.load(Ordering::SeqCst), 1, "nobody makes us ask all the time");

    // The provider takes a new key into use: it is found without anybody's doing.
    *provider.jwks.lock().await = json!({ "keys": [published(&old, "k1"), published(&new, "k2")] });
    let quick = provider.verifier(Duration::ZERO);
    assert!(quick.verify(&made_up).await.is_ok());
}

#[tokio::test]
async fn a_provider_that_lies_or_is_away_is_not_believed() {
    let key = rsa();
    let provider = Provider::start(vec![published(&key, "k1")]).await;
    let token = signed(&provider.claims(), &key, Algorithm::RS256, Some("k1"));
    let claimed = Verifier::new(Settings::new(&format!("{}/", provider.issuer), AUDIENCE)).unwrap();
    let lied = claimed.verify(&token).await;
    assert!(matches!(lied, Err(Error::Provider(_))), "{lied:?}");
    let away = Verifier::new(Settings::new("http://127.0.0.1:1", AUDIENCE)).unwrap();
    assert!(matches!(away.verify(&token).await, Err(Error::Provider(_))));
    *provider.jwks.lock().await = json!({ "keys": [], "padding": "x".repeat(300 * 1024) });
    let flooded = provider.verifier(Duration::ZERO).verify(&token).await;
    assert!(matches!(flooded, Err(Error::Provider(_))), "{flooded:?}");
    for bad in ["", "not an address", "http://issuer.example.com", "ftp://127.0.0.1"] {
        assert!(Verifier::new(Settings::new(bad, AUDIENCE)).is_err(), "{bad:?}");
    }
    assert!(Verifier::new(Settings::new("https://issuer.example.com", "")).is_err());
}
