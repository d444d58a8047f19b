//! What runs workloads, behind one seam.
//!
//! The agent decides with `persys_node` and carries out with a [`Runtime`]: eight idempotent verbs
//! over things that carry our labels. Looking inside (logs, exec, usage, evidence, wake-ups) are
//! small traits of their own, so that a runtime offers what it has.
//!
//! Three rules hold for every implementation, and `tests/contract` holds them to it:
//! 1. "Already so" is success.
//! 2. What does not carry the labels of our cluster and our node is never touched.
//! 3. "No answer" is not "no": an error knows whether the outcome is unknown, and a list that could
//!    not be read is an error, never an empty list.

pub mod clock;
pub mod compose;
pub mod docker;
pub mod error;
pub mod exclusive;
mod found;
pub mod inside;
mod probe;
pub mod runtime;
pub mod sim;
pub mod vm;

pub use clock::Clock;
pub use error::Error;
pub use exclusive::Exclusive;
pub use inside::{Console, Evidence, Exec, Logs, Usage, Wakeups};
pub use persys_process as process;
pub use runtime::{Owner, Refresh, Runtime, Start};
