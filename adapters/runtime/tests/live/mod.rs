//! Against a real daemon.

mod bench;
mod daemon;
mod keeps;
mod outage;
mod registry;
mod shape;
