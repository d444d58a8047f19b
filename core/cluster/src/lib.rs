//! What the scheduler decides, as a pure step function.
//!
//! ```text
//!  request · beat · agent's answer · probe · commit result · timer        Input, as data
//!            │
//!            ▼
//!  World::step(input, now) -> Effects       no clock, no I/O, no randomness, no async
//!            │   units to commit · messages, held back until what they rest on is durable
//!            ▼
//!  Replica   one scheduler process: election, loading, batching of commits, and the World it leads
//! ```
//!
//! First placement, update, retry, failover, drain and drift are not separate paths: each marks
//! workloads dirty, and one table (`decide`) settles each dirty workload.

pub mod contract;
mod decide;
pub mod discovery;
pub mod effects;
pub mod input;
pub mod placement;
pub mod plan;
pub mod record;
pub mod replica;
pub mod settings;
pub mod store;
pub mod world;
