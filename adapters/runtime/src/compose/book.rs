//! What the agent must remember of each stack: the last good version, and one that is on its way.
//!
//! ```text
//!   folder/<workload>/record.json     the versions, with the documents they were run from
//!                    /stack.json      the document the program is given
//!   folder/home/                      the home folder of the program, always empty
//! ```
//!
//! Containers cannot carry the revision as a label: Compose would make them all anew for every
//! revision. What the record says is believed only of containers that are there; while a version is
//! on its way, what is there may be of either, and so is of no revision.
//!
//! A record is replaced as a whole, and is on disk before the program runs.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use persys_compose::Document;
use persys_model::id::WorkloadId;
use persys_model::spec::STOP_GRACE_MS;
use persys_model::spec::compose::{policies_differ, policy};
use persys_model::spec::container::RestartPolicy;
use persys_model::token::Epoch;
use persys_node::restart::service_again;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// One version of a stack as it was given to the program.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Version {
    pub(super) revision: String,
    pub(super) epoch: u64,
    pub(super) project: String,
    pub(super) services: BTreeMap<String, Shape>,
    /// What the program was given.
    pub(super) document: String,
}

/// What must be known of a service to judge it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shape {
    pub(super) one_shot: bool,
    pub(super) replicas: u32,
    pub(super) after: Vec<String>,
    /// When it is started again after its end, where the services of its stack differ in that.
    #[serde(default)]
    pub(super) again: Option<Again>,
}

/// When a service is started again after its end. A limit of `always` is one of the whole stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Again {
    Never,
    AfterFailure { most: u32 },
    Always,
}

impl Again {
    fn of(policy: RestartPolicy) -> Self {
        match policy {
            RestartPolicy::No => Self::Never,
            RestartPolicy::OnFailure { max_retries } => Self::AfterFailure { most: max_retries },
            RestartPolicy::Always
            | RestartPolicy::UnlessStopped
            | RestartPolicy::AlwaysUpTo { .. } => Self::Always,
        }
    }

    fn policy(self) -> RestartPolicy {
        match self {
            Self::Never => RestartPolicy::No,
            Self::AfterFailure { most } => RestartPolicy::OnFailure { max_retries: most },
            Self::Always => RestartPolicy::Always,
        }
    }
}

/// Restarts of services that ended, under one decision.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Restarts {
    epoch: u64,
    services: BTreeMap<String, u32>,
}

impl std::fmt::Debug for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The document carries passwords.
        write!(f, "{} of {}", self.revision, self.project)
    }
}

/// All that is remembered of one stack.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Record {
    /// The last version that came up.
    pub(super) good: Option<Version>,
    /// The version that is being brought up.
    pub(super) next: Option<Version>,
    /// Whether we stopped it: then even what may end by itself has not ended by itself.
    #[serde(default)]
    pub(super) rested: bool,
    /// Restarts of services that have policies of their own.
    #[serde(default)]
    pub(super) restarts: Restarts,
}

impl Record {
    /// `version` came up.
    pub(super) fn up(version: Version) -> Self {
        Self { good: Some(version), ..Self::default() }
    }

    /// True if the end of a service with this code is not followed by a start: it has done its work, or
    /// its policy gives it up.
    pub(super) fn is_over(&self, service: &str, code: i32) -> bool {
        let shape = self.judged_by().and_then(|version| version.services.get(service));
        let Some(shape) = shape else { return false };
        let done = shape.one_shot && code == 0;
        done || shape.again.is_some_and(|again| {
            let restarts = self.restarts.services.get(service).copied().unwrap_or(0);
            !service_again(again.policy(), code, restarts)
        })
    }

    /// True if its services are judged each by a policy of its own.
    pub(super) fn judges_apart(&self) -> bool {
        let version = self.judged_by();
        version.is_some_and(|version| version.services.values().any(|shape| shape.again.is_some()))
    }

    /// Restarts after `ended` services are started once more by the decision `epoch`.
    pub(super) fn restarts_with(&self, epoch: Epoch, ended: &[String]) -> Restarts {
        if !self.judges_apart() {
            return Restarts::default();
        }
        let mut restarts = if self.restarts.epoch == epoch.0 {
            self.restarts.clone()
        } else {
            Restarts { epoch: epoch.0, ..Restarts::default() }
        };
        for service in ended {
            let count = restarts.services.entry(service.clone()).or_default();
            *count = count.saturating_add(1);
        }
        restarts
    }

    /// The version that what is there is judged by.
    pub(super) fn judged_by(&self) -> Option<&Version> {
        self.next.as_ref().or(self.good.as_ref())
    }

    /// The version that is there for certain.
    pub(super) fn settled(&self) -> Option<&Version> {
        self.good.as_ref().filter(|_| self.next.is_none())
    }
}

/// The shapes of the services of `document`.
pub(super) fn shapes(document: &Document) -> BTreeMap<String, Shape> {
    let apart = policies_differ(document);
    let shape = |service: &persys_compose::Service| Shape {
        one_shot: service.one_shot,
        replicas: service.replicas,
        after: service.depends_on.keys().cloned().collect(),
        again: apart.then(|| Again::of(policy(service.restart))),
    };
    document.services().map(|service| (service.name.clone(), shape(service))).collect()
}

impl Version {
    pub(super) fn epoch(&self) -> Epoch {
        Epoch(self.epoch)
    }

    /// Longest time in which all of it ends by itself.
    pub(super) fn grace(&self) -> Duration {
        let document = persys_compose::read(&self.document, &BTreeMap::new()).document;
        let grace =
            document.map_or(STOP_GRACE_MS, |document| document.stop_grace_ms(STOP_GRACE_MS));
        Duration::from_millis(grace)
    }
}

