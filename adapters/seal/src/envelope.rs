//! A value in its envelope.
//!
//! ```text
//!   key of the file ── seals ──► data key ── seals ──► value
//!        (few, rotated)          (one per value, never seen outside)
//! ```
//!
//! Both are bound to where they belong: an envelope that is moved under another name does not open.
//! To rotate a key of the file only the data keys are sealed anew.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::{hmac, rand};
use persys_model::hex::hex;
use persys_model::secret::Envelope;
use zeroize::Zeroizing;

use crate::keys::{KEY_BYTES, Key, Keys};

/// What was sealed, wiped when it is dropped.
pub type Opened = Zeroizing<Vec<u8>>;

/// Bytes of a digest that are shown.
const DIGEST_BYTES: usize = 6;

/// Why a value cannot be sealed or opened. It says nothing of the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The file lacks the key.
    #[error(
        "it is sealed with key {key}, which is not in the key file of this scheduler (it has {have}); \
         every scheduler of a cluster needs the same key file"
    )]
    OtherKey {
        /// The key it takes.
        key: Arc<str>,
        /// Those that are there.
        have: String,
    },
    /// The bytes are not what was sealed, or not from here.
    #[error("it was damaged, or sealed under another name or for another cluster")]
    Damaged,
    /// The library failed: no chance to draw from.
    #[error("this machine cannot seal: no randomness")]
    Broken,
}

impl Keys {
    /// Seals `value` with the first key, bound to `place`. The parts of a place are told apart by
    /// their lengths, so that no two places are alike.
    pub fn seal(&self, place: &[&str], value: &[u8]) -> Result<Envelope, SealError> {
        let data_key = fresh()?;
        let body = lock(&data_key[..], &bound(place, "value"), value)?;
        let first = self.first();
        let wrapped = lock(first.bytes(), &bound(place, first.id()), &data_key[..])?;
        Ok(Envelope {
            key: Arc::from(first.id()),
            wrapped: wrapped.into(),
            body: body.into(),
            digest: Arc::from(digest(&data_key[..], value)),
        })
    }

    /// Opens what was sealed for `place`.
    pub fn open(&self, place: &[&str], envelope: &Envelope) -> Result<Opened, SealError> {
        let data_key = self.data_key(place, envelope)?;
        unlock(&data_key, &bound(place, "value"), &envelope.body)
    }

    /// The same value under the first key; `None` if it is already.
    pub fn rewrap(
        &self,
        place: &[&str],
        envelope: &Envelope,
    ) -> Result<Option<Envelope>, SealError> {
        let first = self.first();
        if *envelope.key == *first.id() {
            return Ok(None);
        }
        let data_key = self.data_key(place, envelope)?;
        let wrapped = lock(first.bytes(), &bound(place, first.id()), &data_key)?;
        let key = Arc::from(first.id());
        Ok(Some(Envelope { key, wrapped: wrapped.into(), ..envelope.clone() }))
    }

    fn data_key(&self, place: &[&str], envelope: &Envelope) -> Result<Opened, SealError> {
        let Some(key) = self.find(&envelope.key) else {
            return Err(SealError::OtherKey { key: Arc::clone(&envelope.key), have: self.ids() });
        };
        unlock(key.bytes(), &bound(place, Key::id(key)), &envelope.wrapped)
    }
}

fn fresh() -> Result<Zeroizing<[u8; KEY_BYTES]>, SealError> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    rand::fill(&mut bytes[..]).map_err(broken)?;
    Ok(bytes)
}

/// A mark of the value under its own data key: whoever lacks the key cannot try values against it,
/// and who may set secrets cannot either, since each setting has another key.
fn digest(data_key: &[u8], value: &[u8]) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, data_key), value);
    hex(tag.as_ref().get(..DIGEST_BYTES).unwrap_or_default())
}

