//! A copy of a store as one file that an operator can read, check, and put into any other store.
//!
//! ```text
//!   {"persys":"snapshot","v":1,"cluster":"c1","incarnation":0,"seq":7,"taken_ms":…,"records":{…}}
//!   {"key":"/meta/head","json":{"v":1,…}}          what is JSON stands as it is
//!   {"key":"/nodes/n9","base64":"/wD/"}            what is not stands coded
//!   {"sha256":"…"}                                 over every byte before this line
//! ```
//!
//! Records are in order of their keys, each byte for byte as the store had it: also those that
//! cannot be read. It holds the environment of workloads, so it is for its owner's eyes only.

mod file;
mod read;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_cluster::record::Head;
use persys_model::event::Event;
use persys_model::time::WallMillis;
use persys_model::token::CommitSeq;

use crate::book::{Book, Edit, put};
use crate::error::Error;
use crate::key::{Keys, Noun};
use crate::record::{Unknown, decode};
use crate::store::{Loaded, Pairs, Quarantined};

pub use file::{NewFile, open};
pub use read::{BadArchive, read};
pub use write::write;

/// The version that is written, and the newest that is read.
pub const VERSION: u32 = 1;
/// Largest file that is read or written.
pub const LARGEST: u64 = 1024 * 1024 * 1024;
/// Longest line.
const LONGEST_LINE: u64 = 32 * 1024 * 1024;
/// Longest key.
const LONGEST_KEY: usize = 1024;

/// What stands in front of the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The cluster's identity; `None` when the store had no head, or none that can be read.
    pub cluster: Option<Arc<str>>,
    /// How often it was rebuilt.
    pub incarnation: u64,
    /// The last unit in it.
    pub seq: CommitSeq,
    /// When it was taken, on the clock of who took it.
    pub taken: WallMillis,
    /// How many records there are of each kind.
    pub records: BTreeMap<String, u64>,
}

/// A copy of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    /// What it says of itself.
    pub header: Header,
    /// The records.
    pub pairs: Pairs,
}

/// What is in a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// Everything that can be read, the head included.
    pub loaded: Loaded,
    /// Events that can be read.
    pub events: u64,
}

impl Archive {
    /// A copy out of what a store gave, sorted as it gave it.
    #[must_use]
    pub fn new(pairs: Pairs, taken: WallMillis) -> Self {
        let mut records = BTreeMap::new();
        for (key, _) in &pairs {
            *records.entry(kind(key).to_owned()).or_insert(0) += 1;
        }
        let head = head_of(&pairs).ok().flatten().map(|(head, _)| head);
        let header = Header {
            cluster: head.as_ref().map(|head| Arc::clone(&head.cluster)),
            incarnation: head.as_ref().map_or(0, |head| head.incarnation),
            seq: head.as_ref().map_or(CommitSeq(0), |head| head.seq),
            taken,
            records,
        };
        Self { header, pairs }
    }

    /// What its records mean. Those that mean nothing are told by their keys.
    #[must_use]
    pub fn contents(&self) -> Contents {
        let keys = Keys::bare();
        let mut book = Book::new(keys.clone());
        let mut contents = Contents { loaded: Loaded::default(), events: 0 };
        let loaded = &mut contents.loaded;
        for (key, bytes) in &self.pairs {
            let unreadable = match keys.noun(key) {
                Noun::Head => match decode::<Head>(bytes) {
                    Ok((head, _)) => {
                        loaded.snapshot.head = Some(head);
                        continue;
                    }
                    Err(why) => why,
                },
                Noun::Event => match decode::<Event>(bytes) {
                    Ok(_) => {
                        contents.events += 1;
                        continue;
                    }
                    Err(why) => why,
                },
                Noun::Other if key.starts_with("/quarantine/") => {
                    "was moved aside, since it could not be read".to_owned()
                }
                Noun::Leader
                | Noun::Node
                | Noun::Lease
                | Noun::Reconciliation
                | Noun::History
                | Noun::Workload
                | Noun::Assignment
                | Noun::Retry
                | Noun::Grave
                | Noun::Drift
                | Noun::Entry(_)
                | Noun::Volume
                | Noun::Attachment
                | Noun::Audit
                | Noun::Other
                | Noun::Foreign => {
                    book.take(key, bytes, loaded);
                    continue;
                }
            };
            loaded.quarantined.push(Quarantined { key: key.clone(), why: unreadable });
        }
        contents
    }
}

/// The records of an older copy for an empty store: whoever leads it begins in recovery, since
/// nobody can know what happened after the copy was taken.
pub fn for_restoring(pairs: Pairs) -> Result<Pairs, Error> {
    change_head(pairs, |head| head.rebuilding = true)
}

/// The records of a store at rest for another store in its place. Stores count their leaderships
/// each on its own, and a later one must never seem older: so it counts as rebuilt once more.
pub fn for_moving(pairs: Pairs) -> Result<Pairs, Error> {
    change_head(pairs, |head| head.incarnation = head.incarnation.saturating_add(1))
}

fn change_head(mut pairs: Pairs, change: impl FnOnce(&mut Head)) -> Result<Pairs, Error> {
    let key = Keys::bare().head();
    let Some((mut head, unknown)) = head_of(&pairs)? else {
        return Err(Error::Unreadable { key, why: "is missing".to_owned() });
    };
    change(&mut head);
    if let Edit::Put(_, bytes) = put(key.clone(), &head, unknown.as_ref())?
        && let Some((_, old)) = pairs.iter_mut().find(|(found, _)| *found == key)
    {
        *old = bytes;
    }
    Ok(pairs)
}

fn head_of(pairs: &Pairs) -> Result<Option<(Head, Option<Unknown>)>, Error> {
    let key = Keys::bare().head();
    match pairs.iter().find(|(found, _)| *found == key) {
        None => Ok(None),
        Some((_, bytes)) => {
            decode::<Head>(bytes).map(Some).map_err(|why| Error::Unreadable { key, why })
        }
    }
}

/// The kind of a record, by its key.
fn kind(key: &str) -> &'static str {
    match Keys::bare().noun(key) {
        Noun::Head => "head",
        Noun::Leader => "leader",
        Noun::Node => "nodes",
        Noun::Lease => "leases",
        Noun::Reconciliation => "reconciliation",
        Noun::History => "history",
        Noun::Workload => "workloads",
        Noun::Assignment => "assignments",
        Noun::Retry => "retries",
        Noun::Grave => "graves",
        Noun::Drift => "drifts",
        Noun::Entry(kind) => kind.folder(),
        Noun::Volume => "volumes",
        Noun::Attachment => "attachments",
        Noun::Event => "events",
        Noun::Audit => "audit",
        Noun::Other => "quarantine",
        Noun::Foreign => "foreign",
    }
}
