//! Secrets around a runtime: filled in before a start, gone after a removal.
//!
//! ```text
//!   <memory>/persys-secrets-<user>/<node>-<state folder>/<workload>/<secret>
//! ```
//!
//! Files are in memory only: a folder that is on a disk is not used, and where there is none
//! nothing with secrets starts. The folders are the agent's alone; what a file allows is for those
//! inside the workload. They are written before every start, so that a node that was switched off
//! needs nobody to start again.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use persys_model::id::{NodeId, WorkloadId};
use persys_model::spec::Spec;
use persys_model::spec::fill::{SecretFile, Unfilled, filled};
use persys_model::spec::health::Check;
use persys_node::input::{ImageHealth, Observation, ProbeOutcome, Seen};
use persys_runtime::runtime::{Health, Progress, Thing};
use persys_runtime::{Error, Refresh, Runtime, Start};

/// Where memory is usually found as a folder, the best first.
const MEMORY: [&str; 3] = ["/run", "/dev/shm", "/tmp"];
/// What Linux calls file systems in memory.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// A runtime whose workloads have secrets.
#[derive(Debug)]
pub(crate) struct WithSecrets {
    inner: Arc<dyn Runtime>,
    folder: Option<PathBuf>,
}

impl WithSecrets {
    pub(crate) fn new(inner: Arc<dyn Runtime>, node: &NodeId, state: &Path) -> Self {
        let folder = folder(node, state);
        match &folder {
            Some(folder) => {
                tracing::debug!(folder = %folder.display(), "secrets are kept in memory");
            }
            None => {
                tracing::warn!("no folder in memory was found: nothing with secrets is started");
            }
        }
        Self { inner, folder }
    }

    fn folder_of(&self, workload: &WorkloadId) -> Result<PathBuf, Error> {
        let Some(folder) = &self.folder else {
            let detail = "this node has no folder in memory for secrets: mount a tmpfs at /run";
            return Err(Error::Storage { detail: detail.to_owned() });
        };
        Ok(folder.join(workload.as_str()))
    }
}

/// The folder of this agent, if memory is found. Two agents of one host have two state folders.
fn folder(node: &NodeId, state: &Path) -> Option<PathBuf> {
    let state = fs::canonicalize(state).unwrap_or_else(|_| state.to_path_buf());
    let hash = state
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let user = rustix::process::geteuid().as_raw();
    MEMORY.iter().find_map(|memory| {
        let found = rustix::fs::statfs(*memory).ok()?;
        if !IN_MEMORY.contains(&u64::try_from(found.f_type).ok()?) {
            return None;
        }
        let ours = Path::new(memory).join(format!("persys-secrets-{user}"));
        let own = ours.join(format!("{node}-{hash:016x}"));
        private(&ours).and_then(|()| private(&own)).ok()?;
        Some(own)
    })
}

/// Makes a folder that is ours alone, or finds that it is.
fn private(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let found = fs::symlink_metadata(path)?;
    let owner = std::os::unix::fs::MetadataExt::uid(&found);
    if !found.is_dir() || owner != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("is not a folder of ours"));
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

/// Has exactly these files in `folder`.
fn write(folder: &Path, files: &[SecretFile]) -> io::Result<()> {
    private(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if !files.iter().any(|file| name == *file.name) {
            fs::remove_file(entry.path())?;
        }
    }
    files.iter().try_for_each(|file| put(folder, file))
}

/// Writes one file. One that is there is the one that what runs sees, by its inode: it is written over,
/// and its old end is cut off last. One that is not appears whole.
fn put(folder: &Path, file: &SecretFile) -> io::Result<()> {
    let at = folder.join(&file.name);
    match fs::symlink_metadata(&at) {
        Ok(found) if found.is_file() => {
            let open = || OpenOptions::new().write(true).open(&at);
            let opened = match open() {
                // Only root may write what its mode does not allow.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    fs::set_permissions(&at, fs::Permissions::from_mode(file.mode | 0o200))?;
                    open()
                }
                opened => opened,
            };
            finish(&opened?, file)
        }
        Ok(_) => Err(io::Error::other(format!("{} is not a file", at.display()))),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // No secret's file has a name that begins with a dot.
            let new = folder.join(format!(".{}", file.name));
            let mut options = OpenOptions::new();
            finish(&options.write(true).create_new(true).mode(0o600).open(&new)?, file)?;
            fs::rename(&new, &at)
        }
        Err(error) => Err(error),
    }
}

fn finish(mut written: &fs::File, file: &SecretFile) -> io::Result<()> {
    let content = file.content.reveal();
    written.write_all(content)?;
    written.set_len(u64::try_from(content.len()).map_err(io::Error::other)?)?;
    if (file.uid, file.gid) != (0, 0) {
        std::os::unix::fs::fchown(written, Some(file.uid), Some(file.gid))?;
    }
    written.set_permissions(fs::Permissions::from_mode(file.mode))?;
    written.sync_all()
}

