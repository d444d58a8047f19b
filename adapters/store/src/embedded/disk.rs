//! The disk under the file: locked, watched, and never trusted again after a failed sync.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use redb::StorageBackend;

use super::OpenError;

type OpenDisk = dyn Fn() -> Result<Box<dyn StorageBackend>, OpenError> + Send;

/// A disk that can be opened again and again.
pub struct Disks {
    path: String,
    open: Box<OpenDisk>,
}

impl fmt::Debug for Disks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disks").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Disks {
    /// The file at `path`.
    #[must_use]
    pub fn file(path: &Path) -> Self {
        let owned = path.to_path_buf();
        Self::new(path.display().to_string(), move || {
            FileDisk::open(&owned).map(|disk| -> Box<dyn StorageBackend> { Box::new(disk) })
        })
    }

    /// A new file at `path`, each time.
    pub(super) fn new_file(path: &Path) -> Self {
        let owned = path.to_path_buf();
        Self::new(path.display().to_string(), move || {
            FileDisk::create(&owned).map(|disk| -> Box<dyn StorageBackend> { Box::new(disk) })
        })
    }

    /// Whatever `open` opens, called `path` in messages.
    pub fn new(
        path: String,
        open: impl Fn() -> Result<Box<dyn StorageBackend>, OpenError> + Send + 'static,
    ) -> Self {
        Self { path, open: Box::new(open) }
    }

    /// What it is called in messages.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Opens it, noting what fails from then on.
    pub(super) fn open(&self) -> Result<(Watched, Arc<Failures>), OpenError> {
        let failures = Arc::new(Failures::default());
        let disk = (self.open)()?;
        Ok((Watched { disk, failures: Arc::clone(&failures) }, failures))
    }
}

/// A file that this process alone has open.
#[derive(Debug)]
pub struct FileDisk {
    file: File,
}

impl FileDisk {
    /// Opens and locks the file at `path`.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::open_with(path, OpenOptions::new().read(true).write(true))
    }

    /// Makes a file at `path`, in place of any other, for its owner's eyes only.
    fn create(path: &Path) -> Result<Self, OpenError> {
        if let Err(source) = std::fs::remove_file(path)
            && source.kind() != ErrorKind::NotFound
        {
            return Err(failed(path, source));
        }
        let mut options = OpenOptions::new();
        Self::open_with(path, options.read(true).write(true).create_new(true).mode(0o600))
    }

    fn open_with(path: &Path, options: &OpenOptions) -> Result<Self, OpenError> {
        let file = options.open(path).map_err(|source| failed(path, source))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file }),
            Err(TryLockError::WouldBlock) => {
                Err(OpenError::InUse { path: path.display().to_string() })
            }
            Err(TryLockError::Error(source)) => Err(failed(path, source)),
        }
    }
}

/// Gives the file `new` the name `path`, unless that is taken by now, and makes that durable.
pub(super) fn publish(new: &Path, path: &Path) -> Result<(), OpenError> {
    let publish = || {
        match std::fs::hard_link(new, path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => std::fs::remove_file(new)?,
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    };
    publish().map_err(|source| failed(path, source))
}

pub(super) fn failed(path: &Path, source: io::Error) -> OpenError {
    OpenError::Disk { path: path.display().to_string(), source }
}

impl StorageBackend for FileDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()?;
        if self.file.metadata()?.nlink() == 0 {
            return Err(io::Error::other("the file was deleted while it was open"));
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn close(&self) -> io::Result<()> {
        self.file.unlock()
    }
}

/// What failed on a disk since it was opened.
#[derive(Debug, Default)]
pub(super) struct Failures {
    first: Mutex<Option<Failure>>,
    sealed: AtomicBool,
}

/// The first thing that failed.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    /// Whether it was a sync: then what was written may be lost though it can be read.
    pub(super) sync: bool,
    /// What the system said.
    pub(super) why: String,
}

impl Failures {
    pub(super) fn first(&self) -> Option<Failure> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets nothing more be written, and takes that for no failure.
    pub(super) fn seal(&self) {
        self.sealed.store(true, Ordering::Release);
    }

    fn note<T>(&self, sync: bool, what: &str, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| Failure { sync, why: format!("{what} failed: {error}") });
        }
        result
    }

    fn check(&self) -> io::Result<()> {
        if self.sealed.load(Ordering::Acquire) {
            return Err(io::Error::other("the store is closed"));
        }
        match self.first() {
            None => Ok(()),
            Some(failure) => Err(io::Error::other(failure.why)),
        }
    }
}

/// A disk whose first failure is its last act: nothing is written or synced after it.
#[derive(Debug)]
pub(super) struct Watched {
    disk: Box<dyn StorageBackend>,
    failures: Arc<Failures>,
}

impl StorageBackend for Watched {
    fn len(&self) -> io::Result<u64> {
        self.failures.note(false, "asking for the length", self.disk.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.failures.note(false, "reading", self.disk.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.failures.check()?;
        self.failures.note(false, "changing the length", self.disk.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.failures.check()?;
        self.failures.note(true, "syncing", self.disk.sync_data())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.failures.check()?;
        self.failures.note(false, "writing", self.disk.write(offset, bytes))
    }

    fn close(&self) -> io::Result<()> {
        self.disk.close()
    }
}
