//! Where managed volumes are kept.

use persys_agent::app::{CephSettings, Limit, LocalSettings, NfsSettings, Tools, VolumeSettings};

use super::read::Reader;

/// What the drivers of volumes are told; `simulated` work needs no file systems.
pub(super) fn settings(read: &mut Reader<'_>, simulated: bool) -> VolumeSettings {
    let limit = match read.text("storage-local-limit").as_deref() {
        _ if simulated => Limit::None,
        Some("auto") => Limit::Auto,
        Some("image") => Limit::Image,
        Some("none") => Limit::None,
        Some(_) | None => {
            read.fault("storage-local-limit", "auto, image or none");
            Limit::Auto
        }
    };
    let settings = VolumeSettings {
        state: super::agent::state_dir(read.path("state-path")).join("claims"),
        local: LocalSettings { root: read.path("storage-local-root"), limit },
        nfs: nfs(read),
        ceph: ceph(read),
        tools: Tools::default(),
    };
    for (setting, wanted) in settings.faults() {
        read.fault(setting, wanted);
    }
    settings
}

fn nfs(read: &mut Reader<'_>) -> Option<NfsSettings> {
    let given = |key: &str| read.text(key);
    let (server, export) = (given("storage-nfs-server"), given("storage-nfs-export"));
    let (server, export) = match (server, export) {
        (Some(server), Some(export)) => (server, export),
        (Some(_), None) => {
            read.fault("storage-nfs-export", "goes with storage-nfs-server");
            return None;
        }
        (None, Some(_)) => {
            read.fault("storage-nfs-server", "goes with storage-nfs-export");
            return None;
        }
        (None, None) => return None,
    };
    let options = read.text("storage-nfs-options").unwrap_or_default();
    Some(NfsSettings { server, export, options, stage: read.path("storage-nfs-stage-dir") })
}

fn ceph(read: &Reader<'_>) -> Option<CephSettings> {
    let given = |key: &str| read.text(key).unwrap_or_default();
    Some(CephSettings {
        pool: read.text("storage-ceph-pool")?,
        cluster: given("storage-ceph-cluster"),
        user: given("storage-ceph-user"),
        keyring: given("storage-ceph-keyring"),
        stage: read.path("storage-ceph-stage-dir"),
    })
}