/// The records of all stacks of this node. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Book {
    folder: PathBuf,
    known: Arc<Mutex<BTreeMap<WorkloadId, Arc<Record>>>>,
}

impl Book {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, known: Arc::default() }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<WorkloadId, Arc<Record>>> {
        // Nothing is left half done under this lock.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered of a stack. What cannot be read is not remembered: then what is there is
    /// of no revision, and brought to the wanted one.
    pub(super) fn record(&self, workload: &WorkloadId) -> Arc<Record> {
        if let Some(record) = self.known().get(workload) {
            return Arc::clone(record);
        }
        let bytes = std::fs::read(self.folder_of(workload).join("record.json"));
        let record = bytes.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let record: Arc<Record> = Arc::new(record.unwrap_or_default());
        self.known().insert(workload.clone(), Arc::clone(&record));
        record
    }

    /// Remembers `record` from now on, whatever happens.
    pub(super) async fn keep(&self, workload: &WorkloadId, record: Record) -> Result<(), Error> {
        let (book, workload) = (self.clone(), workload.clone());
        on_disk(move || book.write(&workload, record)).await
    }

    fn write(&self, workload: &WorkloadId, record: Record) -> Result<(), Error> {
        let folder = self.folder_of(workload);
        let written = own_folder(&self.folder)
            .and_then(|()| own_folder(&folder))
            .and_then(|()| replace(&folder, "record.json", &to_bytes(&record)?));
        written.map_err(|error| storage(&folder, &error))?;
        self.known().insert(workload.clone(), Arc::new(record));
        Ok(())
    }

    /// Writes the document the program is given, and says where it is.
    pub(super) async fn hand_out(
        &self,
        workload: &WorkloadId,
        version: &Version,
    ) -> Result<PathBuf, Error> {
        let folder = self.folder_of(workload);
        let (above, document) = (self.folder.clone(), version.document.clone());
        on_disk(move || {
            let written = own_folder(&above)
                .and_then(|()| own_folder(&folder))
                .and_then(|()| replace(&folder, "stack.json", document.as_bytes()));
            written.map_err(|error| storage(&folder, &error))?;
            Ok(folder.join("stack.json"))
        })
        .await
    }

    /// Forgets a stack.
    pub(super) async fn forget(&self, workload: &WorkloadId) -> Result<(), Error> {
        let (book, workload) = (self.clone(), workload.clone());
        on_disk(move || book.erase(&workload)).await
    }

    fn erase(&self, workload: &WorkloadId) -> Result<(), Error> {
        let folder = self.folder_of(workload);
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(storage(&folder, &error)),
            Ok(()) | Err(_) => {
                self.known().remove(workload);
                Ok(())
            }
        }
    }

    /// An empty folder for a program that wants a home.
    pub(super) fn home(&self) -> Result<PathBuf, Error> {
        let home = self.folder.join("home");
        let made = own_folder(&self.folder).and_then(|()| own_folder(&home));
        made.map_err(|error| storage(&home, &error))?;
        Ok(home)
    }

    fn folder_of(&self, workload: &WorkloadId) -> PathBuf {
        // Apart from `home`, which a workload may be called.
        self.folder.join("stacks").join(workload.as_str())
    }
}

/// Does what waits for the disk where it holds up nobody.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::Storage { detail: error.to_string() }),
    }
}

fn storage(path: &Path, error: &std::io::Error) -> Error {
    Error::Storage { detail: format!("{} cannot be written: {error}", path.display()) }
}

fn to_bytes(record: &Record) -> std::io::Result<Vec<u8>> {
    Ok(serde_json::to_vec(record)?)
}

fn own_folder(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Replaces a file as a whole; it is on disk when this returns.
fn replace(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let fresh = folder.join(format!("{name}.new"));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&fresh, folder.join(name))?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn version(revision: &str) -> Version {
        Version {
            revision: revision.to_owned(),
            epoch: 3,
            project: "persys-shop".to_owned(),
            services: BTreeMap::new(),
            document: "{\"services\":{\"password\":\"hush\"}}".to_owned(),
        }
    }

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("persys-book-{}-{name}", std::process::id()));
        std::fs::remove_dir_all(&folder).ok();
        folder
    }

    #[tokio::test]
    async fn what_is_kept_is_known_in_the_next_life_and_to_nobody_else() {
        let folder = folder("keep");
        let id = WorkloadId::fixed("shop");
        let book = Book::new(folder.clone());
        assert_eq!(*book.record(&id), Record::default());
        let record = Record { next: Some(version("r2")), ..Record::up(version("r1")) };
        book.keep(&id, record.clone()).await.unwrap();
        let path = book.hand_out(&id, &version("r2")).await.unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), version("r2").document);
        let next = Book::new(folder.clone());
        assert_eq!(*next.record(&id), record);
        assert_eq!(next.record(&id).settled(), None, "one is on its way");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!((mode(&path), mode(&path.with_file_name("record.json"))), (0o600, 0o600));
        assert!(!format!("{record:?}").contains("hush"));
        next.forget(&id).await.unwrap();
        next.forget(&id).await.unwrap();
        assert_eq!(*Book::new(folder.clone()).record(&id), Record::default());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn a_torn_record_is_no_record() {
        let folder = folder("torn");
        let id = WorkloadId::fixed("shop");
        let book = Book::new(folder.clone());
        book.keep(&id, Record::up(version("r1"))).await.unwrap();
        let path = book.folder_of(&id).join("record.json");
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert_eq!(*Book::new(folder.clone()).record(&id), Record::default());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
