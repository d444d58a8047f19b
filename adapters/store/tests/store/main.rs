//! Every store does what the contract says, and the one in a file survives its disk.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

#[cfg(test)]
mod archive;
#[macro_use]
mod contract;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod embedded;
#[cfg(test)]
mod etcd;
#[cfg(test)]
mod garbage;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod process;
