//! The keys of a file: the first seals, all open.
//!
//! ```text
//!   # keys of secrets; the first one writes, all read
//!   3f6a91c0 mFh1...=
//!   90d2e7aa Kq0v...=
//! ```
//!
//! A key is named after what it is, so that a file with another key under a known name cannot be.

use std::path::{Path, PathBuf};

use aws_lc_rs::{digest, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use persys_model::hex::hex;
use zeroize::{Zeroize as _, Zeroizing};

use crate::envelope::SealError;
use crate::file;

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 32;
/// Most keys a file may have: they are only kept until everything is sealed anew.
const MOST_KEYS: usize = 32;

const TITLE: &str =
    "# keys of secrets; the first one writes, all read; keep it secret, keep a copy\n";

/// One key.
#[derive(Clone)]
pub(crate) struct Key {
    id: String,
    bytes: Zeroizing<[u8; KEY_BYTES]>,
}

impl Key {
    fn new(bytes: Zeroizing<[u8; KEY_BYTES]>) -> Self {
        let mut named = Zeroizing::new(b"persys key name".to_vec());
        named.extend(&bytes[..]);
        let hash = digest::digest(&digest::SHA256, &named);
        let id = hex(hash.as_ref().get(..4).unwrap_or_default());
        Self { id, bytes }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..]
    }
}

/// The keys of a file. Printing shows only their names.
#[derive(Clone)]
pub struct Keys {
    first: Key,
    others: Vec<Key>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "keys {}", self.ids())
    }
}

impl Keys {
    /// One new key.
    pub fn fresh() -> Result<Self, SealError> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        rand::fill(&mut bytes[..]).map_err(|_unspecified| SealError::Broken)?;
        Ok(Self { first: Key::new(bytes), others: Vec::new() })
    }

    /// These keys after a new one, which writes from now on. The oldest go when they are too many.
    pub fn rotated(&self) -> Result<Self, SealError> {
        let mut fresh = Self::fresh()?;
        fresh.others.push(self.first.clone());
        fresh.others.extend(self.others.iter().cloned());
        fresh.others.truncate(MOST_KEYS - 1);
        Ok(fresh)
    }

    /// The names of the keys, the first one first.
    #[must_use]
    pub fn ids(&self) -> String {
        let all: Vec<&str> = self.all().map(Key::id).collect();
        all.join(", ")
    }

    /// The name of the key that writes.
    #[must_use]
    pub fn writes_with(&self) -> &str {
        self.first.id()
    }

    /// Whether a key of this name is among them.
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        self.find(id).is_some()
    }

    pub(crate) fn first(&self) -> &Key {
        &self.first
    }

    pub(crate) fn find(&self, id: &str) -> Option<&Key> {
        self.all().find(|key| key.id == id)
    }

    fn all(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut keys = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let (line, number) = (line.trim(), at + 1);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let encoded = line.split_whitespace().nth(1);
            let encoded = encoded.ok_or(format!("line {number} is not a name and a key"))?;
            let mut decoded = STANDARD
                .decode(encoded)
                .map_err(|_quoted| format!("the key in line {number} is not base64"))?;
            let bytes: Option<[u8; KEY_BYTES]> = decoded.as_slice().try_into().ok();
            decoded.zeroize();
            let bytes =
                bytes.ok_or(format!("the key in line {number} is not {KEY_BYTES} bytes"))?;
            let key = Key::new(Zeroizing::new(bytes));
            if !line.starts_with(key.id()) {
                return Err(format!("the key in line {number} is not the one its name says"));
            }
            keys.push(key);
        }
        if keys.len() > MOST_KEYS {
            return Err(format!("it has more than {MOST_KEYS} keys"));
        }
        let mut keys = keys.into_iter();
        let first = keys.next().ok_or("it has no key")?;
        Ok(Self { first, others: keys.collect() })
    }

    fn text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(TITLE.to_owned());
        for key in self.all() {
            let encoded = Zeroizing::new(STANDARD.encode(key.bytes()));
            text.push_str(key.id());
            text.push(' ');
            text.push_str(&encoded);
            text.push('\n');
        }
        text
    }
}

/// Why the keys cannot be had. It never shows what is in the file.
#[derive(Debug, thiserror::Error)]
#[error("key file {}: {why}", path.display())]
pub struct KeyFileError {
    path: PathBuf,
    why: String,
}

/// Where keys are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFile {
    path: PathBuf,
}

impl KeyFile {
    /// The file at `path`, which need not be there yet.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The keys; `None` if there is no file. One that others can read, or that is no key file, is
    /// an error: it is never replaced.
    pub fn read(&self) -> Result<Option<Keys>, KeyFileError> {
        let Some(text) = file::read(&self.path).map_err(|why| self.error(why))? else {
            return Ok(None);
        };
        Keys::parse(&text).map(Some).map_err(|why| self.error(why))
    }

    /// The keys, made now if there is no file.
    pub fn read_or_make(&self) -> Result<Keys, KeyFileError> {
        if let Some(keys) = self.read()? {
            return Ok(keys);
        }
        let keys = Keys::fresh().map_err(|why| self.error(why.to_string()))?;
        self.write(&keys)?;
        Ok(keys)
    }

    /// Replaces the file as a whole.
    pub fn write(&self, keys: &Keys) -> Result<(), KeyFileError> {
        file::write(&self.path, keys.text().as_bytes()).map_err(|why| self.error(why))
    }

    fn error(&self, why: String) -> KeyFileError {
        KeyFileError { path: self.path.clone(), why }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_outlive_the_process_in_a_file_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("secrets.key"));
        assert!(file.read().unwrap().is_none());
        let keys = file.read_or_make().unwrap();
        assert_eq!(file.read_or_make().unwrap().ids(), keys.ids());
        let mode = std::fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let rotated = keys.rotated().unwrap();
        file.write(&rotated).unwrap();
        let read = file.read().unwrap().unwrap();
        assert_eq!(read.ids(), format!("{}, {}", rotated.writes_with(), keys.writes_with()));
        assert!(!format!("{read:?}").contains(&STANDARD.encode(keys.first().bytes())));
    }

    #[test]
    fn a_file_that_others_can_read_or_that_is_no_key_file_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("secrets.key"));
        file.read_or_make().unwrap();
        std::fs::set_permissions(file.path(), PermissionsExt::from_mode(0o640)).unwrap();
        let why = file.read_or_make().unwrap_err().to_string();
        assert!(why.contains("0640") && why.contains("chmod 600"), "{why}");
        for (text, said) in [
            ("", "no key"),
            ("abc", "line 1 is not a name and a key"),
            ("# title\n00000000 AAAA", "line 2 is not 32 bytes"),
            ("00000000 !!", "not base64"),
        ] {
            std::fs::write(file.path(), text).unwrap();
            std::fs::set_permissions(file.path(), PermissionsExt::from_mode(0o600)).unwrap();
            let why = file.read_or_make().unwrap_err().to_string();
            assert!(why.contains(said), "{text:?}: {why}");
            assert_eq!(std::fs::read_to_string(file.path()).unwrap(), text);
        }
    }

    #[test]
    fn old_keys_are_kept_up_to_a_limit() {
        let mut keys = Keys::fresh().unwrap();
        for _ in 0..2 * MOST_KEYS {
            keys = keys.rotated().unwrap();
        }
        assert_eq!(keys.all().count(), MOST_KEYS);
        assert_eq!(Keys::parse(&keys.text()).unwrap().ids(), keys.ids());
    }
}
