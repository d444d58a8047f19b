//! Faults: each is begun, holds for a time, and is mended. Several may hold at once.
//!
//! - [`kinds`]: the list; [`processes`]: kills and pauses; [`network`]: links; [`store`]: etcd;
//!   [`host`]: Docker, containers, folders; [`mend`]: how each is undone.

pub mod host;
pub mod kinds;
pub mod mend;
pub mod network;
pub mod processes;
pub mod store;

use std::time::Duration;

pub use kinds::Kind;
pub use mend::Mend;

use crate::Fault;
use crate::cluster::Cluster;
use crate::rng::Rng;

/// A fault that holds.
#[derive(Debug)]
pub struct Harm {
    /// What was done, and to whom.
    pub what: String,
    /// For how long.
    pub hold: Duration,
    /// How it is undone.
    pub mends: Vec<Mend>,
}

impl Harm {
    fn new(what: impl Into<String>, millis: u64, mends: Vec<Mend>) -> Self {
        Self { what: what.into(), hold: Duration::from_millis(millis), mends }
    }
}

/// Begins a fault of this kind; none if there is nobody it could befall at present.
pub async fn begin(
    kind: Kind,
    cluster: &mut Cluster,
    rng: &mut Rng,
) -> Result<Option<Harm>, Fault> {
    use kinds::Room;
    match kind.room() {
        Room::Processes => processes::begin(kind, cluster, rng).await,
        Room::Network => Ok(network::begin(kind, cluster, rng).await),
        Room::Store => Ok(store::begin(kind, cluster, rng)),
        Room::Host => host::begin(kind, cluster, rng),
    }
}
