//! What the file of a scheduler holds, read past the scheduler.

#![expect(clippy::expect_used, reason = "a test stops at what cannot be")]

use std::collections::BTreeMap;

use redb::{ReadableDatabase as _, ReadableTable as _, TableDefinition};

use crate::processes::Stack;

impl Stack {
    /// All records of the store but events and the audit log, which are history, once its scheduler has ended.
    #[must_use]
    pub fn records(&self) -> BTreeMap<String, serde_json::Value> {
        const RECORDS: TableDefinition<'static, &'static str, &'static [u8]> =
            TableDefinition::new("records");
        let path = self.folder_of("scheduler").join("store.redb");
        let store = redb::Database::open(path).expect("the store");
        let reading = store.begin_read().expect("a transaction");
        let table = reading.open_table(RECORDS).expect("a table");
        let entries = table.iter().expect("entries").map(|entry| entry.expect("an entry"));
        entries
            .filter(|(key, _)| !key.value().starts_with("/audit/"))
            .map(|(key, value)| {
                let value = serde_json::from_slice(value.value()).expect("JSON");
                (key.value().to_owned(), value)
            })
            .collect()
    }
}
