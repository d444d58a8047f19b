//! Between messages and values.
//!
//! ```text
//!   message ──► Draft ──► check ──► Spec          what users send is believed only after a check
//!   message ──► Registration, Beat, Command …     what agents send is read whole or refused whole
//!   value   ──► message                           nothing can go wrong
//! ```
//!
//! Reading names every fault of a message at once, with its path, and never panics whatever the
//! bytes were. A number or word nobody knows is a fault, never a guess. A peer that does not know
//! our fields leaves them zero; its messages become [`Said::Legacy`], so that a missing token is
//! never mistaken for the token zero.

pub mod agent_draft;
pub mod answer;
mod at;
pub mod beat;
pub mod classic;
pub mod command;
pub mod contract;
pub mod draft;
mod endpoint;
pub mod failure;
mod health;
pub mod held;
mod leaf;
pub mod packed;
pub mod register;
pub mod report;
pub mod spec;
pub mod task;
pub mod time;
pub mod view;

use persys_model::fault::Faults;

pub use self::leaf::{CAPABILITIES, ITEMS, LABELS, POOLS};

/// What a peer said, by whether it knows our fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said<T, L> {
    /// It does: all tokens are there.
    Ours(T),
    /// It does not; what it means is up to whoever deals with old peers.
    Legacy(L),
}

/// A message that counts although something in it was odd.
///
/// A node must not be lost because one of its thousand workloads has a spec that is no longer
/// accepted: what is odd is left out, and named here for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrived<T> {
    /// What was said.
    pub value: T,
    /// What was left out of it; empty as a rule.
    pub odd: Faults,
}
