//! Against a real daemon.

mod adopt;
mod bench;
mod daemon;
mod greed;
mod keeps;
mod outage;
mod race;
mod registry;
mod shape;
mod wakeups;
