//! What an agent decides, as a pure step function.
//!
//! ```text
//!  command · registration answer · beat answer · observation · verb done · timer     Input
//!            │
//!            ▼
//!  Agent::step(input, now) -> Effects
//!            │  ledger changes · verbs, each after its intent is on disk · messages · wake-up
//! ```
//!
//! The agent acts on positive orders only, starts nothing in a new life before it is confirmed,
//! and one idempotent verb at a time per workload.

pub mod admit;
pub mod agent;
mod capacity;
mod carry;
pub mod decide;
mod due;
pub mod effects;
pub mod fence;
mod health;
pub mod input;
mod journal;
pub mod ledger;
mod outcomes;
mod outgoing;
mod removals;
pub mod restart;
mod session;
pub mod settings;
mod slot;
mod standstill;
mod sweep;
mod view;

#[cfg(test)]
mod tests;
