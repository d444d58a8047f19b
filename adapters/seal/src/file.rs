//! A file only its owner reads, replaced as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use zeroize::Zeroizing;

/// Most that is read.
const MOST_BYTES: u64 = 64 * 1024;
/// Permissions that concern others than the owner.
const OTHERS: u32 = 0o077;

/// The text of the file; `None` if there is none. It is judged by what was opened.
pub(crate) fn read(path: &Path) -> Result<Option<Zeroizing<String>>, String> {
    let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let file = match OpenOptions::new().read(true).custom_flags(no_link).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be opened: {error}")),
    };
    let found = file.metadata().map_err(|error| format!("cannot be looked at: {error}"))?;
    if !found.is_file() {
        return Err("is not a plain file".to_owned());
    }
    let mode = found.mode() & 0o7777;
    if mode & OTHERS != 0 {
        let path = path.display();
        return Err(format!("has mode {mode:04o}, so others could read it: chmod 600 {path}"));
    }
    let mut text = Zeroizing::new(String::new());
    let read = file.take(MOST_BYTES).read_to_string(&mut text);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    Ok(Some(text))
}

/// Complete or absent after a crash at any point.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let folder = path.parent().ok_or("has no folder")?;
    let beside = path.with_extension("new");
    let written = (|| {
        // One that a crash left behind is nobody's.
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        File::open(folder)?.sync_all()
    })();
    written.map_err(|error| format!("cannot be written: {error}"))
}
