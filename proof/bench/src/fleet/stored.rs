//! What is in the store, and whether anybody wrote to it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use persys_etcd::{Client, Pages, Range};
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use super::Fault;

type Table = TableDefinition<'static, &'static str, &'static [u8]>;

/// Where the records are.
pub(super) enum Records {
    File(PathBuf),
    Etcd(Client),
}

/// What is in the store at the end.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    /// Records and their bytes, by the first word of their key.
    pub(crate) records: BTreeMap<String, (u64, u64)>,
    /// Size of the file.
    pub(crate) file_bytes: u64,
}

impl Stored {
    fn add(&mut self, key: &str, value: usize) -> Result<(), Fault> {
        let word = key.trim_start_matches('/').split('/').next().unwrap_or_default();
        let (count, bytes) = self.records.entry(word.to_owned()).or_default();
        *count += 1;
        *bytes += u64::try_from(key.len() + value)?;
        Ok(())
    }
}

impl Records {
    /// A number that is another after every write: the time of the file in nanoseconds, or etcd's
    /// revision.
    pub(crate) async fn mark(&self) -> Result<u128, Fault> {
        match self {
            Self::File(path) => {
                let touched = std::fs::metadata(path)?.modified()?;
                Ok(touched.duration_since(UNIX_EPOCH)?.as_nanos())
            }
            Self::Etcd(client) => Ok(u128::try_from(client.status().await?.revision)?),
        }
    }

    /// Counts all there is.
    pub(crate) async fn count(&self) -> Result<Stored, Fault> {
        let mut stored = Stored::default();
        match self {
            Self::File(path) => {
                stored.file_bytes = std::fs::metadata(path)?.len();
                let database = Database::open(path)?;
                let reading = database.begin_read()?;
                for name in ["records", "events"] {
                    let table = reading.open_table(Table::new(name))?;
                    for entry in table.iter()? {
                        let (key, value) = entry?;
                        stored.add(key.value(), value.value().len())?;
                    }
                }
            }
            Self::Etcd(client) => {
                stored.file_bytes = u64::try_from(client.status().await?.size_bytes)?;
                let mut pages = Pages::new(client, Range::between("/", "0"));
                while let Some(page) = pages.next().await? {
                    for record in page {
                        stored.add(&String::from_utf8_lossy(&record.key), record.value.len())?;
                    }
                }
            }
        }
        Ok(stored)
    }
}
