//! Whole clusters of real parts, joined in one test.
//!
//! - [`cluster`]: the scheduler's and the agents' drivers as they run in production, on a real store
//!   and a runtime in memory; only the wire between them is a function call, which a test can cut.
//! - [`stack`]: both programs as they are started, over real gRPC, with or without certificates.

pub mod cluster;
pub mod stack;
pub mod wire;
