//! An open file that is never closed in good order.
//!
//! redb checks a whole file against its checksums only when it was not closed, and otherwise
//! believes what it reads; a page that rotted would then end the process. The check of a ledger
//! takes no time worth speaking of, so every opening has one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{Builder, Database, StorageBackend};

use super::file::NotOpened;

/// An open file.
pub(super) struct Opened {
    pub(super) database: Database,
    sealed: Arc<AtomicBool>,
}

impl Opened {
    /// Opens the database on a disk.
    pub(super) fn on(disk: impl StorageBackend) -> Result<Self, NotOpened> {
        let sealed = Arc::new(AtomicBool::new(false));
        let disk = Sealed { disk, sealed: Arc::clone(&sealed) };
        Ok(Self { database: Builder::new().create_with_backend(disk)?, sealed })
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.sealed.store(true, Ordering::Release);
    }
}

/// A disk on which nothing is written once it is sealed.
#[derive(Debug)]
struct Sealed<D> {
    disk: D,
    sealed: Arc<AtomicBool>,
}

impl<D> Sealed<D> {
    fn check(&self) -> io::Result<()> {
        if self.sealed.load(Ordering::Acquire) {
            return Err(io::Error::other("the ledger is closed"));
        }
        Ok(())
    }
}

impl<D: StorageBackend> StorageBackend for Sealed<D> {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.disk.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check()?;
        self.disk.sync_data()
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.check()?;
        self.disk.write(offset, bytes)
    }

    fn close(&self) -> io::Result<()> {
        self.disk.close()
    }
}
