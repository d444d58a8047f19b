//! Benchmarks that print ratios from one interleaved run.

pub mod placement;
