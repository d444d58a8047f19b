//! Real machines.

mod bench;
mod daemon;
mod keeps;
mod life;
mod outage;
