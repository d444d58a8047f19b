//! A gateway from the outside: HTTP clients, a gateway, schedulers, an agent, and a runtime in memory.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop")]
#![allow(clippy::panic, clippy::indexing_slicing, reason = "a test may stop")]

mod attacks;
mod callers;
mod clusters;
mod events;
mod inside;
mod prometheus;
mod pushes;
mod rest;
mod revoked;
mod routing;
mod siege;
mod site;
mod together;

use site::{PATIENCE, Site, container, told};
