//! The inside of one redb transaction.

use persys_model::id::WorkloadId;
use redb::{
    Database, ReadOnlyTable, ReadableDatabase, ReadableTable, ReadableTableMetadata, Table,
    TableDefinition, WriteTransaction,
};

use crate::chain::{self, Shelf};
use crate::error::Error;
use crate::key::Keys;
use crate::revisions::Revisions;
use crate::store::{History, Loaded, Pairs, Span};
use crate::trail::{Back, Stretch, Trail};

type Definition = TableDefinition<'static, &'static str, &'static [u8]>;

/// Everything but events, by key.
const RECORDS: Definition = TableDefinition::new("records");
/// Events, by key.
const EVENTS: Definition = TableDefinition::new("events");

/// Both tables, open for writing. Whatever fails here is not yet committed.
#[derive(Debug)]
pub(super) struct Tables<'t> {
    records: Table<'t, &'static str, &'static [u8]>,
    events: Table<'t, &'static str, &'static [u8]>,
}

impl<'t> Tables<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self, Error> {
        Ok(Self {
            records: transaction.open_table(RECORDS).map_err(Error::unavailable)?,
            events: transaction.open_table(EVENTS).map_err(Error::unavailable)?,
        })
    }
}

impl Shelf for Tables<'_> {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let found = self.records.get(key).map_err(Error::unavailable)?;
        Ok(found.map(|bytes| bytes.value().to_vec()))
    }

    fn put(&mut self, key: &str, bytes: &[u8]) -> Result<(), Error> {
        drop(self.records.insert(key, bytes).map_err(Error::unavailable)?);
        Ok(())
    }

    fn delete(&mut self, key: &str) -> Result<(), Error> {
        drop(self.records.remove(key).map_err(Error::unavailable)?);
        Ok(())
    }

    fn each(&self, see: &mut dyn FnMut(&str, &[u8])) -> Result<(), Error> {
        show_all(&self.records, see)
    }

    fn put_event(&mut self, key: &str, bytes: &[u8]) -> Result<(), Error> {
        drop(self.events.insert(key, bytes).map_err(Error::unavailable)?);
        Ok(())
    }

    fn event_count(&self) -> Result<u64, Error> {
        self.events.len().map_err(Error::unavailable)
    }

    fn oldest_event(&self) -> Result<Option<String>, Error> {
        let oldest = self.events.first().map_err(Error::unavailable)?;
        Ok(oldest.map(|(key, _)| key.value().to_owned()))
    }

    fn delete_oldest_event(&mut self) -> Result<(), Error> {
        drop(self.events.pop_first().map_err(Error::unavailable)?);
        Ok(())
    }

    fn events_back(&self, see: &mut dyn FnMut(&str, &[u8]) -> bool) -> Result<(), Error> {
        show_back(&self.events, see)
    }
}

/// The file as it was at one moment; the writer goes on meanwhile.
#[derive(Debug)]
pub(super) struct Reading {
    keys: Keys,
    records: ReadOnlyTable<&'static str, &'static [u8]>,
    events: ReadOnlyTable<&'static str, &'static [u8]>,
}

impl Reading {
    pub(super) fn begin(database: &Database, keys: Keys) -> Result<Self, Error> {
        let transaction = database.begin_read().map_err(Error::unavailable)?;
        Ok(Self {
            keys,
            records: transaction.open_table(RECORDS).map_err(Error::unavailable)?,
            events: transaction.open_table(EVENTS).map_err(Error::unavailable)?,
        })
    }

    /// A stretch of the audit log, without looking at anything else.
    pub(super) fn audit(&self, stretch: Stretch) -> Result<Trail, Error> {
        let [(mut from, to), meta] = self.keys.of_audit(stretch.before);
        let mut back = Back::over(stretch);
        let found = self.records.range(from.as_str()..to.as_str());
        for entry in found.map_err(Error::unavailable)?.rev() {
            let (key, _) = entry.map_err(Error::unavailable)?;
            if back.is_enough(key.value()) {
                key.value().clone_into(&mut from);
                break;
            }
        }
        let pairs = self.part(&[(from, to), meta])?;
        Ok(Trail::within(&pairs).cut(stretch))
    }

    /// The earlier revisions of a workload, without looking at anything else.
    pub(super) fn revisions(&self, workload: &WorkloadId) -> Result<Revisions, Error> {
        let pairs = self.part(&[self.keys.of_history(workload)])?;
        Ok(Revisions::within(&pairs, workload))
    }

    /// The records in these folders.
    fn part(&self, folders: &[(String, String)]) -> Result<Pairs, Error> {
        chain::dump(
            &self.keys,
            Box::new(|see| {
                for (from, to) in folders {
                    let found = self.records.range(from.as_str()..to.as_str());
                    for entry in found.map_err(Error::unavailable)? {
                        let (key, bytes) = entry.map_err(Error::unavailable)?;
                        see(key.value(), bytes.value());
                    }
                }
                Ok(())
            }),
        )
    }

    /// All that lasts.
    pub(super) fn dump(&self) -> Result<Pairs, Error> {
        chain::dump(
            &self.keys,
            Box::new(|see| {
                for table in [&self.records, &self.events] {
                    for entry in table.iter().map_err(Error::unavailable)? {
                        let (key, bytes) = entry.map_err(Error::unavailable)?;
                        see(key.value(), bytes.value());
                    }
                }
                Ok(())
            }),
        )
    }
}

/// Reads one record without disturbing the writer.
pub(super) fn read_record(database: &Database, key: &str) -> Result<Option<Vec<u8>>, Error> {
    let transaction = database.begin_read().map_err(Error::unavailable)?;
    let table = transaction.open_table(RECORDS).map_err(Error::unavailable)?;
    let found = table.get(key).map_err(Error::unavailable)?;
    Ok(found.map(|bytes| bytes.value().to_vec()))
}

/// Reads everything without disturbing the writer.
pub(super) fn read_all(database: &Database, keys: &Keys) -> Result<Loaded, Error> {
    let transaction = database.begin_read().map_err(Error::unavailable)?;
    let table = transaction.open_table(RECORDS).map_err(Error::unavailable)?;
    chain::peek(keys, Box::new(|see| show_all(&table, see)))
}

/// Reads events without disturbing the writer.
pub(super) fn read_events(database: &Database, span: Span) -> Result<History, Error> {
    let transaction = database.begin_read().map_err(Error::unavailable)?;
    let table = transaction.open_table(EVENTS).map_err(Error::unavailable)?;
    chain::events(span, Box::new(|see| show_back(&table, see)))
}

fn show_all(
    table: &impl ReadableTable<&'static str, &'static [u8]>,
    see: &mut dyn FnMut(&str, &[u8]),
) -> Result<(), Error> {
    for entry in table.iter().map_err(Error::unavailable)? {
        let (key, bytes) = entry.map_err(Error::unavailable)?;
        see(key.value(), bytes.value());
    }
    Ok(())
}

fn show_back(
    table: &impl ReadableTable<&'static str, &'static [u8]>,
    see: &mut dyn FnMut(&str, &[u8]) -> bool,
) -> Result<(), Error> {
    for entry in table.iter().map_err(Error::unavailable)?.rev() {
        let (key, bytes) = entry.map_err(Error::unavailable)?;
        if !see(key.value(), bytes.value()) {
            break;
        }
    }
    Ok(())
}
