//! `/history/<workload>/<number>` and `/history/<workload>/spec-<content>`, and the part of a history that
//! stands in the record of its workload.

use std::sync::Arc;

use persys_model::history::{Body, Earlier, History, HistoryParts, Revision};
use persys_model::id::{RevisionId, WorkloadId};
use persys_model::time::WallMillis;
use serde::{Deserialize, Serialize};

use super::spec::SpecShape;
use super::{Record, VERSION, is_false, name};

/// Stands in the record of a workload. Records of releases before histories have none.
#[derive(Serialize, Deserialize)]
pub(super) struct HistoryShape {
    number: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    by: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rolled_back_to: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<EarlierShape>,
}

#[derive(Serialize, Deserialize)]
struct EarlierShape {
    number: u32,
    content: Arc<str>,
    /// A record without it does not tell; the entry of the revision may.
    #[serde(default, skip_serializing_if = "is_false")]
    failed: bool,
}

impl From<&History> for HistoryShape {
    fn from(history: &History) -> Self {
        let HistoryParts { number, since, by, rolled_back_to, earlier } = history.parts();
        let shape = |one: Earlier| EarlierShape {
            number: one.number,
            content: Arc::from(one.content.as_str()),
            failed: one.failed,
        };
        let earlier = earlier.into_iter().map(shape).collect();
        Self { number, since_ms: since.map(|at| at.0), by, rolled_back_to, earlier }
    }
}

impl HistoryShape {
    pub(super) fn read(self) -> Result<History, String> {
        let mut earlier = Vec::new();
        for EarlierShape { number, content, failed } in self.earlier {
            earlier.push(Earlier { number, content: content_name(&content)?, failed });
        }
        Ok(History::from_parts(HistoryParts {
            number: self.number,
            since: self.since_ms.map(WallMillis),
            by: self.by,
            rolled_back_to: self.rolled_back_to,
            earlier,
        }))
    }
}

/// The hash of a content, which is part of a key.
fn content_name(text: &str) -> Result<RevisionId, String> {
    let content = name("content", text, RevisionId::new)?;
    if text.contains('/') { Err("content is not a hash".to_owned()) } else { Ok(content) }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct RevisionShape {
    v: u32,
    workload: Arc<str>,
    number: u32,
    revision: Arc<str>,
    content: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    by: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rolled_back_to: Option<u32>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    failed: Arc<str>,
}

impl Record for Revision {
    type Shape = RevisionShape;

    fn shape(&self) -> RevisionShape {
        let Self { workload, number, revision, content, since, by, rolled_back_to, failed } = self;
        RevisionShape {
            v: VERSION,
            workload: Arc::from(workload.as_str()),
            number: *number,
            revision: Arc::from(revision.as_str()),
            content: Arc::from(content.as_str()),
            since_ms: since.map(|at| at.0),
            by: Arc::clone(by),
            rolled_back_to: *rolled_back_to,
            failed: Arc::clone(failed),
        }
    }

    fn version(shape: &RevisionShape) -> u32 {
        shape.v
    }

    fn read(shape: RevisionShape) -> Result<Self, String> {
        Ok(Self {
            workload: name("workload", &shape.workload, WorkloadId::new)?,
            number: shape.number,
            revision: name("revision", &shape.revision, RevisionId::new)?,
            content: content_name(&shape.content)?,
            since: shape.since_ms.map(WallMillis),
            by: shape.by,
            rolled_back_to: shape.rolled_back_to,
            failed: shape.failed,
        })
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct BodyShape {
    v: u32,
    workload: Arc<str>,
    content: Arc<str>,
    spec: SpecShape,
}

impl Record for Body {
    type Shape = BodyShape;

    fn shape(&self) -> BodyShape {
        let Self { workload, content, spec } = self;
        BodyShape {
            v: VERSION,
            workload: Arc::from(workload.as_str()),
            content: Arc::from(content.as_str()),
            spec: SpecShape::from(&**spec),
        }
    }

    fn version(shape: &BodyShape) -> u32 {
        shape.v
    }

    fn read(shape: BodyShape) -> Result<Self, String> {
        Ok(Self {
            workload: name("workload", &shape.workload, WorkloadId::new)?,
            content: content_name(&shape.content)?,
            spec: Arc::new(shape.spec.read()?),
        })
    }
}
