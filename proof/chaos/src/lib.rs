//! Chaos: a cluster of real processes under load, faults at random from a seed, and a checker of its
//! own that shares no code with the product but the messages of its interface.
//!
//! ```text
//!   load ── requests, logged ──► links ──► schedulers ──► links ──► etcd
//!                                             ▲ │
//!   faults ── kill, pause, cut, damage ──►    │ ▼ links
//!                                           agents ──► dockerds ──► witnesses: a lock, a token
//!   checker ◄── records, runtimes, the log of requests, what the witnesses wrote
//! ```
//!
//! A run is made of rounds: faults under load, then everything is mended and the load rests until the
//! cluster has converged, which is timed and judged.

pub mod check;
pub mod cluster;
pub mod decoys;
pub mod faults;
pub mod history;
pub mod leftovers;
pub mod load;
pub mod look;
pub mod names;
pub mod options;
pub mod plant;
pub mod process;
pub mod proxy;
pub mod report;
pub mod rng;
pub mod run;
pub mod usage;
pub mod wish;
pub mod witness;

/// Something that a run cannot go on without.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;
