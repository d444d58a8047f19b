//! The history of actions beside the ledger. It is no promise to anybody: it goes to disk with the
//! ledger's own writes, or some seconds later, and a row that cannot be read is passed over.

use std::io;
use std::time::Duration;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::{FileKeeper, Keeper as _, record};
use crate::history::{Action, History, MOST_ACTIONS};

const ACTIONS: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("actions");
/// How long an action may be known to this process alone.
const BEHIND: Duration = Duration::from_secs(10);

/// Writes actions as they are now, and drops those that are too long ago.
pub(super) fn put(transaction: &WriteTransaction, actions: &[&Action]) -> Result<(), redb::Error> {
    if actions.is_empty() {
        return Ok(());
    }
    let limit = u64::try_from(MOST_ACTIONS).unwrap_or(u64::MAX);
    let mut table = transaction.open_table(ACTIONS)?;
    for action in actions {
        let bytes = record::action(action)
            .map_err(|error| redb::Error::Io(io::Error::other(error.to_string())))?;
        table.insert(action.id, bytes.as_slice())?;
        if let Some(old) = action.id.checked_sub(limit) {
            table.remove(old)?;
        }
    }
    Ok(())
}

/// All that can be read, oldest first.
pub(super) fn read(database: &Database) -> History {
    let rows = || -> Result<Vec<Action>, redb::Error> {
        let table = database.begin_read()?.open_table(ACTIONS)?;
        let mut all = Vec::new();
        for row in table.iter()? {
            let (id, bytes) = row?;
            match record::read_action(id.value(), bytes.value()) {
                Ok(action) => all.push(action),
                Err(error) => tracing::warn!(?error, "an action of the past cannot be read"),
            }
        }
        Ok(all)
    };
    let mut history = History::default();
    // A file of an earlier release has no such table.
    for action in rows().unwrap_or_default() {
        history.put(action);
    }
    history
}

/// Has noted actions written when no change of the ledger takes them along.
pub(crate) async fn write_behind(keeper: FileKeeper) {
    loop {
        tokio::time::sleep(BEHIND).await;
        if let Err(error) = keeper.flush().await {
            tracing::debug!(%error, "history");
        }
    }
}
