//! `/volumes/<driver>:<name>`

use std::sync::Arc;

use persys_model::id::{NamespaceName, NodeId, VolumeName, WorkloadId};
use persys_model::time::WallMillis;
use persys_model::volume::{Volume, VolumeKey, VolumePhase};
use serde::{Deserialize, Serialize};

use super::spec::volume::{AccessShape, DriverShape};
use super::{Beside, Record, VERSION, is_false, mirror, name};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct VolumeRecordShape {
    v: u32,
    name: Arc<str>,
    driver: DriverShape,
    size_gib: u64,
    access: AccessShape,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    fs_type: Arc<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    mount_path: Arc<str>,
    #[serde(default, skip_serializing_if = "is_false")]
    retain: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    standalone: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<Arc<str>>,
    phase: VolumePhaseShape,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    last_error: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    home: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left_on: Vec<Arc<str>>,
    #[serde(default, skip_serializing_if = "is_false")]
    used: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    workloads: Vec<Arc<str>>,
    created_ms: u64,
    updated_ms: u64,
}

mirror!(VolumePhaseShape of VolumePhase {
    Available, Pending, Provisioning, Attached, Released, Retained, Error, Deleting,
});

impl Record for Volume {
    type Shape = VolumeRecordShape;

    fn shape(&self) -> VolumeRecordShape {
        let Self {
            key,
            size_gib,
            access,
            fs_type,
            mount_path,
            retain,
            standalone,
            namespace,
            phase,
            last_error,
            home,
            left_on,
            used,
            users,
            created_at,
            updated_at,
        } = self;
        VolumeRecordShape {
            v: VERSION,
            name: Arc::from(key.name.as_str()),
            driver: key.driver.into(),
            size_gib: *size_gib,
            access: (*access).into(),
            fs_type: Arc::clone(fs_type),
            mount_path: Arc::clone(mount_path),
            retain: *retain,
            standalone: *standalone,
            namespace: namespace.as_ref().map(|name| Arc::from(name.as_str())),
            phase: (*phase).into(),
            last_error: Arc::clone(last_error),
            home: home.as_ref().map(|node| Arc::from(node.as_str())),
            left_on: left_on.iter().map(|node| Arc::from(node.as_str())).collect(),
            used: *used,
            workloads: users.iter().map(|id| Arc::from(id.as_str())).collect(),
            created_ms: created_at.0,
            updated_ms: updated_at.0,
        }
    }

    fn version(shape: &VolumeRecordShape) -> u32 {
        shape.v
    }

    fn read(shape: VolumeRecordShape) -> Result<Self, String> {
        let node = |field, id: &Arc<str>| name(field, id, NodeId::new);
        let users = shape.workloads.iter().map(|id| name("workloads", id, WorkloadId::new));
        Ok(Self {
            key: VolumeKey {
                driver: shape.driver.into(),
                name: name("name", &shape.name, VolumeName::new)?,
            },
            size_gib: shape.size_gib,
            access: shape.access.into(),
            fs_type: shape.fs_type,
            mount_path: shape.mount_path,
            retain: shape.retain,
            standalone: shape.standalone,
            namespace: shape
                .namespace
                .map(|id| name("namespace", &id, NamespaceName::new))
                .transpose()?,
            phase: shape.phase.into(),
            last_error: shape.last_error,
            home: shape.home.map(|id| node("home", &id)).transpose()?,
            left_on: shape
                .left_on
                .iter()
                .map(|id| node("left_on", id))
                .collect::<Result<_, _>>()?,
            used: shape.used,
            users: users.collect::<Result<_, _>>()?,
            created_at: WallMillis(shape.created_ms),
            updated_at: WallMillis(shape.updated_ms),
        })
    }

    const BESIDE: &'static [&'static str] = &[
        "id",
        "sizeGb",
        "accessMode",
        "retainPolicy",
        "workloadRefs",
        "nodeId",
        "createdAt",
        "updatedAt",
    ];

    fn beside(&self, fields: &mut Beside) {
        fields.put("id", &self.key.to_string());
        fields.put("sizeGb", &self.size_gib);
        fields.put("accessMode", self.access.word());
        fields.put("retainPolicy", if self.retain { "Retain" } else { "Delete" });
        let users: Vec<_> = self.users.iter().map(WorkloadId::as_str).collect();
        fields.put("workloadRefs", &users);
        if let Some(home) = &self.home {
            fields.put("nodeId", home.as_str());
        }
        fields.time("createdAt", self.created_at);
        fields.time("updatedAt", self.updated_at);
    }
}
