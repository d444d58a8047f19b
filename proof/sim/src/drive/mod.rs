//! The shells of the simulation: each carries out what a core asks for.
//!
//! - `agent`: the agent process, its disk and its calls
//! - `machine`: runtime, watchdog, power
//! - `contract`, `contract_host`: agents that know only the contract, seen from both sides
//! - `scheduler`: the scheduler process and its messages
//! - `store`: calls on their way to the store and back
//! - `network`: messages on their way

mod agent;
mod contract;
mod contract_host;
mod machine;
mod network;
mod scheduler;
mod store;
