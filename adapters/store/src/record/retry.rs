//! `/retries/<id>`

use std::sync::Arc;

use persys_model::id::{NodeId, WorkloadId};
use persys_model::retry::Retry;
use persys_model::time::WallMillis;
use serde::{Deserialize, Serialize};

use super::{Beside, Record, VERSION, name};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RetryShape {
    v: u32,
    workload: Arc<str>,
    attempts: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    max_attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    avoid: Vec<Arc<str>>,
}

impl Record for Retry {
    type Shape = RetryShape;

    fn shape(&self) -> RetryShape {
        let Self { workload, attempts, max_attempts, next_at, avoid } = self;
        RetryShape {
            v: VERSION,
            workload: Arc::from(workload.as_str()),
            attempts: *attempts,
            max_attempts: *max_attempts,
            next_ms: next_at.map(|at| at.0),
            avoid: avoid.iter().map(|node| Arc::from(node.as_str())).collect(),
        }
    }

    fn version(shape: &RetryShape) -> u32 {
        shape.v
    }

    fn read(shape: RetryShape) -> Result<Self, String> {
        let avoid: Result<Vec<_>, _> =
            shape.avoid.iter().map(|node| name("avoid", node, NodeId::new)).collect();
        Ok(Self {
            workload: name("workload", &shape.workload, WorkloadId::new)?,
            attempts: shape.attempts,
            max_attempts: shape.max_attempts,
            next_at: shape.next_ms.map(WallMillis),
            avoid: avoid?,
        })
    }

    const BESIDE: &'static [&'static str] = &["workloadId", "maxAttempts", "nextRetryAt"];

    fn beside(&self, fields: &mut Beside) {
        fields.put("workloadId", self.workload.as_str());
        fields.put("maxAttempts", &self.max_attempts);
        if let Some(at) = self.next_at {
            fields.time("nextRetryAt", at);
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}
