//! Records that are neither workloads nor nodes: kept, forgotten, and told to those who judge by them.

use std::sync::Arc;

use persys_model::entry::{Entries, Entry, EntryKey};
use persys_model::event::Happening;

use super::World;
use crate::effects::{Mark, Outbound, RefusalCode};
use crate::input::RequestId;
use crate::record::Write;

/// Most records of one kind: all of them are held in memory and looked through.
const MOST_ENTRIES: usize = 10_000;

impl World {
    /// Keeps a record, in place of the one that has its key.
    pub(super) fn keep(&mut self, request: RequestId, entry: Arc<Entry>) {
        let key = entry.key();
        let before = self.entries.get(&key);
        if before.is_some_and(|before| *before == entry) {
            self.mark(Mark::Idempotent);
            return self.done(request, "nothing to change");
        }
        if before.is_none() && self.entries.count(key.kind) >= MOST_ENTRIES {
            let why = format!("there are {MOST_ENTRIES} of this kind already: {}", key.kind.word());
            return self.refuse(request, RefusalCode::Exhausted, why);
        }
        let what = if before.is_some() { "change" } else { "make" };
        let secret = match &*entry {
            Entry::Secret(secret) => Some(secret.name.clone()),
            Entry::Namespace(_) | Entry::Binding(_) | Entry::UserToken(_) => None,
        };
        self.put_entry(entry);
        if let Some(secret) = secret {
            self.secret_was_set(&secret);
        }
        self.entry_happened(what, &key);
        self.done(request, "accepted");
    }

    /// Forgets a record.
    pub(super) fn forget(&mut self, request: RequestId, key: &EntryKey) {
        if !self.drop_entry(key) {
            return self.refuse(request, RefusalCode::NotFound, format!("there is no {key}"));
        }
        self.entry_happened("delete", key);
        self.done(request, "accepted");
    }

    /// Puts a record into memory and into the open unit. Whoever judges by it hears of it once it is
    /// durable.
    pub(super) fn put_entry(&mut self, entry: Arc<Entry>) {
        Arc::make_mut(&mut self.entries).insert(Arc::clone(&entry));
        self.write(Write::PutEntry(entry));
        self.tell_entries();
    }

    /// Takes a record out of memory and, with the open unit, out of the store. Says whether it was
    /// there.
    pub(super) fn drop_entry(&mut self, key: &EntryKey) -> bool {
        if self.entries.get(key).is_none() {
            return false;
        }
        Arc::make_mut(&mut self.entries).remove(key);
        self.write(Write::DeleteEntry(key.clone()));
        self.tell_entries();
        true
    }

    /// Notes what was done to a record, in one event with its author.
    pub(super) fn entry_happened(&mut self, what: &str, key: &EntryKey) {
        let what = Arc::from(format!("{what} the {key}"));
        self.happen(Happening::Asked { what, workload: None, node: None });
    }

    /// Tells by which records requests are judged, once all that is decided so far is durable.
    pub(super) fn tell_entries(&mut self) {
        let entries: Arc<Entries> = Arc::clone(&self.entries);
        self.later(Outbound::Entries(entries));
    }
}
