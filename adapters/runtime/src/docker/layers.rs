//! Layers that containers write into: bounded where the storage driver can, counted everywhere.
//!
//! A driver can where it has quotas: btrfs and zfs always, overlay2 on xfs that was mounted with `pquota`.
//! The last is not told by the daemon, so it is tried and the refusal remembered.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};

use bollard::models::{ContainerCreateBody, SystemInfo};
use bollard::query_parameters::InspectContainerOptionsBuilder;
use persys_model::id::WorkloadId;
use persys_model::spec::Spec;

use crate::error::Error;

use super::Docker;
use super::call::{self, No, Reply};

const UNKNOWN: u8 = 0;
const CAN: u8 = 1;
const CANNOT: u8 = 2;

/// Whether the daemon bounds layers, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Quota(AtomicU8);

impl Quota {
    /// True if this refusal says that it cannot, and was not known before.
    pub(super) fn refused(&self, no: &No) -> bool {
        let about = no.message.contains("storage-opt") || no.message.contains("pquota");
        about && self.0.swap(CANNOT, Ordering::Relaxed) != CANNOT
    }
}

impl Docker {
    /// Has the layer of the container bounded by what `spec` reserves, where the daemon can.
    pub(super) async fn bound_layer(&self, spec: &Spec, body: &mut ContainerCreateBody) {
        let Some(gib) = spec.layer_gib() else { return };
        if self.bounds_layers().await
            && let Some(host) = &mut body.host_config
        {
            host.storage_opt = Some(HashMap::from([("size".to_owned(), format!("{gib}G"))]));
        }
    }

    async fn bounds_layers(&self) -> bool {
        let known = self.quota.0.load(Ordering::Relaxed);
        if known != UNKNOWN {
            return known == CAN;
        }
        let Ok(client) = self.client() else { return false };
        let limit = self.settings.deadlines.ask;
        let Ok(Reply::Yes(info)) = call::ask("info", limit, client.info()).await else {
            return false;
        };
        let can = can_bound(&info);
        self.quota.0.store(if can { CAN } else { CANNOT }, Ordering::Relaxed);
        can
    }

    /// Bytes written into the layer of one container.
    pub(crate) async fn layer_of(&self, id: &str) -> Result<Option<u64>, Error> {
        let client = self.client()?;
        let options = InspectContainerOptionsBuilder::default().size(true).build();
        let call = client.inspect_container(id, Some(options));
        let raw = call::find("inspect", self.settings.deadlines.act, call).await?;
        Ok(raw.and_then(|raw| raw.size_rw).and_then(|bytes| u64::try_from(bytes).ok()))
    }

    /// Bytes written into the layer of the container of a workload.
    pub(super) async fn layer_of_workload(
        &self,
        workload: &WorkloadId,
    ) -> Result<Option<u64>, Error> {
        match self.ours(workload).await? {
            Some(ours) => self.layer_of(&ours.id).await,
            None => Ok(None),
        }
    }
}

fn can_bound(info: &SystemInfo) -> bool {
    let status = info.driver_status.iter().flatten();
    let on_xfs = || {
        let mut rows = status.map(Vec::as_slice);
        rows.any(|row| matches!(row, [key, value] if key == "Backing Filesystem" && value == "xfs"))
    };
    match info.driver.as_deref() {
        Some("btrfs" | "zfs") => true,
        Some("overlay2") => on_xfs(),
        Some(_) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_with_quotas_bound_layers() {
        let info = |driver: &str, backing: &str| SystemInfo {
            driver: Some(driver.to_owned()),
            driver_status: Some(vec![
                vec!["Backing Filesystem".to_owned(), backing.to_owned()],
                vec!["Supports d_type".to_owned(), "true".to_owned()],
            ]),
            ..SystemInfo::default()
        };
        for (driver, backing, can) in [
            ("overlay2", "xfs", true),
            ("overlay2", "extfs", false),
            ("btrfs", "btrfs", true),
            ("zfs", "zfs", true),
            ("vfs", "xfs", false),
            ("overlayfs", "xfs", false),
        ] {
            assert_eq!(can_bound(&info(driver, backing)), can, "{driver} on {backing}");
        }
    }

    #[test]
    fn a_daemon_without_quotas_is_asked_once() {
        let (quota, no) =
            (Quota::default(), |message: &str| No { status: 400, message: message.to_owned() });
        assert!(!quota.refused(&no("no such image")));
        let words =
            "--storage-opt is supported only for overlay over xfs with 'pquota' mount option";
        assert!(quota.refused(&no(words)));
        assert!(!quota.refused(&no(words)), "the second time it is an error like any other");
    }
}
