//! Names of the cluster, for whoever asks.
//!
//! ```text
//!   Directory (core) ── changes ──► Book ◄── questions ── server (UDP, TCP)
//!                         │
//!                         └───────► Publisher ──► RecordSink: SkyDNS records, which CoreDNS serves
//! ```
//!
//! | question | file |
//! |---|---|
//! | what is answered to a question | `answer.rs` |
//! | how questions come in, and how many | `server.rs`, `meter.rs` |
//! | how a record looks in etcd | `skydns.rs` |
//! | when records are written, kept and removed there | `publish.rs` |
//!
//! Nothing here can harm the cluster: whatever goes wrong is warned about, once, and tried again.

pub mod answer;
pub mod book;
mod meter;
pub mod publish;
pub mod server;
pub mod sink;
pub mod skydns;

pub use book::Book;
pub use publish::{Publisher, Rights};
pub use server::Server;
pub use sink::{MemorySink, RecordSink, SinkError};
