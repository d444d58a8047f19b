//! Whole clusters of real parts, joined in one test.
//!
//! Five ways to join them:
//! - [`cluster`]: the drivers in one process, on a real store and a runtime in memory; the wire
//!   between them is a function call, which a test can cut.
//! - [`stack`]: both programs in one process, over real gRPC, with or without certificates.
//! - [`gateway`]: a gateway in front of one or several of these.
//! - [`names`]: the same, told as one story of names to whoever asks.
//! - [`processes`]: scheduler and agents as processes of their own, over mTLS, on real Docker. Each
//!   process is a [`part`], which a test can kill, or have killed at a chosen effect by a
//!   [`tripwire`]. [`engine`] is Docker as it is seen from the outside, [`daemon`] one of our own,
//!   [`sweep`] the proof that a death at any effect changes nothing in the end.

pub mod cluster;
pub mod crowd;
pub mod daemon;
pub mod engine;
pub mod gateway;
pub mod git;
pub mod names;
pub mod part;
pub mod processes;
mod records;
pub mod stack;
pub mod sweep;
pub mod tripwire;
pub mod wire;
pub mod wish;
