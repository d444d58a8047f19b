//! Files of real repositories, fetched by real git: from folders and from a server, and what hostile
//! addresses, versions, paths and repositories get out of it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test is told apart by where it fails"
)]

mod hostile;
mod repository;
mod server;
mod sound;
