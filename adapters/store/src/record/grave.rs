//! `/graves/<node>/<workload>`

use std::sync::Arc;

use persys_model::assignment::Grave;
use persys_model::id::NodeId;
use persys_model::token::Epoch;
use persys_model::volume::order_id;
use serde::{Deserialize, Serialize};

use super::assignment::VersionShape;
use super::resources::ResourcesShape;
use super::{Record, VERSION, name};

#[derive(Serialize, Deserialize)]
pub(crate) struct GraveShape {
    v: u32,
    node: Arc<str>,
    workload: Arc<str>,
    epoch: u64,
    reserved: ResourcesShape,
    /// Releases that do not know this leave a copy alone that only this could stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<VersionShape>,
}

impl Record for Grave {
    type Shape = GraveShape;

    fn shape(&self) -> GraveShape {
        let Self { workload, node, epoch, reserved, version } = self;
        GraveShape {
            v: VERSION,
            node: Arc::from(node.as_str()),
            workload: Arc::from(workload.as_str()),
            epoch: epoch.0,
            reserved: reserved.into(),
            version: version.as_ref().map(VersionShape::from),
        }
    }

    fn version(shape: &GraveShape) -> u32 {
        shape.v
    }

    fn read(shape: GraveShape) -> Result<Self, String> {
        Ok(Self {
            workload: name("workload", &shape.workload, order_id)?,
            node: name("node", &shape.node, NodeId::new)?,
            epoch: Epoch(shape.epoch),
            reserved: shape.reserved.read()?,
            version: shape.version.map(|version| version.read("version.revision")).transpose()?,
        })
    }
}
