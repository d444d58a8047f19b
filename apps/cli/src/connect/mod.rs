//! The way to a cluster: which, how, and what to say when it does not answer.

mod channel;
mod file;
mod refusal;
pub(crate) mod settings;

pub(crate) use channel::{Client, checked_addresses};
pub(crate) use settings::Settings;