fn forget(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn unfilled(why: Unfilled) -> Error {
    match why {
        Unfilled::NotThere(detail) => Error::Invalid { detail },
        Unfilled::NotSent(detail) => Error::Secret { detail },
    }
}

async fn on_disk(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> Result<(), Error> {
    let failed = |why: String| Error::Storage { detail: format!("secrets: {why}") };
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| failed(error.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}

#[async_trait]
impl Runtime for WithSecrets {
    async fn prepare(&self, spec: &Spec, progress: &dyn Progress) -> Result<(), Error> {
        self.inner.prepare(spec, progress).await
    }

    async fn start(&self, start: &Start) -> Result<(), Error> {
        if start.spec.secrets.is_empty() {
            return self.inner.start(start).await;
        }
        let folder = self.folder_of(&start.workload)?;
        let text = folder.to_string_lossy().into_owned();
        let (spec, files) = filled(&start.spec, &start.secrets, &text).map_err(unfilled)?;
        let at = folder.clone();
        on_disk(move || write(&at, &files)).await?;
        let whole = Start { spec: Arc::new(spec), secrets_at: Some(folder), ..start.clone() };
        self.inner.start(&whole).await
    }

    async fn fresh_health(&self, start: &Start) -> Option<ImageHealth> {
        self.inner.fresh_health(start).await
    }

    async fn probe(&self, workload: &WorkloadId, check: &Check) -> ProbeOutcome {
        self.inner.probe(workload, check).await
    }

    async fn pause(&self, workload: &WorkloadId) -> Result<(), Error> {
        self.inner.pause(workload).await
    }

    async fn signal(&self, refresh: &Refresh) -> Result<(), Error> {
        let folder = self.folder_of(&refresh.workload)?;
        let text = folder.to_string_lossy().into_owned();
        let (_, files) = filled(&refresh.spec, &refresh.secrets, &text).map_err(unfilled)?;
        let changed = refresh.changed.clone();
        // A program that is not told keeps what it was started with.
        let files = files.into_iter().filter(move |file| changed.contains(&file.secret));
        on_disk(move || files.into_iter().try_for_each(|file| put(&folder, &file))).await?;
        self.inner.signal(refresh).await
    }

    async fn stop(&self, workload: &WorkloadId, within: Option<Duration>) -> Result<(), Error> {
        self.inner.stop(workload, within).await
    }

    async fn remove(&self, workload: &WorkloadId, purge: bool) -> Result<(), Error> {
        self.inner.remove(workload, purge).await?;
        let Ok(folder) = self.folder_of(workload) else { return Ok(()) };
        on_disk(move || forget(&folder)).await
    }

    async fn inspect(&self, workload: &WorkloadId) -> Result<Option<Thing>, Error> {
        self.inner.inspect(workload).await
    }

    async fn list(&self) -> Result<Vec<Seen>, Error> {
        self.inner.list().await
    }

    async fn observe(&self, probe: bool) -> Observation {
        self.inner.observe(probe).await
    }

    async fn health(&self) -> Result<Health, Error> {
        self.inner.health().await
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use persys_model::id::SecretName;
    use persys_model::secret::Redacted;

    use super::*;

    fn file(name: &str, mode: u32, content: &str) -> SecretFile {
        let content = Redacted::new(content.as_bytes());
        let secret = SecretName::fixed("db");
        SecretFile { secret, name: name.to_owned(), mode, uid: 0, gid: 0, content }
    }

    #[test]
    fn files_are_as_told_and_no_others_are_left() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("web");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        write(&own, &[file("db", 0o400, "a"), file("key.0444.0.0", 0o444, "b")]).unwrap();
        assert_eq!(mode(&own), 0o700);
        assert_eq!((mode(&own.join("db")), mode(&own.join("key.0444.0.0"))), (0o400, 0o444));
        write(&own, &[file("db", 0o400, "c")]).unwrap();
        assert_eq!(fs::read_to_string(own.join("db")).unwrap(), "c");
        assert_eq!(mode(&own.join("db")), 0o400);
        assert_eq!(fs::read_dir(&own).unwrap().count(), 1);
        forget(&own).unwrap();
        forget(&own).unwrap();
        assert!(!own.exists());
    }

    #[test]
    fn a_file_that_is_there_is_written_over_for_those_who_have_it_open() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("web");
        write(&own, &[file("db", 0o400, "a long value")]).unwrap();
        let mut opened = fs::File::open(own.join("db")).unwrap();
        for content in ["short", "a value that is longer", ""] {
            put(&own, &file("db", 0o440, content)).unwrap();
            let mut seen = String::new();
            opened.rewind().unwrap();
            opened.read_to_string(&mut seen).unwrap();
            assert_eq!(seen, content);
        }
        assert_eq!(fs::read_dir(&own).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_is_not_ours_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/etc", &link).unwrap();
        assert!(private(&link).is_err());
        assert!(write(&link, &[file("db", 0o400, "a")]).is_err());
    }

    #[test]
    fn memory_is_found_and_each_agent_has_its_own_part_of_it() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let node = NodeId::fixed("n1");
        let (a, b) = (folder(&node, one.path()), folder(&node, two.path()));
        assert_ne!(a, b);
        assert_eq!(a, folder(&node, one.path()));
        for own in [a, b].into_iter().flatten() {
            fs::remove_dir(own).unwrap();
        }
    }
}
