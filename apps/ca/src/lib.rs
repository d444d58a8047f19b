//! The authority as a program: machines join it with a token, renew with what they hold, and learn
//! whom to trust.
//!
//! ```text
//!   token ──► Join ─┐                         ┌── Register: tokens, who is revoked
//!   held  ──► Renew ┼─► Office ── decides ────┤     (the scheduler's world, or a file of its own)
//!             Trust ┘     │                   └── Authority, Ledger: keys, what was issued
//!                         └── strict limits: size, time, attempts of one source
//! ```
//!
//! It runs beside a scheduler or alone. The port it listens on asks callers for no certificate, so
//! nothing else is served there.

pub mod client;
pub mod file;
mod limit;
pub mod local;
pub mod metrics;
pub mod office;
pub mod pages;
pub mod register;
pub mod serve;
mod service;

pub use client::{Enrolment, JoinError, Joined};
pub use file::FileRegister;
pub use local::Local;
pub use metrics::Metrics;
pub use office::Office;
pub use pages::Pages;
pub use register::{Register, RegisterError};
pub use serve::{Config, Running, start};
