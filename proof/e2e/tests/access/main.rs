//! Who may do what, over real connections: every method for every kind of caller, held against a
//! list that was written by hand.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop")]
#![allow(clippy::panic, clippy::expect_used, reason = "a test may stop")]
#![allow(clippy::print_stdout, reason = "how many calls were made is worth reading")]

mod call;
mod canary;
mod matrix;
mod namespaces;
mod rotation;
mod routes;
