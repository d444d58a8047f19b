//! Clients that know the contract and nothing of ours, with and without certificates.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop")]
#![allow(clippy::indexing_slicing, reason = "a test may stop")]

mod agent;
mod behind_our_back;
mod calls;
mod messages;
mod not_found;
#[path = "../../../../adapters/identity/tests/mtls/openssl.rs"]
mod openssl;
mod scheduler;
mod their_agent;
mod their_agent_life;
mod their_cli;
mod their_scheduler;
