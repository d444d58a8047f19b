//! The collector: a process of its own, because what it costs is not ours.

use std::net::SocketAddr;

use persys_collector::Collector;

use crate::fleet::Fault;
use crate::own::{self, Own};

/// Takes spans until nothing more is wanted; says where, and then how many.
pub(in crate::fleet) async fn collect() -> Result<(), Fault> {
    let collector = Collector::counting().await?;
    own::tell(&collector.at)?;
    own::until_closed().await?;
    Ok(own::tell(&collector.count())?)
}

/// The collector's process, seen from outside.
pub(super) struct Collecting {
    own: Own,
    pub(super) at: SocketAddr,
}

impl Collecting {
    pub(super) async fn start() -> Result<Self, Fault> {
        let mut own = Own::start("the collector", own::again()?.arg("collector"))?;
        let at = own.told().await?.parse()?;
        Ok(Self { own, at })
    }

    /// How many spans came.
    pub(super) async fn finish(mut self) -> Result<u64, Fault> {
        self.own.close();
        let count = self.own.told().await?.parse()?;
        self.own.end().await?;
        Ok(count)
    }
}
