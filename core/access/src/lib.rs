//! Who may do what.
//!
//! One table says of every method who may call it and which process answers; whatever is not in it
//! is refused. Callers hold roles, each somewhere: everywhere, or in some namespaces. Nothing held
//! is nothing allowed.

mod agents;
mod judge;
pub mod policy;
mod role;
mod table;

pub use agents::{AGENT_TABLE, AtAgent, at_agent};
pub use judge::{Caller, Decision, Holding, Rule, judge};
pub use role::Role;
pub use table::{By, Row, TABLE, Who, row};
