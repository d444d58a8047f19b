//! Who may do what, over real connections: every method for every kind of caller, held against a
//! list that was written by hand.

#![expect(clippy::unwrap_used, reason = "a test stops at what cannot be")]

mod call;
mod matrix;
mod namespaces;
