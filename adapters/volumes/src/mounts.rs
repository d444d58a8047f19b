//! What is mounted where, as the kernel tells it, and changing that.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use persys_model::id::VolumeName;

use crate::error::{Error, disk};
use crate::settings::Tools;
use crate::tools::call;

/// What nobody but us may look into.
const OURS: u32 = 0o700;
/// Folders on the way to the disk of a machine: QEMU, a user of its own, may pass and not list them. The
/// file itself is private; libvirt makes QEMU its owner while the machine runs.
const PASSABLE: u32 = 0o711;
/// Folders of ours above the volumes, where nobody chose another place.
const DEFAULT_STATE: &str = "/var/lib/persys";
/// The top of a volume: which user a workload runs as is its own affair, and the folder above is
/// ours.
const OPEN: u32 = 0o777;

/// What is mounted at `target`: the source the kernel names. `None` if nothing is.
pub(crate) fn source_at(tools: &Tools, target: &Path) -> Result<Option<String>, Error> {
    let text = std::fs::read_to_string(&tools.mountinfo).map_err(disk(&tools.mountinfo))?;
    let target = target.to_string_lossy();
    // The last one covers those before it.
    Ok(text.lines().rev().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let at = before.split(' ').nth(4)?;
        let source = after.split(' ').nth(1)?;
        (unescaped(at) == target).then(|| unescaped(source))
    }))
}

/// The kernel writes blanks as `\040`.
fn unescaped(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    let mut text = text.to_owned();
    for (escape, plain) in escapes {
        text = text.replace(escape, plain);
    }
    text
}

/// A mount to make.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mount<'a> {
    pub(crate) source: &'a str,
    pub(crate) fs_type: &'a str,
    pub(crate) options: &'a str,
    pub(crate) target: &'a Path,
}

/// Mounts it, unless something is mounted there.
pub(crate) async fn mount(tools: &Tools, name: &VolumeName, what: Mount<'_>) -> Result<(), Error> {
    if source_at(tools, what.target)?.is_some() {
        return Ok(());
    }
    folder(what.target)?;
    let target = what.target.to_string_lossy();
    let args = ["-t", what.fs_type, "-o", what.options, "--", what.source, &target];
    call(name, "mounting it", &tools.mount, &args).await.map(drop)
}

/// Unmounts what is there, and removes the empty folder.
pub(crate) async fn unmount(tools: &Tools, name: &VolumeName, target: &Path) -> Result<(), Error> {
    while source_at(tools, target)?.is_some() {
        let text = target.to_string_lossy();
        call(name, "unmounting it", &tools.umount, &["--", &text]).await?;
    }
    match std::fs::remove_dir(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // Something lies in it that is not of this volume; it harms nobody.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed.map_err(disk(target)),
    }
}

/// A folder of ours at `path`, made where it is missing. A symlink is not one.
pub(crate) fn folder(path: &Path) -> Result<(), Error> {
    match std::fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => Ok(()),
        Ok(_) => Err(disk(path)(io::Error::other("is not a folder; move it aside"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(OURS).create(path).map_err(disk(path))
        }
        Err(error) => Err(disk(path)(error)),
    }
}

/// A folder of ours at `path` that others may pass through without seeing what is in it. One that an
/// earlier version closed is opened that far.
pub(crate) fn passable(path: &Path) -> Result<(), Error> {
    let mut builder = std::fs::DirBuilder::new();
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            builder.recursive(true).mode(PASSABLE).create(path).map_err(disk(path))?;
        }
        _ => folder(path)?,
    }
    open_passage(path)
}

/// Opens the folders of ours above the volumes at `root`, as far as they are surely ours.
pub(crate) fn open_way_to(root: &Path) -> Result<(), Error> {
    let ours = |path: &&Path| path.starts_with(DEFAULT_STATE);
    root.ancestors().skip(1).filter(ours).try_for_each(open_passage)
}

/// The first folder above `path` that other users cannot pass, if there is one.
pub(crate) fn closed_above(path: &Path) -> Option<PathBuf> {
    let closed = |path: &&Path| {
        std::fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o001 == 0)
    };
    path.ancestors().skip(1).find(closed).map(Path::to_path_buf)
}

fn open_passage(path: &Path) -> Result<(), Error> {
    let Ok(about) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let mode = about.permissions().mode() & 0o7777;
    if !about.is_dir() || mode & 0o011 == 0o011 {
        return Ok(());
    }
    let open = std::fs::Permissions::from_mode(mode | 0o011);
    std::fs::set_permissions(path, open).map_err(disk(path))
}

/// The folder a workload sees, within one that is ours. Its rights are set once.
pub(crate) fn data(within: &Path) -> Result<PathBuf, Error> {
    let path = within.join("data");
    if std::fs::symlink_metadata(&path).is_err() {
        // Made aside, so that one without its rights is never taken for finished.
        let aside = within.join(".data");
        folder(&aside)?;
        let open = std::fs::Permissions::from_mode(OPEN);
        std::fs::set_permissions(&aside, open).map_err(disk(&aside))?;
        std::fs::rename(&aside, &path).map_err(disk(&path))?;
    }
    folder(&path)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_way_to_a_disk_can_be_passed_and_not_listed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(OURS)).unwrap();
        let (above, root) = (folder.path().join("above"), folder.path().join("above/root"));
        passable(&root).unwrap();
        assert_eq!((mode(&above), mode(&root)), (0o711, 0o711));
        assert_eq!(closed_above(&root), Some(folder.path().to_owned()), "it is the test's own");
        // As an earlier version left it.
        std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o700)).unwrap();
        passable(&root).unwrap();
        assert_eq!(mode(&root), 0o711);
        std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o755)).unwrap();
        passable(&root).unwrap();
        assert_eq!(mode(&root), 0o755, "what an operator opened further stays so");
        open_way_to(&root).unwrap();
        assert_eq!(mode(folder.path()), 0o700, "what is not ours is left alone");
    }

    #[test]
    fn what_is_mounted_is_read_as_the_kernel_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let tools = Tools { mountinfo: folder.path().join("m"), ..Tools::default() };
        let text = "22 1 8:1 / / rw - ext4 /dev/vda rw\n\
                    40 22 7:0 / /v/a\\040b rw,nosuid shared:1 - ext4 /dev/loop0 rw\n\
                    41 22 7:0 / /v/x rw - nfs4 h:/e rw\n";
        std::fs::write(&tools.mountinfo, text).unwrap();
        let at = |path: &str| source_at(&tools, Path::new(path)).unwrap();
        assert_eq!(at("/v/a b").as_deref(), Some("/dev/loop0"));
        assert_eq!(at("/v/x").as_deref(), Some("h:/e"));
        assert_eq!(at("/v"), None);
    }
}
