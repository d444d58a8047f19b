//! Certificates from a real server that speaks Vault's protocol, started here: see `hack/vault-install`.
//! Nothing is asked of it, and nothing expected of its answers, that Vault does otherwise.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]

#[cfg(test)]
mod client;
#[cfg(test)]
mod cluster;
#[cfg(test)]
#[path = "../variables/program.rs"]
#[allow(dead_code, reason = "other tests need all of it")]
mod program;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod server;
