//! What must survive a restart: which deliveries were there, what is still to be done about them,
//! and how far others were told.
//!
//! A delivery and the work it asks for are kept in one transaction, before the sender hears that it
//! was taken: what was taken is done, and done once.

use std::path::Path;
use std::time::Duration;

use redb::{
    Database, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _,
    TableDefinition,
};

use super::push::Push;

const DELIVERIES: TableDefinition<'_, &str, u64> = TableDefinition::new("deliveries");
const WORK: TableDefinition<'_, u64, &str> = TableDefinition::new("work");
const TOLD: TableDefinition<'_, &str, &str> = TableDefinition::new("told");
/// Most deliveries that are remembered; those beyond are refused until some are too old to matter.
const MOST_DELIVERIES: u64 = 200_000;
/// Most pushes that wait to be dealt with.
const MOST_WORK: u64 = 10_000;

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the record of webhooks cannot be used: {0}")]
pub struct LedgerError(String);

macro_rules! from {
    ($($kind:ty),*) => {
        $(impl From<$kind> for LedgerError {
            fn from(fault: $kind) -> Self {
                Self(fault.to_string())
            }
        })*
    };
}

from!(
    redb::DatabaseError,
    redb::TransactionError,
    redb::TableError,
    redb::StorageError,
    redb::CommitError,
    serde_json::Error
);

/// What became of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is kept, as this piece of work.
    New(u64),
    /// It was there before.
    Again,
    /// There is no room.
    Full,
}

/// The file.
#[derive(Debug)]
pub(super) struct Ledger(Database);

impl Ledger {
    pub(super) fn open(path: &Path) -> Result<Self, LedgerError> {
        let database = Database::create(path)?;
        let write = database.begin_write()?;
        write.open_table(DELIVERIES)?;
        write.open_table(WORK)?;
        write.open_table(TOLD)?;
        write.commit()?;
        Ok(Self(database))
    }

    /// Keeps a delivery under each of its names, and what it asks for. `now` is in seconds.
    pub(super) fn take(
        &self,
        names: &[String],
        push: &Push,
        now: u64,
        window: Duration,
    ) -> Result<Taken, LedgerError> {
        let text = serde_json::to_string(push)?;
        let write = self.0.begin_write()?;
        let taken = {
            let mut deliveries = write.open_table(DELIVERIES)?;
            for name in names {
                let until = deliveries.get(name.as_str())?.map(|until| until.value());
                if until.is_some_and(|until| until > now) {
                    return Ok(Taken::Again);
                }
            }
            if deliveries.len()? >= MOST_DELIVERIES {
                deliveries.retain(|_, until| until > now)?;
            }
            let mut work = write.open_table(WORK)?;
            if deliveries.len()? >= MOST_DELIVERIES || work.len()? >= MOST_WORK {
                return Ok(Taken::Full);
            }
            for name in names {
                deliveries.insert(name.as_str(), now.saturating_add(window.as_secs()))?;
            }
            let next = work.last()?.map_or(0, |(last, _)| last.value() + 1);
            work.insert(next, text.as_str())?;
            Taken::New(next)
        };
        write.commit()?;
        Ok(taken)
    }

    /// What is still to be done, oldest first.
    pub(super) fn work(&self) -> Result<Vec<(u64, Push)>, LedgerError> {
        let read = self.0.begin_read()?;
        let work = read.open_table(WORK)?;
        let mut all = Vec::new();
        for row in work.iter()? {
            let (id, text) = row?;
            if let Ok(push) = serde_json::from_str(text.value()) {
                all.push((id.value(), push));
            }
        }
        Ok(all)
    }

    /// It was done, or given up.
    pub(super) fn done(&self, id: u64) -> Result<(), LedgerError> {
        let write = self.0.begin_write()?;
        write.open_table(WORK)?.remove(id)?;
        write.commit()?;
        Ok(())
    }

    /// The last event that somebody was told of.
    pub(super) fn told(&self, name: &str) -> Result<Option<String>, LedgerError> {
        let read = self.0.begin_read()?;
        let told = read.open_table(TOLD)?;
        Ok(told.get(name)?.map(|id| id.value().to_owned()))
    }

    /// Somebody was told of this event.
    pub(super) fn tell(&self, name: &str, id: &str) -> Result<(), LedgerError> {
        let write = self.0.begin_write()?;
        write.open_table(TOLD)?.insert(name, id)?;
        write.commit()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(100);

    fn push() -> Push {
        Push { repository: "org/shop".to_owned(), reference: "refs/heads/main".to_owned() }
    }

    fn names(id: &str, body: &str) -> Vec<String> {
        vec![format!("id:{id}"), format!("body:{body}")]
    }

    #[test]
    fn a_delivery_is_taken_once_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("webhooks.redb");
        let ledger = Ledger::open(&path).unwrap();
        assert_eq!(ledger.take(&names("1", "a"), &push(), 1000, WINDOW).unwrap(), Taken::New(0));
        assert_eq!(ledger.take(&names("1", "b"), &push(), 1000, WINDOW).unwrap(), Taken::Again);
        // The same body under another id is a replay too: the id is not signed.
        assert_eq!(ledger.take(&names("2", "a"), &push(), 1000, WINDOW).unwrap(), Taken::Again);
        drop(ledger);
        let ledger = Ledger::open(&path).unwrap();
        assert_eq!(ledger.take(&names("1", "a"), &push(), 1099, WINDOW).unwrap(), Taken::Again);
        assert_eq!(ledger.work().unwrap(), [(0, push())]);
        assert_eq!(ledger.take(&names("3", "c"), &push(), 1099, WINDOW).unwrap(), Taken::New(1));
        ledger.done(0).unwrap();
        assert_eq!(ledger.work().unwrap(), [(1, push())]);
        assert_eq!(ledger.take(&names("1", "a"), &push(), 1200, WINDOW).unwrap(), Taken::New(2));
    }

    #[test]
    fn how_far_somebody_was_told_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("webhooks.redb");
        let ledger = Ledger::open(&path).unwrap();
        assert_eq!(ledger.told("chat").unwrap(), None);
        ledger.tell("chat", "00000000000000000007").unwrap();
        drop(ledger);
        let told = Ledger::open(&path).unwrap().told("chat").unwrap();
        assert_eq!(told.as_deref(), Some("00000000000000000007"));
    }
}
