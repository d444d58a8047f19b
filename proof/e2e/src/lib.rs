//! Whole clusters of real parts, joined in one test.
//!
//! The scheduler's and the agents' drivers run as they do in production, on a real store and a
//! runtime in memory; only the wire between them is a function call, which a test can cut.

pub mod cluster;
pub mod wire;
