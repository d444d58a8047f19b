//! Records to bytes and back, and what is to be remembered between the two.
//!
//! Reading fills the book anew: which records have fields of another release, and which cannot be
//! read at all. Writing keeps the former and moves the latter aside. Between a failed write and
//! the next reading the book may know less than the store; nothing is written in between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_cluster::record::{Head, Unit, Write};
use persys_model::assignment::{Assignment, Grave};
use persys_model::drift::Drift;
use persys_model::entry::Entry;
use persys_model::event::Event;
use persys_model::lease::Lease;
use persys_model::node::Node;
use persys_model::retry::Retry;
use persys_model::volume::{Attachment, Volume};
use persys_model::workload::Workload;

use crate::error::Error;
use crate::key::{Keys, Noun};
use crate::record::{
    Record, Unknown, decode, decode_entry, encode, encode_entry, encode_reconciliation,
};
use crate::store::{Loaded, Quarantined};
use crate::trail::{Change, Packs};

/// One change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Edit {
    Put(String, Vec<u8>),
    Delete(String),
    Event(Arc<Event>, Vec<u8>),
}

/// What is remembered between reading and writing.
#[derive(Debug)]
pub(crate) struct Book {
    pub(crate) keys: Keys,
    unknown: BTreeMap<String, Unknown>,
    aside: BTreeSet<String>,
    audit: Packs,
}

impl Book {
    pub(crate) fn new(keys: Keys) -> Self {
        Self { keys, unknown: BTreeMap::new(), aside: BTreeSet::new(), audit: Packs::default() }
    }

    /// Forgets everything: the store is about to be read.
    pub(crate) fn clear(&mut self) {
        self.unknown.clear();
        self.aside.clear();
        self.audit.clear();
    }

