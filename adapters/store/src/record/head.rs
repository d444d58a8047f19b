//! `/meta/head`: the counters of the cluster.

use std::sync::Arc;

use persys_cluster::record::Head;
use persys_model::audit::AuditHead;
use persys_model::token::{CommitSeq, Epoch, EventSeq};
use serde::{Deserialize, Serialize};

use super::audit::AuditHeadShape;
use super::{Record, VERSION};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HeadShape {
    v: u32,
    cluster: Arc<str>,
    incarnation: u64,
    seq: u64,
    epoch: u64,
    event: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    audit: Option<AuditHeadShape>,
    /// Left out when it does not hold, as it hardly ever does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    rebuilding: bool,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    mark_key: Arc<str>,
}

impl Record for Head {
    type Shape = HeadShape;

    fn shape(&self) -> HeadShape {
        let Self { cluster, incarnation, seq, epoch, event, audit, rebuilding, mark_key } = self;
        HeadShape {
            v: VERSION,
            cluster: Arc::clone(cluster),
            incarnation: *incarnation,
            seq: seq.0,
            epoch: epoch.0,
            event: event.0,
            audit: (*audit != AuditHead::default()).then(|| (*audit).into()),
            rebuilding: *rebuilding,
            mark_key: Arc::clone(mark_key),
        }
    }

    fn version(shape: &HeadShape) -> u32 {
        shape.v
    }

    fn read(shape: HeadShape) -> Result<Self, String> {
        Ok(Self {
            cluster: shape.cluster,
            incarnation: shape.incarnation,
            seq: CommitSeq(shape.seq),
            epoch: Epoch(shape.epoch),
            event: EventSeq(shape.event),
            audit: shape.audit.map(AuditHeadShape::read).transpose()?.unwrap_or_default(),
            rebuilding: shape.rebuilding,
            mark_key: shape.mark_key,
        })
    }
}
