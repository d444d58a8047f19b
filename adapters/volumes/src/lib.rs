//! Managed volumes: made when they are first needed, attached where their workload runs, deleted
//! only when somebody asked for it.
//!
//! ```text
//!   agent ──► Volumes ──► manifest on disk ──► Driver: local · nfs · ceph-rbd ──► mount · mkfs · rbd
//!             (claims)    before any effect
//! ```
//!
//! 1. "Already so" is success, for every verb of every driver.
//! 2. What is to be done is on disk before it is done, so that whoever was interrupted can go on.
//! 3. Data goes only with a purge, never when its policy is to retain it, and never while another
//!    workload has a claim to it.
//! 4. Names are checked names; no path is built of anything else, and no symlink is followed.

mod book;
pub mod driver;
mod error;
mod local;
mod mounts;
mod nfs;
mod rbd;
mod settings;
mod tools;
mod volumes;

pub use driver::{Attached, Driver, Seen, Wanted};
pub use error::Error;
pub use local::Local;
pub use nfs::Nfs;
pub use rbd::Rbd;
pub use settings::{CephSettings, Limit, LocalSettings, NfsSettings, Settings, Tools};
pub use volumes::Volumes;
