//! Lists as older versions print them.

use persys_proto::control::v1::{NodeView, WorkloadView};
use persys_proto::json::{self, Style};
use serde_json::{Map, Value, json};

/// One workload of a list.
pub(super) fn workload(view: &WorkloadView) -> Value {
    let mut shown = Map::new();
    let mut add = |key: &str, value: Value| {
        let empty = value.is_null() || value.as_str() == Some("");
        if !empty {
            shown.insert(key.to_owned(), value);
        }
    };
    add("id", json!(view.workload_id));
    add("type", json!(view.r#type));
    add("status", json!(view.status));
    add("nodeId", json!(view.assigned_node_id));
    add("desiredState", json!(view.desired_state));
    add("revisionId", json!(view.revision_id));
    add("failureReason", json!(view.failure_reason));
    let moment = |at: &Option<prost_types::Timestamp>| match at {
        Some(at) => json!(at.to_string()),
        None => Value::Null,
    };
    add("createdAt", moment(&view.created_at));
    add("lastUpdated", moment(&view.last_updated));
    if let Some(reason) = &view.reason {
        add("reason", json::write("persys.control.v1.ReasonDetail", reason, Style::Camel));
        add("message", json!(reason.message));
    }
    if let Some(usage) = &view.usage {
        add("usage", json::write("persys.control.v1.WorkloadUsageSnapshot", usage, Style::Camel));
    }
    if view.retry_attempts > 0 || view.retry_max_attempts > 0 {
        let mut retry = Map::new();
        retry.insert("attempts".to_owned(), json!(view.retry_attempts));
        retry.insert("max".to_owned(), json!(view.retry_max_attempts));
        if let Some(at) = &view.retry_next_at {
            retry.insert("nextAt".to_owned(), json!(at.to_string()));
        }
        add("retry", Value::Object(retry));
    }
    Value::Object(shown)
}

/// One node of a list. CPU is in millicores.
pub(super) fn node(view: &NodeView) -> Value {
    // Cores come as a fraction with three places; the sum of rounding is less than one of them.
    let millicores = (view.total_cpu_cores * 1000.0).round();
    json!({
        "nodeId": view.node_id,
        "ipAddress": view.grpc_endpoint,
        "status": view.status,
        "lastHeartbeat": view.last_heartbeat.as_ref().map(ToString::to_string),
        "resources": {"cpu": millicores, "memory": view.total_memory_mb},
        "labels": view.labels,
    })
}

#[cfg(test)]
mod tests {
    use persys_proto::control::v1::ReasonDetail;

    use super::*;

    #[test]
    fn lists_have_the_keys_programs_look_for() {
        let view = WorkloadView {
            workload_id: "web".to_owned(),
            r#type: "container".to_owned(),
            status: "Running".to_owned(),
            assigned_node_id: "n1".to_owned(),
            retry_max_attempts: 5,
            reason: Some(ReasonDetail { code: "Running".to_owned(), ..Default::default() }),
            ..WorkloadView::default()
        };
        assert_eq!(
            workload(&view),
            json!({
                "id": "web",
                "type": "container",
                "status": "Running",
                "nodeId": "n1",
                "retry": {"attempts": 0, "max": 5},
                "reason": {"code": "Running"},
            })
        );
        let view = NodeView {
            node_id: "n1".to_owned(),
            total_cpu_cores: 1.5,
            total_memory_mb: 512,
            ..NodeView::default()
        };
        assert_eq!(
            node(&view),
            json!({
                "nodeId": "n1", "ipAddress": "", "status": "", "lastHeartbeat": null,
                "resources": {"cpu": 1500.0, "memory": 512}, "labels": {},
            })
        );
    }
}
