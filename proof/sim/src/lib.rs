//! The whole cluster as a value: a deterministic simulator.
//!
//! A seed decides everything: sizes, timers, clocks, users, faults. First minutes of faults, in
//! which nothing forbidden may happen; then everything is mended, must settle, and must then keep
//! perfectly still. The same seed always tells the same story.
//!
//! ```text
//!   setup ─► sim: schedulers · agents · watchdogs · runtimes · store · network · users · nemesis
//!                   └─► check: what must never happen     └─► cover: what did happen
//! ```
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "the simulator looks at a few variants of the cores' large enums"
)]

mod check;
mod clock;
mod contract_agent;
mod cover;
mod demo;
mod drive;
mod fault;
mod health;
mod host;
mod nemesis;
mod net;
pub mod program;
mod queue;
mod rng;
mod run;
mod runtime;
mod scheduler;
mod setup;
mod shrink;
mod sim;
mod specs;
mod store;
mod tell;
mod trace;
mod users;
mod wire;
mod zoo;

#[cfg(test)]
mod tests;
