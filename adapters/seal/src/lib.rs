//! Sealing: what may be read only by who holds a key.
//!
//! - [`envelope`]: a value under a key of its own, and that key under one of the file's.
//! - [`keys`]: the keys of the file: the first writes, all read.
//! - `file`: how they are kept on disk.
//!
//! AES-256-GCM-SIV by aws-lc-rs, which TLS brings along: a nonce that was drawn twice by a machine
//! with poor chance gives away that two values are equal, and nothing more.

pub mod envelope;
mod file;
pub mod keys;

pub use envelope::{Opened, SealError};
pub use keys::{KeyFile, KeyFileError, Keys};
