//! Where the scheduler keeps its records: in memory, in a file of its own, or in etcd.
//!
//! ```text
//!   Replica ── StoreCall ──► answer ──► dyn Store ─┬─► Memory     a fake with a clock and outages
//!           ◄─ StoreReply ──                       ├─► Embedded   one file, one writer thread
//!                                │                 └─► Etcd       shared by several schedulers
//!                                │
//!            chain: who leads, where the head is, what one commit writes
//!            book:  records to bytes and back, what cannot be read is kept aside
//!            trail: the audit log, a key per commit
//!            revisions: the earlier revisions of a workload
//!            key, record: the layout an operator sees
//! ```
//!
//! `archive` is a copy of any of them as one file.
//!
//! What holds for every store, and is shown by one suite in `tests/store/contract`:
//!
//! 1. Units are stored together or not at all, each commit exactly where its chain stands.
//! 2. What was acknowledged is there after a crash.
//! 3. Nothing is deleted because it cannot be read.
//! 4. "Unavailable" means that surely nothing was done; otherwise the answer is "unknown".

mod answer;
pub mod archive;
mod book;
mod chain;
pub mod embedded;
mod error;
pub mod etcd;
mod key;
pub mod memory;
mod record;
mod revisions;
mod settings;
mod store;
mod trail;

pub use answer::{Answered, answer};
pub use embedded::Embedded;
pub use error::Error;
pub use etcd::{Etcd, EtcdSettings};
pub use key::{BadRoot, Keys};
pub use memory::Memory;
pub use record::{Leader, StoredSpec};
pub use revisions::Revisions;
pub use settings::Settings;
pub use store::{Campaign, History, Loaded, Pairs, Quarantined, Span, Store};
pub use trail::{Stretch, Trail};
