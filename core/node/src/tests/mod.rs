//! Stories of an agent, told through its one door, and properties that hold in all of them.

mod capacity;
mod data;
mod health;
mod orders;
mod partial;
mod props;
mod removals;
mod restarts;
mod rig;
mod secrets;
mod sessions;
mod standstill;
mod updates;
#[cfg(feature = "zoo")]
mod zoo;
