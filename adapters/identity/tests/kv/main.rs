//! Values of Vault's key/value engine, from a double that fails the way Vault does.

#![allow(clippy::unwrap_used, reason = "a test may stop")]

#[cfg(test)]
mod double;

#[cfg(test)]
mod reading;
