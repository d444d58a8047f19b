//! `/workloads/<id>`

use std::sync::Arc;

use persys_model::id::{RevisionId, WorkloadId};
use persys_model::time::WallMillis;
use persys_model::token::Generation;
use persys_model::workload::{Desired, Workload};
use serde::{Deserialize, Serialize};

use super::spec::SpecShape;
use super::{Record, VERSION, mirror, name};

#[derive(Serialize, Deserialize)]
pub(crate) struct WorkloadShape {
    v: u32,
    id: Arc<str>,
    revision: Arc<str>,
    generation: u64,
    desired: DesiredShape,
    created_ms: u64,
    spec: SpecShape,
}

mirror!(DesiredShape of Desired { Running, Stopped, Deleted });

impl Record for Workload {
    type Shape = WorkloadShape;

    fn shape(&self) -> WorkloadShape {
        let Self { id, spec, revision, generation, desired, created_at } = self;
        WorkloadShape {
            v: VERSION,
            id: Arc::from(id.as_str()),
            revision: Arc::from(revision.as_str()),
            generation: generation.0,
            desired: (*desired).into(),
            created_ms: created_at.0,
            spec: SpecShape::from(&**spec),
        }
    }

    fn version(shape: &WorkloadShape) -> u32 {
        shape.v
    }

    fn read(shape: WorkloadShape) -> Result<Self, String> {
        Ok(Self {
            id: name("id", &shape.id, WorkloadId::new)?,
            spec: Arc::new(shape.spec.read()?),
            revision: name("revision", &shape.revision, RevisionId::new)?,
            generation: Generation(shape.generation),
            desired: shape.desired.into(),
            created_at: WallMillis(shape.created_ms),
        })
    }
}
