//! `/attachments/<node>/<workload>/<driver>:<name>`

use std::sync::Arc;

use persys_model::id::{NodeId, VolumeName, WorkloadId};
use persys_model::time::WallMillis;
use persys_model::volume::{Attachment, AttachmentPhase, VolumeKey};
use serde::{Deserialize, Serialize};

use super::spec::volume::DriverShape;
use super::{Beside, Record, VERSION, is_false, mirror, name};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AttachmentShape {
    v: u32,
    node: Arc<str>,
    workload: Arc<str>,
    driver: DriverShape,
    volume: Arc<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    mount_path: Arc<str>,
    #[serde(default, skip_serializing_if = "is_false")]
    read_only: bool,
    phase: AttachmentPhaseShape,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    last_error: Arc<str>,
    since_ms: u64,
    created_ms: u64,
}

mirror!(AttachmentPhaseShape of AttachmentPhase {
    Detaching, Resting, Attaching, Attached, Error,
});

impl Record for Attachment {
    type Shape = AttachmentShape;

    fn shape(&self) -> AttachmentShape {
        let Self {
            node,
            workload,
            volume,
            mount_path,
            read_only,
            phase,
            last_error,
            since,
            created_at,
        } = self;
        AttachmentShape {
            v: VERSION,
            node: Arc::from(node.as_str()),
            workload: Arc::from(workload.as_str()),
            driver: volume.driver.into(),
            volume: Arc::from(volume.name.as_str()),
            mount_path: Arc::clone(mount_path),
            read_only: *read_only,
            phase: (*phase).into(),
            last_error: Arc::clone(last_error),
            since_ms: since.0,
            created_ms: created_at.0,
        }
    }

    fn version(shape: &AttachmentShape) -> u32 {
        shape.v
    }

    fn read(shape: AttachmentShape) -> Result<Self, String> {
        Ok(Self {
            node: name("node", &shape.node, NodeId::new)?,
            workload: name("workload", &shape.workload, WorkloadId::new)?,
            volume: VolumeKey {
                driver: shape.driver.into(),
                name: name("volume", &shape.volume, VolumeName::new)?,
            },
            mount_path: shape.mount_path,
            read_only: shape.read_only,
            phase: shape.phase.into(),
            last_error: shape.last_error,
            since: WallMillis(shape.since_ms),
            created_at: WallMillis(shape.created_ms),
        })
    }

    const BESIDE: &'static [&'static str] = &[
        "id",
        "volumeId",
        "workloadId",
        "nodeId",
        "mountPath",
        "readOnly",
        "lastTransition",
        "createdAt",
    ];

    fn beside(&self, fields: &mut Beside) {
        let Self { node, workload, volume, .. } = self;
        fields.put("id", &format!("{node}/{workload}/{volume}"));
        fields.put("volumeId", &volume.to_string());
        fields.put("workloadId", workload.as_str());
        fields.put("nodeId", node.as_str());
        fields.put("mountPath", &*self.mount_path);
        fields.put("readOnly", &self.read_only);
        fields.time("lastTransition", self.since);
        fields.time("createdAt", self.created_at);
    }
}
