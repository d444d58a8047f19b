//! Where an agent keeps what it must not forget.
//!
//! - [`mod@file`]: on disk, one file of records and one with the lease.
//! - `actions`: what was done lately, written along.
//! - [`lease`]: the lease as a watchdog reads it; `exclusive`: a mark that there may be exclusive work.
//! - [`record`]: what the records are, byte for byte; [`sealed`]: why a rotten file is noticed.

pub(crate) mod actions;
pub(crate) mod exclusive;
pub mod file;
pub mod lease;
mod record;
mod sealed;
mod secret;
#[cfg(test)]
mod tests;

use persys_model::time::Millis;
use persys_node::ledger::{Ledger, LedgerChange};

use crate::history::Action;

pub use file::FileKeeper;

/// Keeps the ledger on disk.
#[async_trait::async_trait]
pub trait Keeper: Send + Sync {
    /// What was kept. A damaged ledger is moved aside and read as empty: what runs is found again
    /// by its labels.
    async fn load(&self) -> Ledger;

    /// Writes changes in order; returns when they are on disk.
    async fn write(&self, changes: Vec<LedgerChange>) -> Result<(), NotWritten>;

    /// Tells the watchdog until when exclusive work may run.
    async fn lease(&self, until: Millis) -> Result<(), NotWritten>;

    /// What was done lately, in earlier lives too, oldest first.
    async fn actions(&self) -> Vec<Action>;

    /// Has an action, as it is now, go to disk with a later write. This waits for nothing.
    fn note(&self, action: Action);

    /// Writes what was noted, if no other write took it along.
    async fn flush(&self) -> Result<(), NotWritten>;
}

/// A change is not on disk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the ledger cannot be written: {0}")]
pub struct NotWritten(pub String);

/// A ledger in memory: for tests, and for nothing else.
#[derive(Debug, Default)]
pub struct Memory(std::sync::Mutex<Ledger>);

#[async_trait::async_trait]
impl Keeper for Memory {
    async fn load(&self) -> Ledger {
        self.0.lock().map(|ledger| ledger.clone()).unwrap_or_default()
    }

    async fn write(&self, changes: Vec<LedgerChange>) -> Result<(), NotWritten> {
        let mut ledger = self.0.lock().map_err(|error| NotWritten(error.to_string()))?;
        for change in &changes {
            ledger.apply(change);
        }
        Ok(())
    }

    async fn lease(&self, _until: Millis) -> Result<(), NotWritten> {
        Ok(())
    }

    async fn actions(&self) -> Vec<Action> {
        Vec::new()
    }

    fn note(&self, _action: Action) {}

    async fn flush(&self) -> Result<(), NotWritten> {
        Ok(())
    }
}
