//! Files that were sent along with a stack, where its services see them.
//!
//! ```text
//!   folder/<workload>/content/<name>      a file, or a folder with files
//! ```
//!
//! The name follows from what is in it, so what is there is never written again: a service may have
//! changed its own copy, and keeps that until other content comes. It is there as a whole or not at all,
//! goes when no version needs it, and goes with the stack. Names of files were checked when the stack
//! was read; nothing is ever written into a folder that a service sees.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use persys_compose::{Content, ContentFile, Document, grammar};

/// What holds them, within the folder of a stack.
pub(super) const FOLDER: &str = "content";
/// Permissions of folders that services see.
const SEEN: u32 = 0o755;

/// Sees to it that all that `document` was sent with is in `folder`.
pub(super) fn write(folder: &Path, document: &Document) -> io::Result<()> {
    let all: Vec<(String, &Content)> = document.contents().collect();
    if all.is_empty() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    for (name, content) in all {
        let path = folder.join(&name);
        if fs::symlink_metadata(&path).is_ok() {
            continue;
        }
        let fresh = folder.join(format!(".{name}"));
        remove(&fresh)?;
        match content {
            Content::File(file) => write_file(&fresh, file)?,
            Content::Folder(files) => {
                make_folder(&fresh)?;
                for (inside, file) in files {
                    write_inside(&fresh, inside, file)?;
                }
            }
        }
        fs::rename(&fresh, &path)?;
    }
    fs::File::open(folder)?.sync_all()
}

/// Removes what no version needs: those that remain name it in what the program is given.
pub(super) fn prune(folder: &Path, needed: &str) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_str().is_some_and(|name| !name.starts_with('.') && needed.contains(name)) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Links are removed, never followed.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Err(error) => Err(error),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn write_inside(folder: &Path, inside: &str, file: &ContentFile) -> io::Result<()> {
    if !grammar::is_path_within(inside) {
        return Err(io::Error::other("has a name that leaves its folder"));
    }
    let mut path = PathBuf::from(folder);
    let mut parts = inside.split('/').peekable();
    while let Some(part) = parts.next() {
        path.push(part);
        if parts.peek().is_none() {
            return write_file(&path, file);
        }
        make_folder(&path)?;
    }
    Ok(())
}

/// Makes a folder, or finds the one that was just made.
fn make_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(SEEN).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    }
    // Whatever the mask of this process takes away.
    fs::set_permissions(path, Permissions::from_mode(SEEN))
}

fn write_file(path: &Path, file: &ContentFile) -> io::Result<()> {
    let mut written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    written.write_all(&file.bytes)?;
    if (file.uid, file.gid) != (0, 0) {
        fchown(&written, Some(file.uid), Some(file.gid))?;
    }
    written.set_permissions(Permissions::from_mode(file.mode))?;
    written.sync_all()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::symlink;

    use super::*;

    fn document(html: &str) -> Document {
        let text = format!(
            "services: {{a: {{image: b, volumes: ['./c:/c', './d:/d:ro']}}}}\n\
             x-persys-content:\n  ./c: {{mode: '0640', text: conf}}\n  \
             ./d: {{files: {{x/y.html: {{text: '{html}'}}, z: {{base64: 'AP8='}}}}}}\n"
        );
        let reading = persys_compose::read(&text, &BTreeMap::new());
        reading.document.unwrap_or_else(|| panic!("{:?}", reading.findings))
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn content_is_written_once_and_goes_when_nobody_needs_it() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("stack/content");
        let first = document("one");
        write(&folder, &first).unwrap();
        let paths: BTreeMap<bool, PathBuf> = first
            .contents()
            .map(|(name, content)| (matches!(content, Content::Folder(_)), folder.join(name)))
            .collect();
        assert_eq!(fs::read_to_string(&paths[&false]).unwrap(), "conf");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&paths[&false]), 0o640);
        assert_eq!(mode(&paths[&true].join("x")), 0o755);
        assert_eq!(fs::read(paths[&true].join("z")).unwrap(), [0, 255]);

        // A service changed its copy, and put a link there; neither is touched by another start.
        let html = paths[&true].join("x/y.html");
        fs::write(&html, "mine").unwrap();
        let outside = home.path().join("outside");
        fs::write(&outside, "stays").unwrap();
        symlink(home.path(), paths[&true].join("way-out")).unwrap();
        write(&folder, &first).unwrap();
        assert_eq!(fs::read_to_string(&html).unwrap(), "mine");

        // What was left half done is no hindrance, whatever it is.
        let second = document("two");
        let changed = second.contents().find(|(name, _)| !folder.join(name).exists()).unwrap().0;
        symlink(&outside, folder.join(format!(".{changed}"))).unwrap();
        write(&folder, &second).unwrap();
        assert_eq!(names(&folder).len(), 3, "the file is the same");
        let needed: Vec<String> = second.contents().map(|(name, _)| name).collect();
        prune(&folder, &format!("{needed:?}")).unwrap();
        let mut sorted = needed;
        sorted.sort();
        assert_eq!(names(&folder), sorted);
        assert_eq!(fs::read_to_string(&outside).unwrap(), "stays", "no link was followed");
        prune(&home.path().join("none"), "").unwrap();
    }
}
