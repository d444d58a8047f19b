//! Which names there are, and where each leads: from the cluster to DNS records, as values.
//!
//! ```text
//!   events ──► Touched ──► News::of(world) ──► Directory::take ──► changes ──► DNS server · SkyDNS
//! ```
//!
//! Cost follows change: an event touches one node or workload, and only what was touched is looked
//! at again. A name is there while what it stands for is: a workload while it runs and its node is
//! not lost, a node until it is lost or removed.
//!
//! Two ids never share a name; see [`name::Label`].

mod directory;
pub mod name;
mod news;
#[cfg(test)]
mod tests;
mod zones;

pub use directory::{Change, Directory, Record, Shape};
pub use name::{Name, NameFault};
pub use news::{Host, News, Served, Touched};
pub use zones::{ZoneFault, Zones};
