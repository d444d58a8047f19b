//! The store in a file keeps the contract.

use std::path::PathBuf;
use std::sync::Arc;

use persys_store::{Embedded, Settings, Store};
use redb::{Database, ReadableDatabase, TableDefinition};
use tempfile::TempDir;

use crate::contract::Fixture;

/// The tables of the file, which a rescue tool may rely on.
const RECORDS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("records");
const EVENTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("events");

struct InFile {
    _folder: TempDir,
    path: PathBuf,
    settings: Settings,
    store: Embedded,
}

impl InFile {
    fn table(key: &str) -> TableDefinition<'static, &'static str, &'static [u8]> {
        if key.contains("/events/") { EVENTS } else { RECORDS }
    }

    /// Closes the store, lets somebody at the file, and opens it again.
    async fn past<T>(&mut self, act: impl FnOnce(&Database) -> T + Send) -> T {
        self.store.close().await;
        let done = act(&Database::open(&self.path).unwrap());
        self.store = Embedded::open(&self.path, self.settings.clone()).unwrap();
        done
    }
}

#[async_trait::async_trait]
impl Fixture for InFile {
    async fn new(settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("persys.redb");
        let store = Embedded::open(&path, settings.clone()).unwrap();
        Self { _folder: folder, path, settings, store }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn succeed(&mut self) {
        self.store.close().await;
        self.store = Embedded::open(&self.path, self.settings.clone()).unwrap();
    }

    async fn put_bytes(&mut self, key: &str, bytes: &[u8]) {
        self.past(|database| {
            let transaction = database.begin_write().unwrap();
            transaction.open_table(Self::table(key)).unwrap().insert(key, bytes).unwrap();
            transaction.commit().unwrap();
        })
        .await;
    }

    async fn bytes(&mut self, key: &str) -> Option<Vec<u8>> {
        self.past(|database| {
            let transaction = database.begin_read().unwrap();
            let table = transaction.open_table(Self::table(key)).unwrap();
            table.get(key).unwrap().map(|bytes| bytes.value().to_vec())
        })
        .await
    }
}

suite!(InFile);
