//! Managed volumes around a runtime: attached before a start, given back after a removal.
//!
//! The runtime learns where each volume is and nothing else of it. What a removal does to the data is
//! decided by the purge it came with and the policy that was written down at the start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use persys_model::id::{DriverName, WorkloadId};
use persys_model::spec::health::Check;
use persys_model::spec::volume::{ManagedVolume, VolumeDriver};
use persys_model::spec::{Kind, Spec};
use persys_model::volume::VolumeKey;
use persys_node::input::{ImageHealth, Observation, ProbeOutcome, Seen as Held};
use persys_runtime::runtime::{Health, Progress, Thing};
use persys_runtime::{Error, Refresh, Runtime, Start};
use persys_volumes::{Seen, Volumes};

/// A runtime whose workloads have volumes.
#[derive(Debug)]
pub(crate) struct WithVolumes {
    inner: Arc<dyn Runtime>,
    volumes: Volumes,
}

impl WithVolumes {
    pub(crate) fn new(inner: Arc<dyn Runtime>, volumes: Volumes) -> Self {
        Self { inner, volumes }
    }
}

/// The volumes of a spec, and how its kind sees them.
fn wanted(spec: &Spec) -> (&[ManagedVolume], Seen) {
    let seen = match &spec.kind {
        Kind::Container(_) | Kind::Compose(_) => Seen::Folder,
        Kind::Vm(_) => Seen::Disk,
    };
    (spec.managed_volumes(), seen)
}

fn told(error: &persys_volumes::Error) -> Error {
    let detail = error.to_string();
    match error {
        persys_volumes::Error::Unknown { .. } => Error::Unreadable { verb: "storage", detail },
        persys_volumes::Error::NotOffered { .. }
        | persys_volumes::Error::Refused { .. }
        | persys_volumes::Error::Tool { .. }
        | persys_volumes::Error::Disk { .. } => Error::Storage { detail },
    }
}

/// The drivers this node has, by name. Those that were set up and are not offered are told of.
pub(crate) fn offered(volumes: &Volumes) -> BTreeSet<DriverName> {
    let offers = volumes.offers();
    let has = |(kind, offer): (VolumeDriver, Result<_, String>)| offer.is_ok().then(|| kind.name());
    offers.into_iter().filter_map(has).collect()
}

/// How each driver is, in the words of the contract.
pub(crate) fn status(volumes: &Volumes) -> BTreeMap<String, String> {
    let said = |offer| match offer {
        Ok(None) => "healthy".to_owned(),
        Ok(Some(warning)) => format!("healthy: {warning}"),
        Err(why) => format!("not offered: {why}"),
    };
    let offers = volumes.offers().into_iter();
    offers.map(|(kind, offer)| (format!("storage.{}", kind.word()), said(offer))).collect()
}

#[async_trait]
impl Runtime for WithVolumes {
    async fn prepare(&self, spec: &Spec, progress: &dyn Progress) -> Result<(), Error> {
        self.inner.prepare(spec, progress).await
    }

    async fn start(&self, start: &Start) -> Result<(), Error> {
        let (volumes, seen) = wanted(&start.spec);
        let attached = self
            .volumes
            .attach(&start.workload, volumes, seen)
            .await
            .map_err(|error| told(&error))?;
        let paths = attached.into_iter().map(|(name, attached)| (name, attached.path));
        let whole = Start { volumes: paths.collect(), ..start.clone() };
        self.inner.start(&whole).await?;
        // What this revision has no more is in nobody's way, so that it stays is no failure.
        if let Err(error) = self.volumes.keep_only(&start.workload, volumes).await {
            tracing::warn!(workload = %start.workload, %error, "a volume of an earlier revision stays");
        }
        Ok(())
    }

    async fn fresh_health(&self, start: &Start) -> Option<ImageHealth> {
        self.inner.fresh_health(start).await
    }

    async fn probe(&self, workload: &WorkloadId, check: &Check) -> ProbeOutcome {
        self.inner.probe(workload, check).await
    }

    async fn pause(&self, workload: &WorkloadId) -> Result<(), Error> {
        self.inner.pause(workload).await
    }

    async fn signal(&self, refresh: &Refresh) -> Result<(), Error> {
        self.inner.signal(refresh).await
    }

    async fn stop(&self, workload: &WorkloadId, within: Option<Duration>) -> Result<(), Error> {
        self.inner.stop(workload, within).await
    }

    async fn remove(&self, workload: &WorkloadId, purge: bool) -> Result<(), Error> {
        if let Some(volume) = VolumeKey::ordered_by(workload) {
            if volume.driver == VolumeDriver::Compose {
                // Docker has it, and who runs stacks knows which.
                return self.inner.remove(workload, true).await;
            }
            // An order about a volume itself: there is nothing of a workload.
            let destroyed = self.volumes.destroy(&volume, workload).await;
            return destroyed.map_err(|error| told(&error));
        }
        self.inner.remove(workload, purge).await?;
        self.volumes.release(workload, purge).await.map_err(|error| told(&error))
    }

    async fn inspect(&self, workload: &WorkloadId) -> Result<Option<Thing>, Error> {
        self.inner.inspect(workload).await
    }

    async fn list(&self) -> Result<Vec<Held>, Error> {
        self.inner.list().await
    }

    async fn observe(&self, probe: bool) -> Observation {
        self.inner.observe(probe).await
    }

    async fn health(&self) -> Result<Health, Error> {
        self.inner.health().await
    }
}
