//! `/reconciliation/<id>`
//!
//! Written for operators and never read back, so the record has only the names of the earlier
//! system.

use std::sync::Arc;

use persys_model::id::NodeId;
use persys_model::reconciliation::Reconciliation;
use serde::Serialize;

use super::VERSION;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReconciliationShape<'a> {
    v: u32,
    workload_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<&'a str>,
    action: &'static str,
    success: bool,
    reason: &'a Arc<str>,
    attempted_at: String,
}

/// The bytes of an outcome.
pub(crate) fn encode_reconciliation(one: &Reconciliation) -> Result<Vec<u8>, serde_json::Error> {
    let Reconciliation { workload, node, action, success, reason, attempted_at } = one;
    serde_json::to_vec(&ReconciliationShape {
        v: VERSION,
        workload_id: workload.as_str(),
        node_id: node.as_ref().map(NodeId::as_str),
        action: action.word(),
        success: *success,
        reason,
        attempted_at: attempted_at.rfc3339(),
    })
}
