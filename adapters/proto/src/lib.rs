//! The wire contract: generated code and conversions. The only crate that knows protobuf.
//!
//! The contract itself is `/proto`; `build.rs` compiles it, and `tests/contract` holds it to what
//! agents, schedulers and clients in the field already speak. Message types are for the edge: a
//! caller turns them into `persys_model` types at once and works on those.

pub mod convert;
mod generated;
pub mod json;
pub mod manifest;
mod secret;
pub mod together;
pub mod tunnel;

pub use generated::{agent, compute, control};

/// All packages and what they import, as an encoded `FileDescriptorSet`: for gRPC reflection.
pub const DESCRIPTOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptor.bin"));

/// The header with the reason a caller gives for a change: text of UTF-8, with `%` and two hex digits
/// for every byte a header cannot hold.
pub const REASON_HEADER: &str = "persys-reason";

/// The header of the answer to `grpc.health.v1.Health/Check` that has the mode of the scheduler and its
/// node counts: JSON, with the keys of its `/health`.
pub const HEALTH_HEADER: &str = "persys-health-bin";
