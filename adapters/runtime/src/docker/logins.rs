//! Credentials of private registries from a file, as `docker login` writes it:
//!
//! ```json
//! {"auths": {"registry.example:5000": {"auth": "<base64 of user:password>"},
//!            "ghcr.io": {"username": "me", "password": "…"}}}
//! ```
//!
//! The file is read before every pull, so that what is changed counts from then on. Nothing in it is
//! ever printed: a file that cannot be read is named by its path and the place of the fault.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use persys_model::spec::secret::Secret;
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;

use super::image::DOCKER_HUB;
use super::settings::Credentials;

/// Largest file taken.
const MOST_BYTES: u64 = 1024 * 1024;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    auth: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
}

/// Why a file of credentials is of no use for a registry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadLogins {
    #[error("the credentials in {path} cannot be read: {why}")]
    File { path: String, why: String },
    #[error("the entry of {host} in {path} has neither an auth nor a username and a password")]
    Entry { path: String, host: String },
}

/// Who we are to `host` by the file at `path`; `None` if it does not name that host.
pub(super) async fn find(path: &Path, host: &str) -> Result<Option<Credentials>, BadLogins> {
    let named = path.display().to_string();
    let bad = |why: String| BadLogins::File { path: named.clone(), why };
    let mut bytes = Vec::new();
    let file = tokio::fs::File::open(path).await.map_err(|error| bad(error.to_string()))?;
    let mut file = file.take(MOST_BYTES);
    file.read_to_end(&mut bytes).await.map_err(|error| bad(error.to_string()))?;
    let File { auths } = serde_json::from_slice(&bytes)
        .map_err(|error| bad(format!("see line {}, column {}", error.line(), error.column())))?;
    let Some((_, entry)) = auths.iter().find(|(key, _)| host_of(key) == host) else {
        return Ok(None);
    };
    let credentials = credentials(entry);
    credentials.map(Some).ok_or_else(|| BadLogins::Entry { path: named, host: host.to_owned() })
}

/// The host in the name of an entry, which may be a whole address.
fn host_of(key: &str) -> &str {
    let bare = key.split_once("://").map_or(key, |(_, rest)| rest);
    match bare.split('/').next().unwrap_or(bare) {
        "index.docker.io" | "registry-1.docker.io" => DOCKER_HUB,
        host => host,
    }
}

fn credentials(entry: &Entry) -> Option<Credentials> {
    let known = |username: &str, password: &str| {
        let password = Secret::new(password);
        let whole = !username.is_empty() && !password.is_empty();
        whole.then(|| Credentials { username: username.to_owned(), password })
    };
    if !entry.auth.is_empty() {
        let text = String::from_utf8(STANDARD.decode(entry.auth.trim()).ok()?).ok()?;
        let (username, password) = text.split_once(':')?;
        return known(username, password);
    }
    known(&entry.username, &entry.password)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn with(text: &str, host: &str) -> Result<Option<Credentials>, BadLogins> {
        let name = format!("persys-logins-{}-{host}-{}", std::process::id(), text.len());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        let found = find(&path, host).await;
        std::fs::remove_file(&path).unwrap();
        found
    }

    #[tokio::test]
    async fn both_shapes_are_read_and_hosts_are_found_by_any_of_their_names() {
        let text = r#"{"auths": {
            "https://index.docker.io/v1/": {"auth": "bWU6czNjcmV0OnRv", "email": "x@y"},
            "registry.example:5000": {"username": "you", "password": "hush"}},
            "credsStore": "desktop"}"#;
        let hub = with(text, "docker.io").await.unwrap().unwrap();
        assert_eq!((hub.username.as_str(), hub.password.reveal()), ("me", "s3cret:to"));
        let own = with(text, "registry.example:5000").await.unwrap().unwrap();
        assert_eq!((own.username.as_str(), own.password.reveal()), ("you", "hush"));
        assert_eq!(with(text, "ghcr.io").await, Ok(None));
        assert!(!format!("{own:?}").contains("hush"));
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_named_and_never_quoted() {
        for text in ["", "hush", r#"{"auths": {"a.b": "hush"}}"#, r#"{"auths": ["hush"]}"#] {
            let error = with(text, "a.b").await.unwrap_err();
            assert!(matches!(error, BadLogins::File { .. }), "{error}");
            assert!(!error.to_string().contains("hush"), "{error}");
        }
        for entry in
            [r#"{"auth": "hush!"}"#, r#"{"auth": "aHVzaA=="}"#, r#"{"username": "u"}"#, "{}"]
        {
            let error = with(&format!(r#"{{"auths": {{"a.b": {entry}}}}}"#), "a.b").await;
            assert!(matches!(error, Err(BadLogins::Entry { .. })), "{entry}: {error:?}");
        }
        let error = find(Path::new("/nowhere/config.json"), "a.b").await.unwrap_err();
        assert!(error.to_string().contains("/nowhere/config.json"), "{error}");
    }
}