fn bound(place: &[&str], last: &str) -> Vec<u8> {
    let mut bytes = b"persys seal 1".to_vec();
    for part in place.iter().chain([&last]) {
        bytes.extend(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        bytes.extend(part.as_bytes());
    }
    bytes
}

/// Nonce, ciphertext, tag.
fn lock(key: &[u8], bound: &[u8], plain: &[u8]) -> Result<Vec<u8>, SealError> {
    let key = RandomizedNonceKey::new(&AES_256_GCM_SIV, key).map_err(broken)?;
    let mut text = plain.to_vec();
    let nonce = key.seal_in_place_append_tag(Aad::from(bound), &mut text).map_err(broken)?;
    let mut out = nonce.as_ref().to_vec();
    out.extend(text);
    Ok(out)
}

fn unlock(key: &[u8], bound: &[u8], sealed: &[u8]) -> Result<Opened, SealError> {
    let key = RandomizedNonceKey::new(&AES_256_GCM_SIV, key).map_err(broken)?;
    let Some((nonce, text)) = sealed.split_first_chunk::<NONCE_LEN>() else {
        return Err(SealError::Damaged);
    };
    let mut text = Zeroizing::new(text.to_vec());
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let opened = key.open_in_place(nonce, Aad::from(bound), &mut text);
    let length = opened.map_err(damaged)?.len();
    text.truncate(length);
    Ok(text)
}

fn broken(_: aws_lc_rs::error::Unspecified) -> SealError {
    SealError::Broken
}

fn damaged(_: aws_lc_rs::error::Unspecified) -> SealError {
    SealError::Damaged
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &[&str] = &["cluster-1", "default", "db"];

    #[test]
    fn what_is_sealed_opens_under_its_name_only() {
        let keys = Keys::fresh().unwrap();
        let sealed = keys.seal(PLACE, b"hunter2").unwrap();
        assert_eq!(&keys.open(PLACE, &sealed).unwrap()[..], b"hunter2");
        for other in [&["cluster-1", "default", "dc"][..], &["cluster-1", "defaultd", "b"], &[]] {
            assert_eq!(keys.open(other, &sealed), Err(SealError::Damaged), "{other:?}");
        }
        let text = format!("{sealed:?}");
        assert!(!text.contains("hunter2"), "{text}");
        let holds = |bytes: &[u8]| bytes.windows(7).any(|window| window == b"hunter2");
        assert!(!holds(&sealed.body) && !holds(&sealed.wrapped));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let keys = Keys::fresh().unwrap();
        let sealed = keys.seal(PLACE, b"v").unwrap();
        for at in 0..sealed.body.len() {
            let mut body = sealed.body.to_vec();
            body[at] ^= 1;
            let bad = Envelope { body: body.into(), ..sealed.clone() };
            assert_eq!(keys.open(PLACE, &bad), Err(SealError::Damaged), "byte {at}");
        }
        for cut in 0..sealed.wrapped.len() {
            let wrapped = sealed.wrapped[..cut].into();
            let bad = Envelope { wrapped, ..sealed.clone() };
            assert_eq!(keys.open(PLACE, &bad), Err(SealError::Damaged), "{cut} bytes");
        }
    }

    #[test]
    fn another_key_file_says_which_key_it_lacks() {
        let (ours, theirs) = (Keys::fresh().unwrap(), Keys::fresh().unwrap());
        let sealed = ours.seal(PLACE, b"v").unwrap();
        let why = theirs.open(PLACE, &sealed).unwrap_err();
        assert_eq!(why, SealError::OtherKey { key: sealed.key.clone(), have: theirs.ids() });
    }

    #[test]
    fn rotation_seals_data_keys_anew_and_old_keys_still_read() {
        let old = Keys::fresh().unwrap();
        let sealed = old.seal(PLACE, b"v").unwrap();
        let both = old.rotated().unwrap();
        assert_eq!(&both.open(PLACE, &sealed).unwrap()[..], b"v");
        let moved = both.rewrap(PLACE, &sealed).unwrap().unwrap();
        assert_eq!((&*moved.key, &moved.digest), (both.first().id(), &sealed.digest));
        assert_eq!(both.rewrap(PLACE, &moved).unwrap(), None);
        assert!(matches!(old.open(PLACE, &moved), Err(SealError::OtherKey { .. })));
        assert_eq!(&both.open(PLACE, &moved).unwrap()[..], b"v");
    }

    #[test]
    fn a_digest_cannot_be_compared_with_a_guess() {
        let keys = Keys::fresh().unwrap();
        let one = keys.seal(PLACE, b"guess").unwrap();
        let two = keys.seal(PLACE, b"guess").unwrap();
        assert_ne!(one.digest, two.digest);
        assert_eq!(one.digest.len(), 2 * DIGEST_BYTES);
    }
}
