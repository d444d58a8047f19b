//! The dashboard in Chromium. Pictures are kept under `target/screenshots`.

mod connection;
mod counts;
mod files;
mod people;
mod simulated;
mod stacks;
