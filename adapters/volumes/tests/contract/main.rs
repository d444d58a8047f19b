//! Every driver does what the contract says, with programs that only pretend; what they are told is
//! looked at. The same clauses with real mounts are in `tests/mounts.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test is told apart by where it fails"
)]

mod claims;
mod clauses;
mod drivers;
mod pretend;
