//! A volume as it is shown: the contract calls it a disk.

use persys_cluster::volumes::Volume;
use persys_model::spec::volume::AccessMode;

use crate::control::v1 as wire;
use crate::convert::time::timestamp;

/// The volume on the wire.
#[must_use]
pub fn to_wire(volume: &Volume) -> wire::DiskView {
    let asked = &volume.asked;
    let nodes = volume.nodes();
    wire::DiskView {
        id: volume.id(),
        name: asked.name.to_string(),
        driver: asked.driver.word().to_owned(),
        size_gb: i64::try_from(asked.size_gib).unwrap_or(i64::MAX),
        fs_type: asked.fs_type.to_string(),
        access_mode: match asked.access {
            AccessMode::ReadWriteOnce => "ReadWriteOnce",
            AccessMode::ReadOnlyMany => "ReadOnlyMany",
            AccessMode::ReadWriteMany => "ReadWriteMany",
        }
        .to_owned(),
        retain_policy: if asked.retain { "Retain" } else { "Delete" }.to_owned(),
        phase: volume.phase.word().to_owned(),
        last_error: volume.last_error.clone(),
        node_id: volume.home.as_ref().map(ToString::to_string).unwrap_or_default(),
        // Only its node knows the device.
        device: String::new(),
        standalone: false,
        mount_path: asked.mount_path.to_string(),
        workload_refs: volume.attachments.keys().map(ToString::to_string).collect(),
        attached_nodes: nodes.iter().map(ToString::to_string).collect(),
        created_at: Some(timestamp(volume.created_at)),
        updated_at: Some(timestamp(volume.updated_at)),
    }
}
