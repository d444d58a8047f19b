//! `/workloads/<id>`

use std::sync::Arc;

use persys_model::history::History;
use persys_model::id::{RevisionId, WorkloadId};
use persys_model::spec::Kind;
use persys_model::time::WallMillis;
use persys_model::token::Generation;
use persys_model::workload::{Desired, Workload};
use serde::{Deserialize, Serialize};

use super::history::HistoryShape;
use super::spec::SpecShape;
use super::{Beside, Record, VERSION, name};

#[derive(Serialize, Deserialize)]
pub(crate) struct WorkloadShape {
    v: u32,
    id: Arc<str>,
    revision: Arc<str>,
    generation: u64,
    desired: DesiredShape,
    /// Beside `Running`: it is to be paused. Releases that do not know this have it run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    paused: bool,
    created_ms: u64,
    /// Records of earlier releases have a history of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    history: Option<HistoryShape>,
    spec: SpecShape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum DesiredShape {
    Running,
    Stopped,
    Deleted,
}

fn desired_shape(desired: Desired) -> DesiredShape {
    match desired {
        Desired::Running | Desired::Paused => DesiredShape::Running,
        Desired::Stopped => DesiredShape::Stopped,
        Desired::Deleted => DesiredShape::Deleted,
    }
}

fn read_desired(shape: DesiredShape, paused: bool) -> Desired {
    match shape {
        DesiredShape::Running if paused => Desired::Paused,
        DesiredShape::Running => Desired::Running,
        DesiredShape::Stopped => Desired::Stopped,
        DesiredShape::Deleted => Desired::Deleted,
    }
}

impl Record for Workload {
    type Shape = WorkloadShape;

    fn shape(&self) -> WorkloadShape {
        let Self { id, spec, revision, generation, desired, created_at, history } = self;
        WorkloadShape {
            v: VERSION,
            id: Arc::from(id.as_str()),
            revision: Arc::from(revision.as_str()),
            generation: generation.0,
            desired: desired_shape(*desired),
            paused: *desired == Desired::Paused,
            created_ms: created_at.0,
            history: (*history != History::default()).then(|| HistoryShape::from(history)),
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
            desired: read_desired(shape.desired, shape.paused),
            created_at: WallMillis(shape.created_ms),
            history: shape.history.map(HistoryShape::read).transpose()?.unwrap_or_default(),
        })
    }

    const BESIDE: &'static [&'static str] =
        &["type", "revisionId", "desiredState", "createdAt", "image"];

    fn beside(&self, fields: &mut Beside) {
        fields.put("type", self.spec.workload_type().word());
        fields.put("revisionId", self.revision.as_str());
        fields.put("desiredState", self.desired.word());
        fields.time("createdAt", self.created_at);
        if let Kind::Container(container) = &self.spec.kind {
            fields.put("image", &*container.image);
        }
    }
}
