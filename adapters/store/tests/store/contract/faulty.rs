//! A disk that fails, fills up and loses power.
//!
//! What is written reaches a cache; a sync brings the cache to the platter. When the power goes,
//! any part of what was not synced may be on the platter, in pieces of a sector.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use persys_store::embedded::Disks;
use redb::StorageBackend;

const SECTOR: usize = 512;

/// Draws numbers, the same for the same seed.
#[derive(Debug)]
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}

/// What goes wrong, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Everything works.
    None,
    /// So many writes or syncs work; then the power is gone.
    PowerAfter(u64),
    /// So many writes work; then the disk is full.
    FullAfter(u64),
    /// So many syncs work; then one fails, and those after it lie.
    SyncAfter(u64),
}

#[derive(Debug)]
pub struct Platter {
    synced: Vec<u8>,
    cached: Vec<u8>,
    unsynced: Vec<Change>,
    pub fault: Fault,
    /// Writes and syncs that were tried.
    pub tries: u64,
}

#[derive(Debug, Clone)]
enum Change {
    Length(usize),
    Bytes(usize, Vec<u8>),
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Length(length) => to.resize(*length, 0),
            Self::Bytes(at, bytes) => {
                if to.len() < at + bytes.len() {
                    to.resize(at + bytes.len(), 0);
                }
                to[*at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
    }
}

/// A handle on a faulty disk.
#[derive(Debug, Clone)]
pub struct Faulty(Arc<Mutex<Platter>>);

impl Faulty {
    pub fn new() -> Self {
        Self::with(Vec::new())
    }

    fn with(image: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(Platter {
            synced: image.clone(),
            cached: image,
            unsynced: Vec::new(),
            fault: Fault::None,
            tries: 0,
        })))
    }

    pub fn platter(&self) -> MutexGuard<'_, Platter> {
        self.0.lock().unwrap()
    }

    pub fn disks(&self) -> Disks {
        let disk = self.clone();
        Disks::new("a faulty disk".to_owned(), move || Ok(Box::new(disk.clone())))
    }

    /// What a disk may hold when the power comes back.
    pub fn after_power_loss(&self, chance: &mut Chance) -> Self {
        let platter = self.platter();
        let mut image = platter.synced.clone();
        let keep_of_ten = chance.below(11);
        for change in &platter.unsynced {
            match change {
                Change::Length(_) if chance.below(10) < keep_of_ten => change.apply(&mut image),
                Change::Length(_) => {}
                Change::Bytes(at, bytes) => {
                    for (piece, bytes) in bytes.chunks(SECTOR).enumerate() {
                        if chance.below(10) < keep_of_ten {
                            Change::Bytes(at + piece * SECTOR, bytes.to_vec()).apply(&mut image);
                        }
                    }
                }
            }
        }
        Self::with(image)
    }
}

impl Platter {
    fn change(&mut self, change: Change) -> io::Result<()> {
        self.tries += 1;
        match &mut self.fault {
            Fault::None | Fault::SyncAfter(_) => {}
            Fault::PowerAfter(0) => return Err(io::Error::other("no power")),
            Fault::FullAfter(0) => return Err(io::ErrorKind::StorageFull.into()),
            Fault::PowerAfter(left) | Fault::FullAfter(left) => *left -= 1,
        }
        change.apply(&mut self.cached);
        self.unsynced.push(change);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.tries += 1;
        match &mut self.fault {
            Fault::None | Fault::FullAfter(_) => {}
            Fault::PowerAfter(0) => return Err(io::Error::other("no power")),
            Fault::PowerAfter(left) => *left -= 1,
            Fault::SyncAfter(0) => {
                // As Linux does it: the failure is told once, and the pages count as clean.
                self.fault = Fault::SyncAfter(u64::MAX);
                self.unsynced.clear();
                return Err(io::Error::other("the disk did not take it"));
            }
            Fault::SyncAfter(u64::MAX) => return Ok(()),
            Fault::SyncAfter(left) => *left -= 1,
        }
        for change in self.unsynced.drain(..) {
            change.apply(&mut self.synced);
        }
        Ok(())
    }
}

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        Ok(self.platter().cached.len().try_into().unwrap())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let at: usize = offset.try_into().unwrap();
        let platter = self.platter();
        let bytes = platter.cached.get(at..at + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.platter().change(Change::Length(length.try_into().unwrap()))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.platter().sync()
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.platter().change(Change::Bytes(offset.try_into().unwrap(), bytes.to_vec()))
    }
}
