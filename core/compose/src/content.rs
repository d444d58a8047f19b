//! Files that stand beside a Compose file and are sent along with it.
//!
//! A project names files of the folder it is in: settings of a proxy, a script for a database. The
//! node has no such folder. So their content goes with the file, within limits, and the agent writes
//! it where the services see it. What is written is named by what is in it: another content is another
//! file, and so another container.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

/// A file or a folder that was sent along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// One file.
    File(ContentFile),
    /// A folder: its files by their paths within it, which [`crate::grammar::is_path_within`] holds of.
    Folder(BTreeMap<String, ContentFile>),
}

/// A file that was sent along. Printing one shows no content.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ContentFile {
    /// Its permissions.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// What is in it.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for ContentFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{} bytes, {:04o}>", self.bytes.len(), self.mode)
    }
}

impl Content {
    /// Its files, each with its path within a folder; empty for what is no folder.
    pub fn files(&self) -> impl Iterator<Item = (&str, &ContentFile)> {
        let (one, many) = match self {
            Self::File(file) => (Some(("", file)), None),
            Self::Folder(files) => (None, Some(files)),
        };
        let many = many.into_iter().flatten().map(|(path, file)| (path.as_str(), file));
        one.into_iter().chain(many)
    }

    /// Bytes of all its files.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.files().map(|(_, file)| file.bytes.len()).fold(0, usize::saturating_add)
    }

    /// `3 files, 1200 bytes`.
    #[must_use]
    pub fn told(&self) -> String {
        let bytes = self.bytes();
        match self.files().count() {
            1 => format!("{bytes} bytes"),
            count => format!("{count} files, {bytes} bytes"),
        }
    }

    /// The name it is written under, which follows from what is in it.
    #[must_use]
    pub fn file_name(&self) -> String {
        let mut hash = Sha256::new();
        hash.update([u8::from(matches!(self, Self::Folder(_)))]);
        for (path, file) in self.files() {
            let ContentFile { mode, uid, gid, bytes } = file;
            for part in [path.as_bytes(), bytes] {
                let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
                hash.update(length.to_be_bytes());
                hash.update(part);
            }
            for number in [mode, uid, gid] {
                hash.update(number.to_be_bytes());
            }
        }
        hash.finalize().iter().take(16).fold(String::new(), |mut name, byte| {
            for nibble in [byte >> 4, byte & 15] {
                name.extend(char::from_digit(u32::from(nibble), 16));
            }
            name
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str, mode: u32) -> ContentFile {
        ContentFile { mode, bytes: text.as_bytes().to_vec(), ..ContentFile::default() }
    }

    #[test]
    fn what_differs_has_another_name() {
        let folder = |files: &[(&str, &str)]| {
            let files = files.iter().map(|(path, text)| ((*path).to_owned(), file(text, 0o644)));
            Content::Folder(files.collect())
        };
        let all = [
            Content::File(file("a", 0o644)),
            Content::File(file("a", 0o755)),
            Content::File(file("b", 0o644)),
            Content::File(ContentFile { uid: 1, ..file("a", 0o644) }),
            Content::Folder(BTreeMap::new()),
            folder(&[("", "a")]),
            folder(&[("a", "b")]),
            folder(&[("ab", "")]),
            folder(&[("a", "b"), ("c", "")]),
        ];
        let names: std::collections::BTreeSet<_> = all.iter().map(Content::file_name).collect();
        assert_eq!(names.len(), all.len());
        assert!(names.iter().all(|name| name.len() == 32));
        assert_eq!(all[0].file_name(), Content::File(file("a", 0o644)).file_name());
        assert!(!format!("{:?}", file("hush", 0o600)).contains("hush"));
    }
}
