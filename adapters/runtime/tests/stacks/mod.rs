//! Stacks on a real Docker.

mod bench;
mod data;
mod ends;
mod faults;
mod keeps;
mod outage;
