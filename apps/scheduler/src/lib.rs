//! The scheduler as a program.
//!
//! ```text
//!   rpc, http ──► Handle ──► driver ──► Replica::step ──► store calls · orders · answers
//!                              ▲                             │          │
//!                              └──────── store replies ◄─────┘          ▼
//!                              └──────── agents' answers ◄───────── links (one queue per node)
//! ```
//!
//! | question | file |
//! |---|---|
//! | how it is put together, started and stopped | `app.rs` |
//! | who is calling, and what they may | `rpc/guard.rs`, `rpc/access.rs`, `permit.rs` |
//! | what a request means, how it is refused | `rpc/` |
//! | what those who follow answer, and what they pass on | `copies.rs`, `rpc/forward.rs`, `rpc/on_behalf.rs` |
//! | how agents are called and probed | `links/grpc.rs` |
//! | how agents are reached that nobody can call | `rpc/stream.rs`, `links/streams.rs` |
//! | what probes and dashboards see | `http.rs`, `metrics/`, `standing.rs` |
//! | what is told of each operation, in traces and in the log | `operations.rs` |
//! | where the records are | `place.rs` |
//! | under which names everything is found | `discovery.rs`, `skydns.rs` |
//! | what this host remembers outside the store | `known.rs` |
//!
//! Nothing is decided here. The driver owns the replica and is the only one that steps it; all
//! others talk to it through a [`Handle`].

pub mod advertise;
mod announce;
pub mod app;
mod author;
mod callers;
pub mod clock;
mod copies;
mod counted;
pub mod discovery;
pub mod driver;
pub mod handle;
mod health;
mod http;
mod known;
pub mod links;
pub mod metrics;
mod moment;
mod operations;
mod orders;
mod permit;
pub mod place;
mod rpc;
mod secret_users;
mod secrets;
mod serve;
mod skydns;
pub mod standing;
mod usages;
mod vault_secrets;

pub use handle::{Handle, Unanswered};
