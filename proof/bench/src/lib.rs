//! Benchmarks that print ratios from one interleaved run.

pub mod compose;
pub mod cpu;
pub mod docker;
pub mod fleet;
pub mod gateway;
mod own;
pub mod placement;
