//! Small things done with files, away from the threads that answer.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::error::Error;

use super::super::manifest::{Manifest, make_folder};
use super::super::storage::storage;

/// How long files may take to answer. A folder of the node may be on a server that is gone.
const WITHIN: Duration = Duration::from_secs(20);

/// Does something with files. If they do not answer, whoever asked goes on; the thread that waits for
/// them is left to it.
pub(super) async fn blocking<T: Send + 'static>(
    job: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let running = tokio::task::spawn_blocking(job);
    match tokio::time::timeout(WITHIN, running).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => Err(Error::Unreachable { detail: format!("files: {error}") }),
        Err(_) => Err(Error::NoAnswer {
            verb: "a folder of the node",
            within_ms: u64::try_from(WITHIN.as_millis()).unwrap_or(u64::MAX),
        }),
    }
}

pub(super) async fn load(record: &Path) -> Result<Manifest, Error> {
    let record = record.to_owned();
    blocking(move || Manifest::load(&record).map_err(|error| storage(&record, error))).await
}

pub(super) async fn store(record: &Path, manifest: Manifest) -> Result<(), Error> {
    let record = record.to_owned();
    blocking(move || manifest.store(&record).map_err(|error| storage(&record, error))).await
}

/// The records of all other machines, by name. One that cannot be read may name any disk, so it is an
/// error.
pub(super) fn others(home: &Path, own: &str) -> Result<Vec<(String, Manifest)>, Error> {
    let machines = match home.read_dir() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|error| storage(home, error))?,
    };
    let mut all = Vec::new();
    for machine in machines {
        let machine = machine.map_err(|error| storage(home, error))?;
        let name = machine.file_name().to_string_lossy().into_owned();
        if name == own || !machine.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let record = machine.path().join("manifest.json");
        let manifest = Manifest::load(&record).map_err(|error| storage(&record, error))?;
        all.push((name, manifest));
    }
    Ok(all)
}

/// The name a file has while it is made; one that nobody else would give.
pub(super) fn draft_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.persys-draft"))
}

/// Has the folder of `path` there.
pub(super) fn ready_folder(path: &Path) -> Result<(), Error> {
    match path.parent() {
        Some(folder) => make_folder(folder).map_err(|error| storage(folder, error)),
        None => Ok(()),
    }
}

/// Gives a finished file its name, if nobody has it. Its owner alone may open it; libvirt makes QEMU
/// the owner while the machine runs.
pub(super) fn place(from: &Path, to: &Path) -> Result<(), Error> {
    let owner_only = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(from, owner_only).map_err(|error| storage(from, error))?;
    renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)
        .map_err(|error| storage(to, format!("could not be put in place: {error}")))
}

/// Removes a file or a link, never what a link leads to. Nothing there is what was wanted.
pub(super) fn remove_file(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(storage(path, error)),
        _ => Ok(()),
    }
}

/// Removes the folder of one machine with all that is left in it.
pub(super) fn remove_folder(path: &Path) -> Result<(), Error> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(storage(path, error)),
        _ => Ok(()),
    }
}

/// Removes a log and the older parts of it, which the log daemon numbers.
pub(super) fn remove_logs(log: &Path) -> Result<(), Error> {
    let (Some(folder), Some(name)) = (log.parent(), log.file_name()) else { return Ok(()) };
    let entries = match folder.read_dir() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|error| storage(folder, error))?,
    };
    let name = name.to_string_lossy();
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&*name) {
            remove_file(&entry.path())?;
        }
    }
    Ok(())
}
