//! The machine, measured again and again for the core.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_model::id::PoolName;
use persys_node::input::Used;

use crate::handle::Handle;
use crate::host::{self, Meter};

/// Looks through folders, which may take a while.
async fn look_at_disks(meter: &Arc<Meter>) -> BTreeMap<PoolName, u64> {
    let meter = Arc::clone(meter);
    tokio::task::spawn_blocking(move || meter.limits()).await.unwrap_or_default()
}

/// Measures for ever.
pub(crate) async fn measure(meter: Arc<Meter>, handle: Handle) {
    let mut every = tokio::time::interval(host::SAMPLE_EVERY);
    every.tick().await;
    let mut limits = look_at_disks(&meter).await;
    for round in 1_u64.. {
        every.tick().await;
        let load = meter.sample();
        if round.is_multiple_of(host::DISKS_EVERY) {
            limits = look_at_disks(&meter).await;
        }
        let limits = limits.clone();
        let (compute, disk_gib, disk_permille) = (load.used, load.disk_gib, load.disk_permille);
        handle.usage(Used { compute, disk_gib, limits, disk_permille });
    }
}
