//! Real machines.

mod bench;
mod daemon;
mod life;
mod outage;
