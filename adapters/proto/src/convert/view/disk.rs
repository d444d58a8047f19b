//! A volume as it is shown: the contract calls it a disk.

use std::collections::BTreeSet;

use persys_model::id::NodeId;
use persys_model::spec::volume::AccessMode;
use persys_model::volume::Volume;

use crate::control::v1 as wire;
use crate::convert::time::timestamp;

/// The volume on the wire, with the nodes it is attached on.
#[must_use]
pub fn to_wire(volume: &Volume, nodes: &BTreeSet<NodeId>) -> wire::DiskView {
    let mut last_error = volume.last_error.to_string();
    let left = volume.left_on.iter().filter(|node| volume.home.as_ref() != Some(*node));
    let left: Vec<_> = left.map(ToString::to_string).collect();
    if last_error.is_empty() && !left.is_empty() && volume.key.driver.is_local() {
        last_error = format!("earlier data of it was left on {}", left.join(", "));
    }
    wire::DiskView {
        id: volume.key.to_string(),
        name: volume.key.name.to_string(),
        driver: volume.key.driver.word().to_owned(),
        size_gb: i64::try_from(volume.size_gib).unwrap_or(i64::MAX),
        fs_type: volume.fs_type.to_string(),
        access_mode: match volume.access {
            AccessMode::ReadWriteOnce => "ReadWriteOnce",
            AccessMode::ReadOnlyMany => "ReadOnlyMany",
            AccessMode::ReadWriteMany => "ReadWriteMany",
        }
        .to_owned(),
        retain_policy: if volume.retain { "Retain" } else { "Delete" }.to_owned(),
        phase: volume.phase.word().to_owned(),
        last_error,
        node_id: volume.home.as_ref().map(ToString::to_string).unwrap_or_default(),
        // Only its node knows the device.
        device: String::new(),
        standalone: volume.standalone,
        mount_path: volume.mount_path.to_string(),
        workload_refs: volume.users.iter().map(ToString::to_string).collect(),
        attached_nodes: nodes.iter().map(ToString::to_string).collect(),
        created_at: Some(timestamp(volume.created_at)),
        updated_at: Some(timestamp(volume.updated_at)),
    }
}
