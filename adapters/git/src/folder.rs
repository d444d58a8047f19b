//! A folder for one fetch: readable by us alone, of a bounded size, gone with its last use.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Ours alone.
const MODE: u32 = 0o700;

/// A folder that is removed when it goes out of scope.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A new one in `scratch`.
    pub(crate) fn within(scratch: &Path) -> io::Result<Self> {
        let mut name = [0_u8; 16];
        getrandom::fill(&mut name).map_err(io::Error::other)?;
        let path = scratch.join(format!("{:032x}", u128::from_ne_bytes(name)));
        make(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is removed when the next life begins.
        let _left = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes a folder that nobody else can look into.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(MODE).create(path)
}

/// Makes `scratch` where it is not there, and empties it.
pub(crate) fn empty(scratch: &Path) -> io::Result<()> {
    std::fs::create_dir_all(scratch.parent().unwrap_or(scratch))?;
    match make(scratch) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    for entry in std::fs::read_dir(scratch)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Bytes of all files in `folder`. What vanishes meanwhile counts for nothing.
pub(crate) fn size(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let mut total = 0_u64;
    for entry in entries.flatten() {
        let Ok(about) = entry.metadata() else { continue };
        let bytes = if about.is_dir() { size(&entry.path()) } else { about.len() };
        total = total.saturating_add(bytes);
    }
    total
}
