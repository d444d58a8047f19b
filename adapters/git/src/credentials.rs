//! Tokens of private repositories from a file, as git's own `store` keeps them:
//!
//! ```text
//! https://me:token@git.example
//! https://robot:token@git.example:8443
//! ```
//!
//! A token goes to the host it is named for and to no other. The file is read before every fetch, so
//! that what is changed counts from then on, and nothing in it is ever printed.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use persys_model::spec::secret::Secret;

use crate::error::Error;

/// Largest file taken.
const MOST_BYTES: u64 = 256 * 1024;
/// Permissions of group and others.
const OTHERS: u32 = 0o077;

/// What proves who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    user: String,
    token: Secret,
}

impl Token {
    /// The line of a request that proves it.
    pub(crate) fn header(&self) -> String {
        let pair = format!("{}:{}", self.user, self.token.reveal());
        format!("Authorization: Basic {}", STANDARD.encode(pair))
    }

    /// All that must not be repeated.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let header = self.header();
        let packed = header.rsplit(' ').next().unwrap_or_default().to_owned();
        vec![self.token.reveal().to_owned(), packed]
    }
}

/// The token for `origin`, such as `https://git.example:8443`, by the file at `path`.
pub(crate) fn find(path: &Path, origin: &str) -> Result<Option<Token>, Error> {
    let bad = |why: String| Error::Setup {
        what: format!("the credentials in {} cannot be used: {why}", path.display()),
    };
    let about = std::fs::metadata(path).map_err(|error| bad(error.to_string()))?;
    if about.mode() & OTHERS != 0 {
        return Err(bad("others may read it; `chmod 600` it".to_owned()));
    }
    if about.len() > MOST_BYTES {
        return Err(bad(format!("it has more than {MOST_BYTES} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
    for (nth, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (at, token) = entry(line).ok_or_else(|| {
            bad(format!("line {} is not https://user:token@host", nth.saturating_add(1)))
        })?;
        if at == origin {
            return Ok(Some(token));
        }
    }
    Ok(None)
}

fn entry(line: &str) -> Option<(String, Token)> {
    let (scheme, rest) = line.split_once("://")?;
    let (pair, host) = rest.trim_end_matches('/').rsplit_once('@')?;
    let (user, token) = pair.split_once(':')?;
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    let sound = matches!(scheme, "https" | "http") && plain(user) && plain(token) && plain(host);
    let token = Token { user: user.to_owned(), token: Secret::new(token) };
    (sound && !host.contains('/')).then(|| (format!("{scheme}://{host}"), token))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_is_for_its_host_alone_and_is_never_printed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, "# ours\nhttps://me:s3cret@git.test\n\nhttps://r:t@git.test:8443/\n")
            .unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(find(&path, "https://git.test").unwrap_err().to_string().contains("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let token = find(&path, "https://git.test").unwrap().unwrap();
        assert_eq!(token.header(), "Authorization: Basic bWU6czNjcmV0");
        assert!(!format!("{token:?}").contains("s3cret"));
        assert!(find(&path, "https://git.test:8443").unwrap().is_some());
        assert_eq!(find(&path, "http://git.test").unwrap(), None);
        assert_eq!(find(&path, "https://evil.test").unwrap(), None);
        std::fs::write(&path, "me s3cret\n").unwrap();
        let error = find(&path, "https://git.test").unwrap_err().to_string();
        assert!(error.contains("line 1") && !error.contains("s3cret"), "{error}");
    }
}
