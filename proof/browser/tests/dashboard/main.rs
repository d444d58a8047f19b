//! The dashboard in Chromium. Pictures are kept under `target/screenshots`.

mod people;
mod simulated;