    /// Takes over what another book learned of other keys.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.unknown.extend(other.unknown);
        self.aside.extend(other.aside);
        self.audit.absorb(other.audit);
    }

    /// Whether `key` holds bytes that were not understood. It is asked once, before a write.
    pub(crate) fn was_aside(&mut self, key: &str) -> bool {
        self.aside.remove(key)
    }

    /// Takes in one record as it was read; the head is not among them.
    pub(crate) fn take(&mut self, key: &str, bytes: &[u8], loaded: &mut Loaded) {
        let keys = self.keys.clone();
        let snapshot = &mut loaded.snapshot;
        let taken = match keys.noun(key) {
            Noun::Head
            | Noun::Leader
            | Noun::Reconciliation
            | Noun::History
            | Noun::Event
            | Noun::Other => return,
            Noun::Audit => return self.audit.found(key),
            Noun::Foreign => Err("is nothing of ours".to_owned()),
            Noun::Node => {
                self.read(key, bytes, &mut snapshot.nodes, |node: &Node| keys.node(&node.facts.id))
            }
            Noun::Lease => {
                let of = |lease: &Lease| keys.lease(&lease.node);
                self.read(key, bytes, &mut snapshot.leases, of)
            }
            Noun::Workload => {
                let of = |workload: &Workload| keys.workload(&workload.id);
                self.read(key, bytes, &mut snapshot.workloads, of)
            }
            Noun::Assignment => {
                let of = |assignment: &Assignment| keys.assignment(&assignment.workload);
                self.read(key, bytes, &mut snapshot.assignments, of)
            }
            Noun::Retry => {
                let of = |retry: &Retry| keys.retry(&retry.workload);
                self.read(key, bytes, &mut snapshot.retries, of)
            }
            Noun::Grave => {
                let of = |grave: &Grave| keys.grave(&grave.node, &grave.workload);
                self.read(key, bytes, &mut snapshot.graves, of)
            }
            Noun::Drift => {
                let of = |drift: &Drift| keys.drift(&drift.node, &drift.workload, drift.kind);
                self.read(key, bytes, &mut snapshot.drifts, of)
            }
            Noun::Entry(kind) => decode_entry(kind, bytes).and_then(|read| {
                let of = |entry: &Entry| keys.entry(&entry.key());
                self.put_in(key, read, &mut snapshot.entries, of)
            }),
            Noun::Volume => {
                let of = |volume: &Volume| keys.volume(&volume.key);
                self.read(key, bytes, &mut snapshot.volumes, of)
            }
            Noun::Attachment => {
                let of = |one: &Attachment| keys.attachment(&one.node, &one.workload, &one.volume);
                self.read(key, bytes, &mut snapshot.attachments, of)
            }
        };
        if let Err(why) = taken {
            self.aside.insert(key.to_owned());
            loaded.quarantined.push(Quarantined { key: key.to_owned(), why });
        }
    }

    fn read<R: Record>(
        &mut self,
        key: &str,
        bytes: &[u8],
        into: &mut Vec<Arc<R>>,
        key_of: impl Fn(&R) -> String,
    ) -> Result<(), String> {
        self.put_in(key, decode::<R>(bytes)?, into, key_of)
    }

    fn put_in<R>(
        &mut self,
        key: &str,
        (record, unknown): (R, Option<Unknown>),
        into: &mut Vec<Arc<R>>,
        key_of: impl Fn(&R) -> String,
    ) -> Result<(), String> {
        let own_key = key_of(&record);
        if own_key != key {
            return Err(format!("belongs under {own_key}"));
        }
        if let Some(unknown) = unknown {
            self.unknown.insert(key.to_owned(), unknown);
        }
        into.push(Arc::new(record));
        Ok(())
    }

    /// The head as it is stored.
    pub(crate) fn read_head(&self, bytes: Option<&[u8]>) -> Result<Option<Head>, Error> {
        let Some(bytes) = bytes else { return Ok(None) };
        match decode::<Head>(bytes) {
            Ok((head, _)) => Ok(Some(head)),
            // Without its counters nothing can be decided, and "empty" would be a lie.
            Err(why) => Err(Error::Unreadable { key: self.keys.head(), why }),
        }
    }

    /// The bytes of a head.
    pub(crate) fn head(&self, head: &Head) -> Result<Edit, Error> {
        put(self.keys.head(), head, None)
    }

    /// The changes of `units`, in order, without the head.
    pub(crate) fn edits(&mut self, units: &[Unit]) -> Result<Vec<Edit>, Error> {
        let mut edits = Vec::new();
        for write in units.iter().flat_map(|unit| &unit.writes) {
            if let Write::PutAudit(record) = write {
                self.audit.add(record);
            } else {
                edits.push(self.edit(write)?);
            }
        }
        for change in self.audit.settle(&self.keys)? {
            edits.push(match change {
                Change::Put(key, bytes) => Edit::Put(key, bytes),
                Change::Delete(key) => Edit::Delete(key),
            });
        }
        Ok(edits)
    }

    fn edit(&mut self, write: &Write) -> Result<Edit, Error> {
        let keys = &self.keys;
        let key = match write {
            Write::PutNode(node) => return self.put(keys.node(&node.facts.id), &**node),
            Write::PutLease(lease) => return self.put(keys.lease(&lease.node), &**lease),
            Write::PutReconciliation(one) => {
                let bytes = encode_reconciliation(one).map_err(Error::unavailable)?;
                return Ok(Edit::Put(keys.reconciliation(&one.workload), bytes));
            }
            Write::PutWorkload(workload) => {
                return self.put(keys.workload(&workload.id), &**workload);
            }
            Write::PutAssignment(assignment) => {
                return self.put(keys.assignment(&assignment.workload), &**assignment);
            }
            Write::PutRetry(retry) => return self.put(keys.retry(&retry.workload), &**retry),
            Write::PutGrave(grave) => {
                return self.put(keys.grave(&grave.node, &grave.workload), &**grave);
            }
            Write::PutDrift(drift) => {
                let key = keys.drift(&drift.node, &drift.workload, drift.kind);
                return self.put(key, &**drift);
            }
            Write::PutEntry(entry) => {
                let key = keys.entry(&entry.key());
                let bytes = encode_entry(entry, self.unknown.get(&key));
                return Ok(Edit::Put(key, bytes.map_err(Error::unavailable)?));
            }
            Write::PutVolume(volume) => return self.put(keys.volume(&volume.key), &**volume),
            Write::PutAttachment(one) => {
                let key = keys.attachment(&one.node, &one.workload, &one.volume);
                return self.put(key, &**one);
            }
            Write::PutRevision(one) => {
                return self.put(keys.revision(&one.workload, one.number), &**one);
            }
            Write::PutBody(body) => {
                return self.put(keys.body(&body.workload, &body.content), &**body);
            }
            Write::PutEvent(event) => {
                let bytes = encode(&**event, None).map_err(Error::unavailable)?;
                return Ok(Edit::Event(Arc::clone(event), bytes));
            }
            // Written together with the others of its commit.
            Write::PutAudit(_) => return Err(Error::unavailable("an audit record on its own")),
            Write::DeleteNode(id) => keys.node(id),
            Write::DeleteLease(id) => keys.lease(id),
            Write::DeleteReconciliation(id) => keys.reconciliation(id),
            Write::DeleteWorkload(id) => keys.workload(id),
            Write::DeleteAssignment(id) => keys.assignment(id),
            Write::DeleteRetry(id) => keys.retry(id),
            Write::DeleteGrave(node, workload) => keys.grave(node, workload),
            Write::DeleteDrift(node, workload, kind) => keys.drift(node, workload, *kind),
            Write::DeleteEntry(key) => keys.entry(key),
            Write::DeleteVolume(key) => keys.volume(key),
            Write::DeleteAttachment(node, workload, key) => keys.attachment(node, workload, key),
            Write::DeleteRevision(workload, number) => keys.revision(workload, *number),
            Write::DeleteBody(workload, content) => keys.body(workload, content),
        };
        self.unknown.remove(&key);
        Ok(Edit::Delete(key))
    }

    fn put<R: Record>(&self, key: String, record: &R) -> Result<Edit, Error> {
        let unknown = self.unknown.get(&key);
        put(key, record, unknown)
    }
}

/// A change that writes `record`. A record that has no JSON was surely not written.
pub(crate) fn put<R: Record>(
    key: String,
    record: &R,
    unknown: Option<&Unknown>,
) -> Result<Edit, Error> {
    let bytes = encode(record, unknown).map_err(Error::unavailable)?;
    Ok(Edit::Put(key, bytes))
}
