//! Stacks on a real Docker.

mod bench;
mod data;
mod ends;
mod faults;
mod greed;
mod keeps;
mod outage;
mod projects;
