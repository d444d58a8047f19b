//! Real machines.

mod bench;
mod daemon;
mod health;
mod keeps;
mod life;
mod outage;
