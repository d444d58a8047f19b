//! Variables as a user sets them, and what the real program does with each: where it listens, what
//! its pages, its log and its names say, where it writes.
//!
//! That every documented variable is known at all, and reaches the configuration, is shown beside the
//! tables of settings.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]

#[cfg(test)]
mod agent;
#[cfg(test)]
mod certificates;
#[cfg(test)]
mod deployed;
#[cfg(test)]
mod documented;
#[cfg(test)]
mod drift;
#[cfg(test)]
mod effects;
#[cfg(test)]
mod engine;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod logs;
#[cfg(test)]
#[path = "../../../adapters/identity/tests/mtls/openssl.rs"]
mod openssl;
#[cfg(test)]
mod program;
#[cfg(test)]
mod scheduler;
#[cfg(test)]
mod stores;
#[cfg(test)]
mod telemetry;
