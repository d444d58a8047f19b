//! The dashboard in a real browser: a cluster in this process, a gateway in front of it, and Chromium,
//! driven as a person would drive it.

#![expect(clippy::expect_used, clippy::panic, reason = "what a test needs is there, or it fails")]

pub mod house;
pub mod looks;
pub mod proxy;
pub mod tab;
