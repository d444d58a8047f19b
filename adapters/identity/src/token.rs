//! What a machine that knows nobody joins with.
//!
//! ```text
//!   pst1.<sha256 of the authority's key>.<id>.<secret>
//! ```
//!
//! The first part tells the machine whom to believe, before it says anything; the secret tells the
//! authority that somebody who may invited it. Only a hash of the secret is kept.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use persys_model::hex::{hex, unhex};
use zeroize::Zeroizing;

use crate::certificate;

/// What stands before every token.
const KIND: &str = "pst1";
/// Bytes of an id: enough for tokens never to meet.
const ID_BYTES: usize = 6;
/// Bytes of a secret: nobody guesses 160 bits.
const SECRET_BYTES: usize = 20;

/// What recognises a public key: the SHA-256 of its encoding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pin([u8; 32]);

impl Pin {
    /// That of the key of a certificate.
    pub(crate) fn of(der: &[u8]) -> Option<Self> {
        Some(Self::of_key(certificate::parse(der).ok()?.public_key().raw))
    }

    /// That of an encoded key.
    pub(crate) fn of_key(encoded: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, encoded).as_ref());
        Self(bytes)
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = unhex(text)?;
        Some(Self(bytes.try_into().ok()?))
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({self})")
    }
}

/// What is wrong with a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadToken {
    /// Something else.
    #[error("this is no token: one looks like {KIND}.<hash>.<id>.<secret>")]
    Shape,
    /// A part was lost on the way.
    #[error("the token is not whole; was it copied completely?")]
    Cut,
}

/// A token as it is handed over.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The authority to believe.
    pub pin: Pin,
    /// Which one it is.
    pub id: String,
    secret: Zeroizing<String>,
}

impl Token {
    /// A new one for the authority with this key.
    pub fn generate(pin: Pin) -> Result<Self, getrandom::Error> {
        let (mut id, mut secret) = ([0; ID_BYTES], [0; SECRET_BYTES]);
        getrandom::fill(&mut id)?;
        getrandom::fill(&mut secret)?;
        Ok(Self { pin, id: hex(&id), secret: Zeroizing::new(hex(&secret)) })
    }

    /// The same for another authority: whoever makes one may learn only later for which.
    #[must_use]
    pub fn with_pin(self, pin: Pin) -> Self {
        Self { pin, ..self }
    }

    /// Takes the text apart.
    pub fn parse(text: &str) -> Result<Self, BadToken> {
        let mut parts = text.trim().split('.');
        let (Some(KIND), Some(pin), Some(id), Some(secret), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(BadToken::Shape);
        };
        let whole = |part: &str, bytes| unhex(part).is_some_and(|found| found.len() == bytes);
        let pin = Pin::parse(pin).ok_or(BadToken::Cut)?;
        if !whole(id, ID_BYTES) || !whole(secret, SECRET_BYTES) {
            return Err(BadToken::Cut);
        }
        Ok(Self { pin, id: id.to_owned(), secret: Zeroizing::new(secret.to_owned()) })
    }

    /// The secret, for the authority it belongs to and nobody else.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The whole of it, to be handed over.
    pub fn text(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{KIND}.{}.{}.{}", self.pin, self.id, *self.secret))
    }

    /// What is kept of the secret.
    pub fn hash(&self) -> String {
        hash_of(&self.secret)
    }
}

/// What is kept of a secret.
pub fn hash_of(secret: &str) -> String {
    hex(digest(&SHA256, secret.as_bytes()).as_ref())
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_being_copied_and_nothing_less_does() {
        let token = Token::generate(Pin([7; 32])).unwrap();
        let text = token.text();
        assert_eq!(Token::parse(&format!("  {}\n", *text)).unwrap(), token);
        assert_eq!(token.hash(), hash_of(token.secret()));
        for cut in 1..text.len() {
            assert!(Token::parse(&text[..cut]).is_err(), "{cut}");
        }
        for bad in ["", "pst1", "pst2.a.b.c", "pst1.a.b.c", "pst1....", "a.b.c.d.e"] {
            assert!(Token::parse(bad).is_err(), "{bad}");
        }
        assert!(!format!("{token:?}").contains(token.secret()));
    }
}
