//! Whether a webhook is from whom it says, and what it is about. Nothing here reads or waits.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use axum::http::HeaderMap;

use crate::caller::Secret;
use crate::text::unhex;

/// Longest id of a delivery.
const LONGEST_ID: usize = 128;

/// Who sends webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Provider {
    /// GitHub, and what signs as it does.
    Github,
    /// GitLab.
    Gitlab,
    /// Gitea and Forgejo.
    Gitea,
}

impl Provider {
    /// Its word in paths.
    pub fn word(self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::Gitlab => "gitlab",
            Self::Gitea => "gitea",
        }
    }
}

/// What a webhook says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head<'a> {
    /// Which delivery.
    pub(super) id: &'a str,
    /// What it is about.
    pub(super) event: &'a str,
    /// What proves it.
    proof: &'a str,
}

/// What the headers say, if they say all there is to say.
pub(super) fn head(provider: Provider, headers: &HeaderMap) -> Option<Head<'_>> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let (event, id, proof) = match provider {
        Provider::Github => ("x-github-event", "x-github-delivery", "x-hub-signature-256"),
        Provider::Gitlab => ("x-gitlab-event", "x-gitlab-event-uuid", "x-gitlab-token"),
        Provider::Gitea => ("x-gitea-event", "x-gitea-delivery", "x-gitea-signature"),
    };
    let id = text(id).filter(|id| {
        (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
    })?;
    Some(Head { id, event: text(event)?, proof: text(proof)? })
}

/// Whether one of the secrets proves the body: every one is tried, each in the same time.
pub(super) fn is_proven(
    provider: Provider,
    head: &Head<'_>,
    body: &[u8],
    secrets: &[Secret],
) -> bool {
    let mut proven = false;
    for secret in secrets.iter().map(|secret| secret.reveal().as_bytes()) {
        proven |= !secret.is_empty()
            && match provider {
                Provider::Github => head
                    .proof
                    .strip_prefix("sha256=")
                    .is_some_and(|proof| is_signed(secret, body, proof)),
                Provider::Gitea => is_signed(secret, body, head.proof),
                Provider::Gitlab => verify_slices_are_equal(secret, head.proof.as_bytes()).is_ok(),
            };
    }
    proven
}

fn is_signed(secret: &[u8], body: &[u8], proof: &str) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    unhex(proof).is_some_and(|proof| hmac::verify(&key, body, &proof).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use persys_model::hex::hex;

    fn headers(pairs: &[(&'static str, String)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn sign(secret: &str, body: &[u8]) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        hex(hmac::sign(&key, body).as_ref())
    }

    /// The example that GitHub gives in its own description of signatures.
    #[test]
    fn the_published_example_is_proven() {
        let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let headers = headers(&[
            ("x-github-event", "push".to_owned()),
            ("x-github-delivery", "d1".to_owned()),
            ("x-hub-signature-256", signature.to_owned()),
        ]);
        let head = head(Provider::Github, &headers).unwrap();
        let secret = Secret::new("It's a Secret to Everybody");
        assert!(is_proven(
            Provider::Github,
            &head,
            b"Hello, World!",
            std::slice::from_ref(&secret)
        ));
        assert!(!is_proven(
            Provider::Github,
            &head,
            b"Hello, World?",
            std::slice::from_ref(&secret)
        ));
    }

    #[test]
    fn a_wrong_secret_a_changed_body_and_no_secret_prove_nothing() {
        let body = b"{\"ref\":\"refs/heads/main\"}";
        for provider in [Provider::Github, Provider::Gitlab, Provider::Gitea] {
            let proof = |secret: &str| match provider {
                Provider::Github => {
                    ("x-hub-signature-256", format!("sha256={}", sign(secret, body)))
                }
                Provider::Gitea => ("x-gitea-signature", sign(secret, body)),
                Provider::Gitlab => ("x-gitlab-token", secret.to_owned()),
            };
            let word = provider.word();
            let (event, id) = match provider {
                Provider::Github => ("x-github-event", "x-github-delivery"),
                Provider::Gitlab => ("x-gitlab-event", "x-gitlab-event-uuid"),
                Provider::Gitea => ("x-gitea-event", "x-gitea-delivery"),
            };
            let with = |secret: &str| {
                headers(&[(event, "push".to_owned()), (id, "d1".to_owned()), proof(secret)])
            };
            let ours = [Secret::new("other"), Secret::new("geheim")];
            let (good, bad) = (with("geheim"), with("guess"));
            assert!(is_proven(provider, &head(provider, &good).unwrap(), body, &ours), "{word}");
            assert!(!is_proven(provider, &head(provider, &bad).unwrap(), body, &ours), "{word}");
            assert!(!is_proven(provider, &head(provider, &good).unwrap(), body, &[]), "{word}");
            let empty = with("");
            let nothing = [Secret::new("")];
            assert!(
                !is_proven(provider, &head(provider, &empty).unwrap(), body, &nothing),
                "{word}"
            );
            if provider != Provider::Gitlab {
                let changed = b"{\"ref\":\"refs/heads/evil\"}";
                assert!(
                    !is_proven(provider, &head(provider, &good).unwrap(), changed, &ours),
                    "{word}"
                );
            }
        }
    }

    #[test]
    fn who_does_not_say_which_delivery_it_is_says_nothing() {
        let long = "x".repeat(LONGEST_ID + 1);
        for id in ["", "a b", &long] {
            let headers = headers(&[
                ("x-github-event", "push".to_owned()),
                ("x-github-delivery", id.to_owned()),
                ("x-hub-signature-256", "sha256=00".to_owned()),
            ]);
            assert_eq!(head(Provider::Github, &headers), None, "{id}");
        }
    }
}
