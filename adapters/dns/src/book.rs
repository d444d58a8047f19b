//! The records as questions are answered from them: read by the server at any time, changed in
//! small steps as the cluster changes.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use persys_cluster::discovery::{Change, Name, Record, Zones};

/// What the server answers from.
#[derive(Debug)]
pub struct Book {
    zones: Zones,
    pages: RwLock<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    records: BTreeMap<Name, Arc<Record>>,
    /// Raised by every change.
    serial: u32,
    /// Whether the cluster is known at all.
    known: bool,
}

/// What is there under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// This.
    Record(Arc<Record>),
    /// Nothing of its own, but there are names below it.
    Branch,
    /// Nothing.
    Nothing,
    /// Nobody knows at present.
    Unknown,
}

impl Book {
    /// A book of which nothing is known yet.
    #[must_use]
    pub fn new(zones: Zones) -> Self {
        Self { zones, pages: RwLock::default() }
    }

    /// Under which names everything is.
    #[must_use]
    pub fn zones(&self) -> &Zones {
        &self.zones
    }

    /// Takes in what changed. From then on the cluster is known.
    pub fn apply(&self, changes: &[Change]) {
        let mut pages = self.write();
        pages.known = true;
        if !changes.is_empty() {
            pages.serial = pages.serial.wrapping_add(1);
        }
        for change in changes {
            match &change.after {
                Some(record) => pages.records.insert(change.name.clone(), Arc::clone(record)),
                None => pages.records.remove(&change.name),
            };
        }
    }

    /// The cluster is not known any more: nothing is denied that may be there.
    pub fn forget(&self) {
        self.write().known = false;
    }

    /// The number of the last change.
    #[must_use]
    pub fn serial(&self) -> u32 {
        self.read().serial
    }

    /// What is there under `name`.
    #[must_use]
    pub fn find(&self, name: &Name) -> Found {
        let pages = self.read();
        if !pages.known {
            return Found::Unknown;
        }
        if let Some(record) = pages.records.get(name) {
            return Found::Record(Arc::clone(record));
        }
        let ours = self.zones.workloads().is_within(name) || self.zones.agents().is_within(name);
        let next = pages.records.range(name.start_below()..).next();
        let below = next.is_some_and(|(other, _)| other.is_within(name));
        if ours || below { Found::Branch } else { Found::Nothing }
    }

    // A thread that panicked while it wrote left at worst some changes out, and the next look at the
    // whole cluster brings them.
    fn read(&self) -> RwLockReadGuard<'_, Pages> {
        self.pages.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Pages> {
        self.pages.write().unwrap_or_else(PoisonError::into_inner)
    }
}
