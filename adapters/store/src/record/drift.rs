//! `/drifts/<node>/<workload>/<type>`

use std::sync::Arc;

use persys_model::drift::{Drift, DriftKind};
use persys_model::id::{NodeId, WorkloadId};
use persys_model::time::WallMillis;
use persys_model::token::Epoch;
use serde::{Deserialize, Serialize};

use super::{Beside, Record, VERSION, is_false, mirror, name};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DriftShape {
    v: u32,
    node: Arc<str>,
    workload: Arc<str>,
    kind: DriftKindShape,
    epoch: u64,
    since_ms: u64,
    #[serde(default, skip_serializing_if = "is_false")]
    ignored: bool,
}

mirror!(DriftKindShape of DriftKind {
    OrphanOnAgent, StateMismatch, RevisionMismatch, MissingOnAgent,
});

impl Record for Drift {
    type Shape = DriftShape;

    fn shape(&self) -> DriftShape {
        let Self { node, workload, kind, epoch, since, ignored } = self;
        DriftShape {
            v: VERSION,
            node: Arc::from(node.as_str()),
            workload: Arc::from(workload.as_str()),
            kind: (*kind).into(),
            epoch: epoch.0,
            since_ms: since.0,
            ignored: *ignored,
        }
    }

    fn version(shape: &DriftShape) -> u32 {
        shape.v
    }

    fn read(shape: DriftShape) -> Result<Self, String> {
        Ok(Self {
            node: name("node", &shape.node, NodeId::new)?,
            workload: name("workload", &shape.workload, WorkloadId::new)?,
            kind: shape.kind.into(),
            epoch: Epoch(shape.epoch),
            since: WallMillis(shape.since_ms),
            ignored: shape.ignored,
        })
    }

    const BESIDE: &'static [&'static str] =
        &["nodeId", "workloadId", "driftType", "detectedAt", "action", "resolved"];

    fn beside(&self, fields: &mut Beside) {
        fields.put("nodeId", self.node.as_str());
        fields.put("workloadId", self.workload.as_str());
        fields.put("driftType", self.kind.word());
        fields.time("detectedAt", self.since);
        fields.put("action", action(self.kind));
        // A record goes when its drift is resolved.
        fields.put("resolved", &false);
    }
}

/// The remedy, in a word.
fn action(kind: DriftKind) -> &'static str {
    match kind {
        DriftKind::OrphanOnAgent => "operator",
        DriftKind::StateMismatch => "align",
        DriftKind::RevisionMismatch => "reapply",
        DriftKind::MissingOnAgent => "retry",
    }
}
