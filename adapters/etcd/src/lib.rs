//! A thin client of etcd, with what a control plane needs around the bare calls.
//!
//! ```text
//!   call ──► breaker ──► endpoint in use ──► connected? ──► token ──► sent ──► answer
//!             open:        next one when        no: surely                no answer:
//!             refused      this one fails       not done                  outcome unknown
//! ```
//!
//! Every call ends within its deadline, and every failure says whether etcd may have done what was
//! asked ([`Error::is_unknown`]): only a call that was surely not sent, or that etcd itself refused,
//! counts as not done. A write is never sent twice by this crate.

mod breaker;
mod call;
mod client;
mod connect;
mod endpoint;
mod error;
mod generated;
mod page;
mod request;
mod said;
mod settings;

pub use client::{Client, LeaseId, Status, Watching};
pub use connect::ConnectError;
pub use endpoint::{BadEndpoint, Endpoint};
pub use error::{Error, Kind, NO_SPACE};
pub use generated::KeyValue;
pub use page::{Page, Pages};
pub use request::{Compare, Found, Op, Range, Txn, TxnDone};
pub use said::{Fault, Said};
pub use settings::{Login, Settings, Tls};

/// The parts of a message whose bytes are shared, not copied.
pub use prost::bytes::Bytes;

/// Most operations that etcd takes in one transaction, unless it was told otherwise.
pub const MOST_OPERATIONS: usize = 128;
/// Most bytes that etcd takes in one request, unless it was told otherwise.
pub const MOST_BYTES: usize = 1024 * 1024 * 3 / 2;
