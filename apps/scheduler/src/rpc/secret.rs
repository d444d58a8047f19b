//! Tokens as users hold them: `pu1.<id>.<secret>`.
//!
//! The id finds the record, the secret proves the token. The secret has 256 bits of chance, so that
//! its plain hash is all that has to be kept, and it is compared without telling how far it fits.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use persys_model::entry::{Entries, TokenHash, UserToken};
use persys_model::hex::hex;
use persys_model::id::EntryName;
use persys_model::time::WallMillis;

/// What every token of ours begins with.
pub(super) const PREFIX: &str = "pu1.";
/// Longest token that is looked at.
const MOST_BYTES: usize = 256;

/// A new token: its id, what its user is given, and what is kept of it.
pub(super) struct Fresh {
    pub(super) id: EntryName,
    pub(super) text: String,
    pub(super) hash: TokenHash,
}

/// Draws a token.
pub(super) fn draw() -> Result<Fresh, getrandom::Error> {
    let (mut id, mut secret) = ([0; 6], [0; 32]);
    getrandom::fill(&mut id)?;
    getrandom::fill(&mut secret)?;
    let (id, secret) = (hex(&id), hex(&secret));
    let text = format!("{PREFIX}{id}.{secret}");
    let hash = hash(&secret);
    // Digits in hex are a name.
    let id = EntryName::new(&id).unwrap_or_else(|_| EntryName::fixed("token"));
    Ok(Fresh { id, text, hash })
}

/// The record of a token that is good now.
pub(super) fn find<'e>(
    text: &str,
    entries: &'e Entries,
    now: WallMillis,
) -> Result<&'e UserToken, &'static str> {
    const UNKNOWN: &str = "the token is not known: it may have been revoked";
    let parts = text.strip_prefix(PREFIX).filter(|_| text.len() <= MOST_BYTES);
    let (id, secret) = parts.and_then(|rest| rest.split_once('.')).ok_or("is not a token")?;
    let token = EntryName::new(id).ok().and_then(|id| entries.user_token(&id)).ok_or(UNKNOWN)?;
    if verify_slices_are_equal(&hash(secret).0, &token.hash.0).is_err() {
        return Err(UNKNOWN);
    }
    if now >= token.expires_at {
        return Err("the token has expired; have a new one made");
    }
    Ok(token)
}

fn hash(secret: &str) -> TokenHash {
    let mut bytes = [0; 32];
    for (to, from) in bytes.iter_mut().zip(digest(&SHA256, secret.as_bytes()).as_ref()) {
        *to = *from;
    }
    TokenHash(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use persys_model::entry::{Entry, Scope, UserRole};
    use persys_model::id::SubjectName;

    use super::*;

    #[test]
    fn a_token_is_good_until_it_expires_and_nothing_like_it_is() {
        let Fresh { id, text, hash } = draw().unwrap();
        let token = UserToken {
            id,
            user: SubjectName::new("ada").unwrap(),
            hash,
            role: UserRole::Viewer,
            scope: Scope::Cluster,
            created_at: WallMillis(0),
            expires_at: WallMillis(100),
        };
        let entries: Entries = [Arc::new(Entry::UserToken(token.clone()))].into_iter().collect();
        assert_eq!(find(&text, &entries, WallMillis(99)), Ok(&token));
        assert!(find(&text, &entries, WallMillis(100)).unwrap_err().contains("expired"));
        assert!(find(&text, &Entries::default(), WallMillis(1)).is_err(), "revoked");
        let mut other = text.clone();
        other.pop();
        for bad in [&other, &format!("{text}0"), "", "pu1.", "pu1..", "pu1.x.y", "pu2.a.b"] {
            assert!(find(bad, &entries, WallMillis(1)).is_err(), "{bad}");
        }
        assert!(!format!("{token:?}").contains(text.rsplit('.').next().unwrap()));
        assert!(text.len() > 64, "the secret has more than 128 bits");
    }
}
