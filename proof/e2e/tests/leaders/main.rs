//! Several schedulers on one store: one leads, the others answer from a copy and pass on; it dies,
//! stands still, or loses its store, and nobody loses anything by it.

#![allow(clippy::unwrap_used, reason = "a test may stop")]
#![allow(clippy::panic, reason = "a test may stop")]
#![allow(clippy::print_stdout, reason = "how long it took is worth reading")]

#[cfg(test)]
mod behalf;
#[cfg(test)]
mod failover;
#[cfg(test)]
mod follow;
#[cfg(test)]
mod gate;
#[cfg(test)]
mod modes;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod traces;
