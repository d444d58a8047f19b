//! Agents of the plain contract under the World, in virtual time: the component between them turns
//! orders into calls and answers into beats.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test may stop"
)]

mod fleet;
mod life;
mod lost_words;
#[path = "../support/mod.rs"]
mod support;
