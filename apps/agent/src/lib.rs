//! The agent as a program.
//!
//! ```text
//!   rpc ──► Handle ──► driver ──► Agent::step ──► ledger · lease · verbs · messages to the scheduler
//!                        ▲                          │        │        │             │
//!                        └── persisted, done, observed, registered, heard ◄─────────┘
//! ```
//!
//! Nothing is decided here. The driver owns the agent core and is the only one that steps it. It
//! keeps the order the core relies on: the lease is written before the verbs of the same step run,
//! and an observation is taken after the step that asked for it.
//!
//! | question | where |
//! |---|---|
//! | how it is put together, started and stopped | [`app`] |
//! | what is on disk, and what when the disk fails | [`ledger`] |
//! | who may ask what, and orders without tokens | [`rpc`] |
//! | which scheduler, or none | [`upward`] |
//! | what the machine is and uses | [`host`] |
//! | pages for probes and dashboards | `http`, [`metrics`] |
//! | what is told of each operation, in traces and in the log | `operations` |
//! | when the node joins anew | `life` |
//! | who stops exclusive work when the agent cannot | [`watchdog`] |
//! | what runs workloads, and what is offered | [`runtimes`] |

pub mod app;
mod choice;
pub mod disks;
pub mod driver;
mod evidence;
pub mod handle;
pub mod history;
pub mod host;
mod http;
mod layers;
pub mod ledger;
mod life;
mod measure;
mod memory;
pub mod metrics;
mod node;
mod operations;
mod progress;
mod reach;
pub mod rpc;
pub mod runtimes;
mod secrets;
mod storage;
pub mod upward;
pub mod usage;
mod verbs;
pub mod version;
pub mod watchdog;
mod writer;

pub use handle::{Handle, Obeyed};
