//! Values every part of Persys speaks in.
//!
//! Everything here is plain data with checked constructors: no clock, no I/O, no randomness. What
//! comes from outside is parsed once into these types ([`spec::check`], the newtypes of [`id`]) and
//! trusted from then on.

pub mod assignment;
pub mod audit;
pub mod command;
pub mod drift;
pub mod entry;
pub mod event;
pub mod failure;
pub mod fault;
pub mod fetched;
pub mod health;
pub mod hex;
pub mod history;
pub mod id;
pub mod inventory;
pub mod join;
pub mod labels;
pub mod lease;
pub mod link;
pub mod mode;
pub mod node;
pub mod phase;
pub mod reconciliation;
pub mod repository;
pub mod resources;
pub mod retry;
pub mod secret;
pub mod spec;
pub mod store_mark;
pub mod task;
pub mod time;
pub mod token;
pub mod volume;
pub mod workload;
pub mod zoo;
